// SPDX-License-Identifier: Apache-2.0

package queues

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/berth-project/berth/pkg/compute"
	"github.com/berth-project/berth/pkg/wire"
)

var names = wire.Topics{Prefix: "t."}

// far is the far end in memory: Kafka's topics, share state and logs, with the
// rules of both Kafka and the protocol. It notes every breach.
type far struct {
	mu         sync.Mutex
	topics     map[compute.QueueName]*topic
	hosts      map[compute.HostID]int       // streams, and how often each was made
	said       map[compute.HostID]time.Time // when something was said to a host last
	logs       map[string][]wire.Record
	managers   []*member
	ids        int
	calls      int
	fault      func(c call) fault // may be nil
	stale      bool               // Progress answers for another topic
	leaderless string             // a topic that takes nothing
	unheard    bool               // QueueTopics lists nothing
	breaches   []string
	done       []string // what was done, in order
}

type topic struct {
	id         compute.TopicID
	group      string // in which it is initialised
	start, low int64  // share start offset, log start
	unwritten  int64  // of the share start offset: so much of it is not written down yet
	end        int64
}

// call is one request about to be done.
type call struct {
	n    int // counts all calls
	who  string
	op   string
	name string
}

// fault is what goes wrong with one call.
type fault struct {
	refuse error     // it is not done
	hook   func()    // runs first
	mode   faultMode // when the caller loses its connection
}

type faultMode int

const (
	fine   faultMode = iota
	before           // never arrives; the caller hears nothing
	after            // done; the caller hears nothing
	late             // done 10 s later; the caller hears nothing
)

func newFar() *far {
	return &far{
		topics: map[compute.QueueName]*topic{}, hosts: map[compute.HostID]int{},
		logs: map[string][]wire.Record{},
	}
}

func (f *far) breach(format string, args ...any) {
	f.breaches = append(f.breaches, fmt.Sprintf(format, args...))
}

// call does something as Kafka would: once, for sure, late or not at all.
func (f *far) call(ctx context.Context, who, op, name string, do func() error) error {
	f.mu.Lock()
	f.calls++
	var flt fault
	if f.fault != nil {
		flt = f.fault(call{f.calls, who, op, name})
	}
	f.mu.Unlock()
	if flt.hook != nil {
		flt.hook()
	}
	locked := func() error {
		f.mu.Lock()
		defer f.mu.Unlock()
		f.done = append(f.done, op+" "+name)
		return do()
	}
	switch {
	case flt.refuse != nil:
		return flt.refuse
	case flt.mode == before:
		<-ctx.Done()
		return ctx.Err()
	case flt.mode == after:
		_ = locked()
		<-ctx.Done()
		return ctx.Err()
	case flt.mode == late:
		time.AfterFunc(10*time.Second, func() { _ = locked(); f.deliver() })
		<-ctx.Done()
		return ctx.Err()
	}
	err := locked()
	f.deliver()
	if err == nil {
		err = ctx.Err()
	}
	return err
}

// member is one manager and its handle on the far end. It implements all
// interfaces of Options.
type member struct {
	*Manager
	far     *far
	name    string
	elected chan bool
	cancel  context.CancelFunc
	ended   chan error

	mu   sync.Mutex // delivery
	read map[string]int
}

// join starts a manager on the far end.
func (f *far) join(t *testing.T, name string, change ...func(*Options)) *member {
	m := &member{far: f, name: name, elected: make(chan bool, 1), ended: make(chan error, 1), read: map[string]int{}}
	o := Options{Topics: names, Leader: m, View: m, Log: m, Far: Far{Topics: m, Hosts: m, Streams: m, Shares: m}}
	for _, c := range change {
		c(&o)
	}
	m.Manager = New(o)
	ctx, cancel := context.WithCancel(t.Context())
	m.cancel = cancel
	go func() { m.ended <- m.Run(ctx) }()
	f.mu.Lock()
	f.managers = append(f.managers, m)
	f.mu.Unlock()
	m.deliver()
	return m
}

func (m *member) stop(t *testing.T) {
	m.cancel()
	if err := <-m.ended; err != nil {
		t.Error(err)
	}
}

func (m *member) Elected() <-chan bool { return m.elected }

