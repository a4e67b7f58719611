// SPDX-License-Identifier: Apache-2.0

package save

import (
	"cmp"
	"maps"
	"slices"
	"time"

	"github.com/berth-project/berth/pkg/compute"
	"github.com/berth-project/berth/pkg/sorted"
)

// Saver remembers which work waits and which hosts save for it. It is not safe for concurrent use; times must not go
// backwards.
type Saver struct {
	rules  Rules
	world  World
	queues map[compute.QueueName]*queue
	looked time.Time                    // when it was last asked
	some   bool                         // work waited then, or hosts saved
	looks  int                          // for how many builds it was found out then whether some host may have them
	spent  map[compute.HostID]time.Time // when each host was told that it need not save any more, of late
	rests  map[compute.HostID]time.Time // until when hosts that saved in vain have what is free for other work
}

// queue is one in which work waits.
type queue struct {
	name  compute.QueueName
	seen  map[string]*wait // what is known of each of its first builds
	first []Build          // these
	// room is how many of them lie before the first placeholder, and no host takes: for so many hosts may make room
	room   int
	class  compute.Priority
	late   []Build   // of them: those that have waited long enough and no host takes, in their order
	since  time.Time // since when the first of those waits
	short  bool      // there were some while no host fitted
	savers map[compute.HostID]*saver
	failed int       // savings in vain since the last that was not, or pause
	vain   int       // pauses in a row
	rests  time.Time // no host saves for it until then
	// again is until when no host is looked for, for the last look found none.
	again time.Time
	// moved is until when, while as many hosts let room lie idle as may, none is looked for that could have machines
	// taken away instead, for the last look found no such host.
	moved time.Time
	tried map[compute.HostID]int // how often each has saved in vain
}

// wait is what is known of a build that waits.
type wait struct {
	since     time.Time // when it was seen first
	asked     time.Time // when it was found out last whether some host may have it; zero: never yet
	placeable bool      // what came of that
}

// saver is a host that was told to save, or says that it does.
type saver struct {
	since, until time.Time
	told         time.Time
	times        int  // told without having said so
	said         bool // its beacon has said so
	preempt      bool // it may have preemptible machines taken away for it
	// its agent has ended or begins: it will not remember the saving, only which machines go
	away bool
}

// New is a saver that knows of nothing.
func New(r Rules, w World) *Saver {
	return &Saver{rules: r, world: w, queues: map[compute.QueueName]*queue{}, spent: map[compute.HostID]time.Time{},
		rests: map[compute.HostID]time.Time{}}
}

// Reset forgets everything: another queue manager has chosen until now.
func (s *Saver) Reset() {
	clear(s.queues)
	clear(s.rests)
	s.looked, s.some = time.Time{}, false
}

// Next is when Tell should be asked again though nothing comes; zero: when work comes.
func (s *Saver) Next() time.Time {
	if !s.some {
		return time.Time{}
	}
	return s.looked.Add(Every)
}

// Saved is for how many queues hosts save, and how many hosts do.
func (s *Saver) Saved() (queues, hosts int) {
	for _, q := range s.queues {
		if hosts += len(q.savers); len(q.savers) > 0 {
			queues++
		}
	}
	return queues, hosts
}

// Late says whether work of a queue has waited for long, and for a while of that fitted no host.
func (s *Saver) Late(q compute.QueueName) bool {
	x := s.queues[q]
	return x != nil && x.short
}

// Tell is what hosts are to be told now; it counts as told. Asked too early it answers nothing.
func (s *Saver) Tell(now time.Time) (out []Told) {
	if s.rules.After == 0 || now.Sub(s.looked) < Every && !s.looked.IsZero() {
		return nil
	}
	s.looked = now
	s.note(now)
	s.extend(now)
	out = append(s.dismiss(now), s.adopt(now)...)
	for _, q := range s.byAge() {
		out = append(out, s.repeat(q, now)...)
	}
	out = append(out, s.choose(now)...)
	s.some = len(s.queues) > 0
	return out
}

