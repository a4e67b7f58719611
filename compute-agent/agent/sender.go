// SPDX-License-Identifier: Apache-2.0

package agent

import (
	"slices"
	"sync"
	"time"

	"go.uber.org/zap"

	"github.com/berth-project/berth/pkg/compute"
	"github.com/berth-project/berth/pkg/wire"
)

// sender says things until Kafka has them. Each destination stands for itself (decision 0041): while a partition has
// no leader, only what goes there waits.
//
//	say ─▶ waiting ─▶ batch: what goes to destinations that are not busy ─▶ one SendEach
//	                    ├─ acknowledged ─▶ settled; the destination is not busy any more
//	                    ├─ not answered within parkAfter: the next batch does not wait for it
//	                    └─ refused ─▶ repeat: that destination's part is sent again until it is acknowledged
//
// For each destination one part is under way at a time: what is said of an instance arrives in the order in which it
// was put, and the counters of signed records only rise (hostkey.Heard). That bounds the goroutines, too. What waits to
// be said again anyway is not said twice, and what is tooLate is not said at all.
type sender struct {
	reporter   Reporter
	log        *zap.Logger
	retry      time.Duration
	partitions int32        // of reports
	acked      func([]said) // called from the sender's goroutines

	mu      sync.Mutex
	waiting []said               // the oldest first
	at      map[saidKey]int      // places in waiting
	busy    map[destination]bool // a part for it is under way
	late    map[destination]bool // and was not answered within parkAfter, or refused
	total   int                  // how many were ever put
	done    int                  // so many of the first ones are settled
	open    map[int]destination  // of those that are not, by number
	news    chan struct{}

	running sync.WaitGroup // sends under way
}

// said is a record to send; key is zero for one that nothing replaces.
type said struct {
	key    saidKey
	report *compute.Report
	beacon bool
	rec    wire.Record
	to     destination
	number int       // counted from 1, in the order put
	since  time.Time // when it was said last
}

type saidKey struct {
	op       compute.ReportOp
	instance compute.InstanceID
	attempt  compute.Attempt
	claim    compute.ClaimID
	version  compute.Version
	command  compute.CommandID
	beacon   bool
}

// destination is where a record goes: a partition has a leader, or has none, for itself.
type destination struct {
	topic     string
	partition int32
}

func newSender(o Options, acked func([]said)) *sender {
	return &sender{
		reporter: o.Reporter, log: o.Log, retry: o.Timing.Retry, partitions: o.Partitions, acked: acked,
		at: map[saidKey]int{}, busy: map[destination]bool{}, late: map[destination]bool{},
		open: map[int]destination{}, news: make(chan struct{}, 1),
	}
}

// say queues records.
func (s *sender) say(list ...said) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, x := range list {
		s.queue(x)
	}
	s.wake()
}

func (s *sender) wake() {
	select {
	case s.news <- struct{}{}:
	default:
	}
}

// queue is called with the lock held. What is said again takes the place of the same that waits. If something else
// about the instance was said in between, it goes behind that: conductors believe what arrives last. It keeps the number,
// so that what waits until the first is acknowledged (settled, greeted) waits for this now.
func (s *sender) queue(x said) {
	x.to, x.key, x.since = s.destinationOf(x.rec), keyOf(x), time.Now()
	i, again := s.at[x.key]
	switch {
	case !again:
		s.total++
		x.number = s.total
		s.open[x.number] = x.to
	case s.waiting[i].beacon || !s.behind(i):
		x.number = s.waiting[i].number
		s.waiting[i] = x
		return
	default:
		x.number = s.waiting[i].number
		s.keep(slices.Delete(s.waiting, i, i+1))
	}
	if x.key != (saidKey{}) {
		s.at[x.key] = len(s.waiting)
	}
	s.waiting = append(s.waiting, x)
}

func keyOf(x said) saidKey {
	if r := x.report; r != nil {
		return saidKey{r.Op, r.Instance, r.Attempt, r.Claim, r.Version, r.Command, false}
	}
	return saidKey{beacon: x.beacon}
}