func (m *member) Sync(ctx context.Context) error {
	return m.far.call(ctx, m.name, "sync", "", func() error { return nil })
}

func (m *member) SyncLists(ctx context.Context) error {
	return m.far.call(ctx, m.name, "sync lists", "", func() error { return nil })
}

func (f *far) deliver() {
	f.mu.Lock()
	managers := slices.Clone(f.managers)
	f.mu.Unlock()
	for _, m := range managers {
		m.deliver()
	}
}

// deliver hands over what the manager has not read yet.
func (m *member) deliver() {
	m.mu.Lock()
	defer m.mu.Unlock()
	for topic, take := range map[string]func([]wire.Record, bool){
		names.Catalog(): m.Catalog, names.Queues(): m.Queues, names.Hosts(): m.Hosts, names.Instances(): m.Instances,
	} {
		m.far.mu.Lock()
		fresh := m.far.logs[topic][m.read[topic]:]
		m.far.mu.Unlock()
		m.read[topic] += len(fresh)
		take(fresh, true)
	}
}

// publish is what others write: users, agents, conductors.
func (f *far) publish(topic string, recs ...wire.Record) {
	f.mu.Lock()
	for _, r := range recs {
		r.Topic, r.Offset = topic, int64(len(f.logs[topic]))
		f.logs[topic] = append(f.logs[topic], r)
	}
	f.mu.Unlock()
	f.deliver()
}

func (m *member) Send(ctx context.Context, recs ...wire.Record) error {
	op := "write"
	if recs[0].Topic == names.Advice() {
		op = "advise"
	}
	stuck := false
	err := m.far.call(ctx, m.name, op, string(recs[0].Key), func() error {
		for _, r := range recs {
			if r.Topic == m.far.leaderless {
				stuck = true
				continue
			}
			if r.Topic == names.Queues() {
				m.far.checkListing(r)
			}
			r.Offset = int64(len(m.far.logs[r.Topic]))
			m.far.logs[r.Topic] = append(m.far.logs[r.Topic], r)
		}
		return nil
	})
	if stuck {
		<-ctx.Done()
		return ctx.Err()
	}
	return err
}

// checkListing holds a record of the queue list to what it promises.
func (f *far) checkListing(r wire.Record) {
	name := compute.QueueName(r.Key)
	if r.Value == nil {
		if f.work()[name] > 0 {
			f.breach("%s unlisted with work", name)
		}
		return
	}
	q, err := wire.DecodeQueue(r)
	if err != nil {
		f.breach("%s: %v", name, err)
		return
	}
	if q.CannotBeMade() || q.Error != "" || q.State == compute.QueueClosed {
		return
	}
	if t := f.topics[name]; t != nil && t.id == q.TopicID && t.group != q.Group {
		f.breach("%s listed in group %q, its topic %s is initialised in %q", name, q.Group, t.id, t.group)
	}
}

// work counts the queued and starting instances of each queue.
func (f *far) work() map[compute.QueueName]int {
	last := map[string]compute.Instance{}
	for _, r := range f.logs[names.Instances()] {
		i, err := wire.DecodeInstance(r)
		if err != nil {
			panic(err)
		}
		last[string(r.Key)] = i
	}
	out := map[compute.QueueName]int{}
	for _, i := range last {
		if i.State == compute.StateQueued || i.State == compute.StateStarting {
			out[i.Queue]++
		}
	}
	return out
}

func (m *member) QueueTopics(ctx context.Context) (map[compute.QueueName]compute.TopicID, error) {
	out := map[compute.QueueName]compute.TopicID{}
	err := m.far.call(ctx, m.name, "topics", "", func() error {
		for n, t := range m.far.topics {
			if !m.far.unheard {
				out[n] = t.id
			}
		}
		return nil
	})
	return out, err
}

func (m *member) MakeQueueTopics(ctx context.Context, queues []compute.QueueName) error {
	return m.far.call(ctx, m.name, "create", join(queues), func() error {
		for _, q := range queues {
			if m.far.topics[q] == nil {
				m.far.ids++
				m.far.topics[q] = &topic{id: compute.TopicID(fmt.Sprint(m.far.ids))}
			}
		}
		return nil
	})
}