// note takes in what waits.
func (s *Saver) note(now time.Time) {
	waits := map[compute.QueueName]bool{}
	s.looks = 0
	s.world.Waiting(now, func(name compute.QueueName, first []Build, taken int) {
		waits[name] = true
		q := s.queue(name)
		seen := make(map[string]*wait, len(first))
		q.late, q.since, q.class = nil, time.Time{}, first[0].Class
		for i, b := range first {
			w := q.seen[b.Key]
			if w == nil {
				w = &wait{since: now}
			}
			seen[b.Key] = w
			if i < taken { // queues are first in, first out, so these are most likely the ones
				continue
			}
			if now.Sub(w.since) >= s.rules.After && s.placeable(name, b, w, now) {
				q.late = append(q.late, b)
				if q.since.IsZero() || w.since.Before(q.since) {
					q.since = w.since
				}
			}
		}
		q.seen, q.first, q.room = seen, first, beforePlaceholders(first[min(taken, len(first)):])
		q.short = len(q.late) > 0 && (q.short || !s.world.FitsSome(name, q.late[0].Not))
	})
	for name, q := range s.queues {
		if waits[name] {
			continue
		}
		if q.late, q.seen, q.first, q.room, q.short = nil, nil, nil, 0, false; len(q.savers) == 0 {
			delete(s.queues, name)
		}
	}
}

// beforePlaceholders is how many builds lie before the first placeholder. What is behind one would leave it the room.
func beforePlaceholders(builds []Build) int {
	n := slices.IndexFunc(builds, func(b Build) bool { return b.Placeholder })
	if n < 0 {
		return len(builds)
	}
	return n
}

func (s *Saver) queue(name compute.QueueName) *queue {
	q := s.queues[name]
	if q == nil {
		q = &queue{name: name, savers: map[compute.HostID]*saver{}, tried: map[compute.HostID]int{}}
		s.queues[name] = q
	}
	return q
}

// extend has a host save on for as long as guests may have to stop that it has asked for their places: what they leave
// is for the work for which they went. One that has the room already saves no longer than others: what waits may be for
// no host, as where a group has its members, and other work would not be taken meanwhile.
func (s *Saver) extend(now time.Time) {
	for name, q := range s.queues {
		for h, x := range q.savers {
			last := x.since.Add(s.rules.For + compute.MaxGrace)
			if x.until.Sub(now) < toldEvery && now.Before(x.until) && x.until.Before(last) && s.asked(name, h) &&
				s.world.IsFull(name, h) {
				x.until, x.told = sorted.Sooner(now.Add(2*toldEvery), last), time.Time{} // and is told so
			}
		}
	}
}

// asked says whether a host says that it has the room for the queue, or will once those have gone whose places it has
// asked for.
func (s *Saver) asked(q compute.QueueName, h compute.HostID) bool {
	says, _ := s.world.Saves(h)
	return says.For() == q && says.Preempt
}

// dismiss forgets the savings that are over, and ends those that nothing waits for any more.
func (s *Saver) dismiss(now time.Time) (out []Told) {
	for _, name := range slices.Sorted(maps.Keys(s.queues)) {
		q := s.queues[name]
		for _, h := range q.hosts() {
			x := q.savers[h]
			says, known := s.world.Saves(h)
			if x.away && known {
				x.away, x.said, x.told, x.times = false, false, time.Time{}, 0
			}
			switch {
			case !known && x.preempt && s.world.Restarts(h) && now.Before(x.until):
				x.away = true // its machines go all the same; told again, it saves what they leave, and no other host's go
			case !known || says.For() != "" && says.For() != name || x.said && says == nil && now.Before(x.until):
				delete(q.savers, h) // it has taken its work, or has stopped by itself
				q.vain, q.failed = 0, 0
			case !now.Before(x.until):
				delete(q.savers, h)
				q.inVain(h, s.rules, now)
				s.rests[h] = now.Add(s.rules.For)
			}
			if says.For() == name {
				x.said = true
			}
		}
		most := min(len(q.seen), s.rules.Each) // not late ones: after an election there are none yet
		for _, h := range q.newest() {
			if len(q.savers) <= most && q.mayServe(h) {
				continue
			}
			delete(q.savers, h)
			out = append(out, s.spend(h, name, now))
		}
		if len(q.seen) == 0 && len(q.savers) == 0 {
			delete(s.queues, name)
		}
	}
	return out
}

// mayServe says whether a host may have something of what waits. What it saved for may have gone elsewhere, and what is
// left avoid it.
func (q *queue) mayServe(h compute.HostID) bool {
	return len(q.first) == 0 || slices.ContainsFunc(q.first, func(b Build) bool { return b.May(h) })
}