// destinationOf is exact for reports. Of a topic with more partitions than that, several count as one destination.
func (s *sender) destinationOf(rec wire.Record) destination {
	to := destination{rec.Topic, rec.Partition}
	if to.partition == wire.AnyPartition && len(rec.Key) > 0 && s.partitions > 0 {
		to.partition = wire.Partition(compute.Project(rec.Key), s.partitions)
	}
	return to
}

// behind says whether something else about the same instance waits behind a place in waiting.
func (s *sender) behind(i int) bool {
	id := s.waiting[i].report.Instance
	return slices.ContainsFunc(s.waiting[i+1:], func(x said) bool { return x.report != nil && x.report.Instance == id })
}

// keep has these wait, and notes their places.
func (s *sender) keep(waiting []said) {
	s.waiting = waiting
	clear(s.at)
	for i, x := range waiting {
		if x.key != (saidKey{}) {
			s.at[x.key] = i
		}
	}
}

// progress is how many records were put, and how many of the first ones are settled, without a gap.
func (s *sender) progress() (put, done int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.total, s.done
}

// mostAtOnce bounds one SendEach.
const mostAtOnce = 500

// batch takes out the oldest ones for destinations that are not busy: from now on they are on their way. Of what is
// sent at once a part may come late, when brokers refuse something; so what was said last of an instance waits until
// all before it has come. It says whether something was left out because it is too late.
func (s *sender) batch() (out []said, dropped bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	var left []said
	about, full := map[compute.InstanceID]bool{}, false
	waiting, late := timely(s.waiting, time.Now())
	s.settled(late)
	for _, x := range waiting {
		if s.busy[x.to] {
			left = append(left, x)
			continue
		}
		full = full || len(out) == mostAtOnce || x.report != nil && about[x.report.Instance]
		if full {
			left = append(left, x)
			continue
		}
		if x.report != nil {
			about[x.report.Instance] = true
		}
		out = append(out, x)
	}
	for _, x := range out {
		s.busy[x.to] = true
	}
	if len(out)+len(late) > 0 {
		s.keep(left)
	}
	return out, len(late) > 0
}

// lateBeacon is how long after a beacon that is not acknowledged another is sent (Timing.Beacon).
const lateBeacon = 15 * time.Second

// tooLate says whether what was said so long ago holds no more: the work for which a machine was to go may have found a
// host since. It is asked again for as long as it holds (makeRoom). A beacon that goes along with reports is followed
// by others that do not wait for them (publishBeacon), and is not to come behind those.
func (x said) tooLate(now time.Time) bool {
	if x.beacon {
		return now.Sub(x.since) >= lateBeacon
	}
	return x.report != nil && x.report.Op == compute.ReportPreempt && now.Sub(x.since) > lateLook
}

// timely divides a list.
func timely(list []said, now time.Time) (timely, late []said) {
	for _, x := range list {
		if x.tooLate(now) {
			late = append(late, x)
		} else {
			timely = append(timely, x)
		}
	}
	return timely, late
}

// settle counts what Kafka has, or will never get.
func (s *sender) settle(list []said) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.settled(list)
}

// settled is called with the lock held.
func (s *sender) settled(list []said) {
	for _, x := range list {
		delete(s.open, x.number)
	}
	for s.done < s.total {
		if _, open := s.open[s.done+1]; open {
			return
		}
		s.done++
	}
}

// told says whether so many of the first ones are settled, but for those that go where it is late. They arrive there
// before whatever else is said to that destination, and mean nothing to others.
func (s *sender) told(first int) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	for n, to := range s.open {
		if n <= first && !s.late[to] {
			return false
		}
	}
	return true
}

// park notes that a destination is late, and has whoever waits for what was told look again.
func (s *sender) park(to destination) {
	s.mu.Lock()
	s.late[to] = true
	s.mu.Unlock()
	s.acked(nil)
}

// free lets the next batch have what waits for a destination.
func (s *sender) free(to destination) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.busy, to)
	delete(s.late, to)
	s.wake()
}