func (m *member) DeleteQueueTopic(ctx context.Context, q compute.QueueName, id compute.TopicID) error {
	return m.far.call(ctx, m.name, "delete", string(q), func() error {
		t := m.far.topics[q]
		if t == nil || t.id != id {
			return nil
		}
		if m.far.work()[q] > 0 {
			m.far.breach("%s: topic deleted with work", q)
		}
		if _, listed := m.far.listed()[q]; listed {
			m.far.breach("%s: topic deleted while listed", q)
		}
		delete(m.far.topics, q)
		return nil
	})
}

func (m *member) MakeHostTopic(ctx context.Context, h compute.HostID) error {
	return m.far.call(ctx, m.name, "host", string(h), func() error {
		m.far.hosts[h]++
		return nil
	})
}

func (m *member) HostTopics(ctx context.Context) (all map[compute.HostID]compute.TopicID, err error) {
	err = m.far.call(ctx, m.name, "list streams", "", func() error {
		all = map[compute.HostID]compute.TopicID{}
		for h, n := range m.far.hosts {
			all[h] = compute.TopicID(fmt.Sprint(h, n))
		}
		return nil
	})
	return all, err
}

func (m *member) QuietHosts(
	ctx context.Context, hosts []compute.HostID, since time.Time,
) (quiet []compute.HostID, err error) {
	err = m.far.call(ctx, m.name, "quiet", fmt.Sprint(hosts), func() error {
		for _, h := range hosts {
			if m.far.said[h].Before(since) {
				quiet = append(quiet, h)
			}
		}
		return nil
	})
	return quiet, err
}

func (m *member) DeleteHostTopic(ctx context.Context, h compute.HostID, _ compute.TopicID) error {
	return m.far.call(ctx, m.name, "delete stream", string(h), func() error {
		delete(m.far.hosts, h)
		return nil
	})
}

var errNoTopic = errors.New("unknown topic")

func (m *member) InitShares(ctx context.Context, group string, queues []compute.QueueName) error {
	return m.far.call(ctx, m.name, "init", group+" "+join(queues), func() error {
		for _, q := range queues {
			t := m.far.topics[q]
			switch {
			case t == nil:
				return errNoTopic
			case t.group != "":
				m.far.breach("%s: topic %s initialised twice, by %s", q, t.id, m.name)
			}
			t.group = group
		}
		return nil
	})
}

func (m *member) Progress(ctx context.Context, refs []wire.QueueRef) ([]Progress, error) {
	out := make([]Progress, len(refs))
	err := m.far.call(ctx, m.name, "progress", "", func() error {
		for i, r := range refs {
			t := m.far.topics[r.Name]
			switch {
			case t == nil:
				out[i] = Progress{Err: errNoTopic}
			case m.far.stale:
				out[i] = Progress{TopicID: "older", Start: 7}
			case t.group != r.Group:
				out[i] = Progress{Start: -1}
			default:
				out[i] = Progress{
					TopicID: t.id, Start: t.start, Written: t.start - t.unwritten, LogStart: t.low,
					Depth: t.end - t.start,
				}
			}
		}
		return nil
	})
	return out, err
}

func (m *member) DeleteBelow(ctx context.Context, below map[compute.QueueName]int64) error {
	return m.far.call(ctx, m.name, "truncate", join(slices.Sorted(maps.Keys(below))), func() error {
		for q, offset := range below {
			if t := m.far.topics[q]; t != nil {
				if offset > t.start-t.unwritten {
					m.far.breach("%s: unfinished records deleted", q)
				}
				t.low = offset
			}
		}
		return nil
	})
}

// listed is the queue list as its readers have it.
func (f *far) listed() map[compute.QueueName]compute.Queue {
	out := map[compute.QueueName]compute.Queue{}
	for _, r := range f.logs[names.Queues()] {
		q, err := wire.DecodeQueue(r)
		if r.Value == nil {
			delete(out, compute.QueueName(r.Key))
		} else if err == nil {
			out[q.Name] = q
		}
	}
	return out
}

func join(queues []compute.QueueName) string {
	s := ""
	for i, q := range queues {
		if i > 0 {
			s += ","
		}
		s += string(q)
	}
	return s
}