// spend tells a host that it need not save any more.
func (s *Saver) spend(h compute.HostID, q compute.QueueName, now time.Time) Told {
	maps.DeleteFunc(s.spent, func(_ compute.HostID, at time.Time) bool { return now.Sub(at) >= toldEvery })
	s.spent[h] = now
	return Told{h, compute.Look{Queue: q, Spend: true}}
}

// inVain has the queue pause: what was kept free for it others shall have for as long, and longer each time.
func (q *queue) inVain(h compute.HostID, r Rules, now time.Time) {
	q.tried[h]++
	if q.failed++; q.failed < len(q.savers)+1 {
		return
	}
	q.vain, q.failed = q.vain+1, 0
	q.rests = now.Add(min(r.For<<min(q.vain-1, mostPauses), r.MostPause()))
}

// adopt takes hosts that say that they save though nobody here has told them to: a queue manager before did. Where
// nothing waits that they could save for they are told so.
func (s *Saver) adopt(now time.Time) (out []Told) {
	s.world.EachSaver(func(h compute.HostID, says compute.Saving, heard time.Time) {
		q := s.queues[says.Queue]
		until := heard.Add(says.Left)
		switch {
		case q == nil || !q.mayServe(h):
			if now.Before(until) && now.Sub(s.spent[h]) >= toldEvery {
				out = append(out, s.spend(h, says.Queue, now))
			}
		case now.Before(q.rests): // it ended in vain a moment ago, and says so soon
		case q.savers[h] == nil && now.Before(until) && len(q.savers) < s.rules.Each:
			q.savers[h] = &saver{since: heard.Add(-says.Age), until: until, told: now, said: true, preempt: says.Preempt}
		}
	})
	return out
}

// repeat tells the hosts that save for a queue once more, now and then.
func (s *Saver) repeat(q *queue, now time.Time) (out []Told) {
	for i, h := range q.hosts() {
		x := q.savers[h]
		if x.away || now.Sub(x.told) < toldEvery {
			continue
		}
		if x.times++; !x.said && x.times >= mostUnsaid {
			delete(q.savers, h)
			q.tried[h]++
			continue
		}
		x.told, x.preempt = now, x.preempt || s.makesRoom(q, h)
		out = append(out, Told{h, compute.Look{Queue: q.name, Save: x.until.Sub(now), Preempt: x.preempt && i < q.room}})
	}
	return out
}

// choose finds hosts for what has waited longest. What a host saves for which machines are taken away does not lie
// idle, so those hosts are not of the few, from when on they say that machines go.
func (s *Saver) choose(now time.Time) (out []Told) {
	maps.DeleteFunc(s.rests, func(_ compute.HostID, until time.Time) bool { return !now.Before(until) })
	busy, idle, stuck := s.busy()
	most, looked := max(1, s.world.TakesWork()/s.rules.Share), 0
	for _, q := range s.byAge() {
		full := len(idle) >= most
		if looked == mostLooked {
			break
		}
		if full && (q.class == compute.PriorityLow || now.Before(q.moved)) || !q.wants(s.rules, now) ||
			s.world.FitsSome(q.name, q.late[0].Not) {
			continue
		}
		h, found, some := s.best(q, q.late[min(len(q.savers), len(q.late)-1)], busy, now)
		if some {
			looked++ // where no host is full there was nothing to look through
		}
		preempt := found && s.roomAt(q, h) && stuck < most
		switch {
		case full && !preempt:
			q.moved = now.Add(lookedEvery)
			continue
		case !found:
			q.again = now.Add(lookedEvery)
			continue
		}
		busy[h], idle[h] = true, true
		q.savers[h] = &saver{since: now, until: now.Add(s.rules.For), told: now, times: 1, preempt: preempt}
		out = append(out, Told{h, compute.Look{Queue: q.name, Save: s.rules.For, Preempt: preempt}})
	}
	return out
}

// busy are the hosts that save, and those of them on which what is free lies idle; stuck is how many of those cannot
// make the room though sums said that they could.
func (s *Saver) busy() (busy, idle map[compute.HostID]bool, stuck int) {
	busy, idle = map[compute.HostID]bool{}, map[compute.HostID]bool{}
	note := func(h compute.HostID, asked bool) {
		if busy[h] = true; !asked {
			idle[h] = true
		}
	}
	s.world.EachSaver(func(h compute.HostID, says compute.Saving, _ time.Time) { note(h, says.Preempt) })
	for _, q := range s.queues {
		for h, x := range q.savers {
			makes := x.away || s.asked(q.name, h)
			if note(h, makes); x.preempt && x.said && !makes {
				stuck++
			}
		}
	}
	return busy, idle, stuck
}

// roomAt says whether machines on a host may go so that a queue's work fits, and it has not saved for that in vain:
// where NUMA nodes or devices do not allow it, sums say so all the same.
func (s *Saver) roomAt(q *queue, h compute.HostID) bool { return q.tried[h] == 0 && s.makesRoom(q, h) }

// makesRoom says whether a host may have machines taken away for a queue, and whether that would do.
func (s *Saver) makesRoom(q *queue, h compute.HostID) bool {
	return q.class != compute.PriorityLow && s.world.MakesRoom(q.name, h) && q.making(h) < q.room
}

// making is how many hosts but this one may have machines taken away for a queue.
func (q *queue) making(but compute.HostID) (n int) {
	for h, x := range q.savers {
		if x.preempt && h != but {
			n++
		}
	}
	return n
}

// wants says whether another host is to save for the queue.
func (q *queue) wants(r Rules, now time.Time) bool {
	return len(q.savers) < min(len(q.late), r.Each) && !now.Before(q.rests) && !now.Before(q.again)
}

// best is the host that saves best for a build: one on which it has room once preemptible machines have been taken away
// rather than another, then the one that has saved for its queue in vain least often, and of those the one that lacks
// least. One that has just saved in vain, for any queue, is none: where hosts are few they would save for one queue after
// the other, and other work would never be taken.
func (s *Saver) best(
	q *queue, b Build, busy map[compute.HostID]bool, now time.Time,
) (best compute.HostID, found, some bool) {
	least, makes := 0.0, false
	s.world.Full(q.name, func(h compute.HostID, missing float64) {
		some = true
		room := s.roomAt(q, h)
		if busy[h] || !b.May(h) || !room && now.Before(s.rests[h]) {
			return
		}
		c := cmp.Or(sorted.TrueFirst(room, makes), cmp.Compare(q.tried[h], q.tried[best]), cmp.Compare(missing, least),
			cmp.Compare(h, best))
		if !found || c < 0 {
			best, least, makes, found = h, missing, room, true
		}
	})
	return best, found, some
}

// placeable says whether some host may have a build, now or when it is emptier. What none may have is late for nobody.
// The answer takes a look at all hosts, so it is kept for a while, and few are found out at once: a build for which
// that was never done is not late yet. Queues come in no order, and half of the looks are for such builds, so all have
// their turn.
func (s *Saver) placeable(q compute.QueueName, b Build, w *wait, now time.Time) bool {
	if b.Not == nil {
		return true
	}
	first, again := w.asked.IsZero(), now.Sub(w.asked) >= lookedEvery && s.looks < mostAsked/2
	if s.looks < mostAsked && (first || again) {
		s.looks++
		w.asked, w.placeable = now, s.someMay(q, b)
	}
	return w.placeable
}

// someMay looks through all hosts for one that may have a build.
func (s *Saver) someMay(q compute.QueueName, b Build) (some bool) {
	if s.world.FitsSome(q, b.Not) {
		return true
	}
	s.world.Full(q, func(h compute.HostID, _ float64) { some = some || b.May(h) })
	return some
}

// byAge are the queues, that of the work that has waited longest first, as classes of priority count that.
func (s *Saver) byAge() []*queue {
	return slices.SortedFunc(maps.Values(s.queues), func(a, b *queue) int {
		return cmp.Or(sorted.TrueFirst(len(a.late) > 0, len(b.late) > 0),
			a.class.Rank(a.since).Compare(b.class.Rank(b.since)), cmp.Compare(a.name, b.name))
	})
}

// hosts are those that save for the queue, by name.
func (q *queue) hosts() []compute.HostID { return slices.Sorted(maps.Keys(q.savers)) }

// newest are those that save for the queue, the one that began last first.
func (q *queue) newest() []compute.HostID {
	return slices.SortedFunc(maps.Keys(q.savers), func(a, b compute.HostID) int {
		return cmp.Or(q.savers[b].since.Compare(q.savers[a].since), cmp.Compare(a, b))
	})
}
