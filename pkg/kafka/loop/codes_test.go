// SPDX-License-Identifier: Apache-2.0

package loop

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/berth-project/berth/pkg/compute"
	"github.com/berth-project/berth/pkg/kafka/admin"
	"github.com/berth-project/berth/pkg/kafka/internal/brokertest"
	"github.com/berth-project/berth/pkg/kafka/write"
	"github.com/berth-project/berth/pkg/wire"
)

// looping is a loop in such a bubble, with a ledger that knows whether each input
// was decided once and in order.
type looping struct {
	brokertest.Refusing
	*ledger
	p    *write.Producer
	loop *Loop
	sent int
	stop context.CancelFunc
	done chan error
}

func newLooping(t *testing.T, c brokertest.Refusing) *looping {
	t.Helper()
	for _, topic := range []string{c.Cfg.Topics.Requests(), c.Cfg.Topics.Reports(), c.Cfg.Topics.Instances()} {
		brokertest.MakeTopic(t, c.Cfg, topic, 2, nil)
	}
	p, err := write.NewProducer(c.Cfg)
	if err != nil {
		t.Fatal(err)
	}
	l := &looping{Refusing: c, ledger: newLedger(t, "a"), p: p, done: make(chan error, 1)}
	l.send(t)
	return l
}

func (l *looping) send(t *testing.T) {
	t.Helper()
	l.sent++
	rec := wire.Record{Key: []byte("k"), Value: fmt.Append(nil, l.sent)}.To(l.Cfg.Topics.Requests(), 1)
	if err := l.p.Send(t.Context(), rec); err != nil {
		t.Fatal(err)
	}
}

func (l *looping) start(t *testing.T) { l.startWith(t, Options{Group: "g"}) }

func (l *looping) startWith(t *testing.T, o Options) {
	ctx, stop := context.WithCancel(t.Context())
	l.stop = stop
	l.loop = New(l.Cfg, o, l.ledger)
	go func() { l.done <- l.loop.Run(ctx) }()
}

// decided waits until the last input was.
func (l *looping) decided(t *testing.T) { l.await(t, fmt.Sprintf("apply 1 k %d", l.sent)) }

func (l *looping) end(t *testing.T) {
	l.stop()
	if err := <-l.done; err != nil {
		t.Errorf("it ended with %v", err)
	}
	l.p.Close()
}

// ours is an error of what the loop itself asks, not of the clients that send to it.
func (l *looping) ours(key kmsg.Key, code *kerr.Error, n int) *kfake.FaultHandle {
	f := kfake.Fault{Keys: []kmsg.Key{key}, Err: code, Count: n, TopLevel: brokertest.Whole[key]}
	switch key {
	case kmsg.Produce:
		f.Topic = l.Cfg.Topics.Instances()
	case kmsg.OffsetFetch:
		if code == kerr.TopicAuthorizationFailed { // which a broker says of a topic, and kfake now and then of the group
			f.Topic = l.Cfg.Topics.Requests()
		}
	case kmsg.InitProducerID:
		f.When = func(r kmsg.Request) bool { return r.(*kmsg.InitProducerIDRequest).TransactionalID != nil }
	}
	return l.Fault(f)
}

// soon is how long a loop may stand still after three errors in a row: a join that
// was lost is found out by the session's time-out.
const soon = DefaultSessionTimeout + 5*time.Second

// Brokers are away for longer than a turn is tried: the turn is undone, and its partition cannot be taken back either
// because nothing is written, or because the group's positions are not said. Once that is over the loop does not wait
// out a long pause: it decides within the 5 s that the simulation asks for (0041).
func TestWritesComeBackAtOnce(t *testing.T) {
	const atOnce = 5 * time.Second
	for key, code := range map[kmsg.Key]*kerr.Error{
		kmsg.Produce: kerr.NotEnoughReplicas, kmsg.OffsetFetch: kerr.CoordinatorNotAvailable,
	} {
		t.Run(key.Name(), func(t *testing.T) {
			brokertest.WithRefusing(t, 3, func(t *testing.T, c brokertest.Refusing) {
				l := newLooping(t, c)
				l.start(t)
				l.decided(t)
				unwritten, last := l.ours(kmsg.Produce, kerr.NotEnoughReplicas, -1), l.ours(key, code, -1)
				l.send(t)
				brokertest.Passes(DefaultTurnTimeout + time.Second)
				unwritten.Remove()
				brokertest.Passes(5 * time.Second)
				last.Remove()
				began := time.Now()
				l.decided(t)
				if took := time.Since(began); took > atOnce || l.gains[1] != 2 {
					t.Errorf("it is decided %v later, and the partition was gained %d times", took, l.gains[1])
				}
				l.end(t)
			})
		})
	}
}

// Whatever of that a loop hears while it takes its partitions over, it has them
// soon, and has missed nothing.
func TestTakeoverPassesEveryError(t *testing.T) {
	for _, r := range brokertest.PassingErrors {
		if r.Key == kmsg.OffsetCommit || r.Key == kmsg.Heartbeat {
			continue // comes later
		}
		r.Each(t, func(t *testing.T, code *kerr.Error) {
			brokertest.WithRefusing(t, 1, func(t *testing.T, c brokertest.Refusing) {
				l := newLooping(t, c)
				h, began := l.ours(r.Key, code, 3), time.Now()
				l.start(t)
				l.decided(t)
				if took := time.Since(began); took > soon {
					t.Errorf("it took %v", took)
				}
				brokertest.HitBy(t, h, 3)
				l.send(t)
				l.decided(t)
				l.end(t)
			})
		})
	}
}

// A position that cannot be said now is not one that was never committed.
func TestTakeoverWaitsForPositions(t *testing.T) {
	for _, code := range []*kerr.Error{
		kerr.UnstableOffsetCommit, kerr.UnknownTopicOrPartition, kerr.UnknownServerError,
	} {
		t.Run(code.Message, func(t *testing.T) {
			brokertest.WithRefusing(t, 1, func(t *testing.T, c brokertest.Refusing) {
				l := newLooping(t, c)
				h := c.Fault(kfake.Fault{
					Keys: []kmsg.Key{kmsg.OffsetFetch}, Topic: l.Cfg.Topics.Requests(), Err: code, Count: 3,
				})
				l.start(t)
				l.decided(t)
				brokertest.HitBy(t, h, 3)
				l.end(t)
			})
		})
	}
}

// And so while it works. What follows a heartbeat that says so is a new generation.
func TestTurnsPassEveryError(t *testing.T) {
	for _, r := range brokertest.PassingErrors {
		r.Each(t, func(t *testing.T, code *kerr.Error) {
			brokertest.WithRefusing(t, 1, func(t *testing.T, c brokertest.Refusing) {
				l := newLooping(t, c)
				l.start(t)
				l.decided(t)
				h, began := l.ours(r.Key, code, 3), time.Now()
				switch r.Key { // so that it is asked for
				case kmsg.Heartbeat, kmsg.Fetch, kmsg.OffsetCommit:
				case kmsg.FindCoordinator:
					l.ours(kmsg.Heartbeat, kerr.NotCoordinator, 1)
				default:
					l.ours(kmsg.Heartbeat, kerr.UnknownMemberID, 1)
				}
				for time.Since(began) < soon {
					l.send(t)
					brokertest.Passes(time.Second)
				}
				l.decided(t)
				if took := time.Since(began); took > soon+time.Second {
					t.Errorf("it took %v", took)
				}
				brokertest.HitBy(t, h, 3)
				l.end(t)
			})
		})
	}
}

// A commit of positions that failed is made again, though nothing new came.
func TestPositionsAreCommittedAgain(t *testing.T) {
	for _, r := range brokertest.PassingErrors {
		if r.Key != kmsg.OffsetCommit {
			continue
		}
		r.Each(t, func(t *testing.T, code *kerr.Error) {
			brokertest.WithRefusing(t, 1, func(t *testing.T, c brokertest.Refusing) {
				l := newLooping(t, c)
				h := l.ours(r.Key, code, 3)
				l.start(t)
				l.decided(t)
				brokertest.Passes(soon)
				brokertest.HitBy(t, h, 3)
				a, err := admin.New(c.Cfg)
				if err != nil {
					t.Fatal(err)
				}
				defer a.Close()
				if at, err := a.Committed(
					t.Context(), "g", c.Cfg.Topics.Requests(),
				); err != nil || at[1] != int64(l.sent) {
					t.Errorf("committed at %v, want %d: %v", at, l.sent, err)
				}
				l.end(t)
			})
		})
	}
}

// What somebody must put right ends the loop, with what it is.
func TestLoopEndsWhereItIsForbidden(t *testing.T) {
	lacks := map[*kerr.Error]string{
		kerr.TopicAuthorizationFailed: " topic r.", kerr.GroupAuthorizationFailed: " Read group g;",
		kerr.TransactionalIDAuthorizationFailed: " Write t", // of the id, or of the topic that was to be written
	}
	for _, r := range []brokertest.Refusals{
		{Key: kmsg.Metadata, Codes: []*kerr.Error{kerr.TopicAuthorizationFailed}},
		{Key: kmsg.FindCoordinator, Codes: []*kerr.Error{kerr.GroupAuthorizationFailed}},
		{Key: kmsg.JoinGroup, Codes: []*kerr.Error{kerr.GroupAuthorizationFailed}},
		{Key: kmsg.SyncGroup, Codes: []*kerr.Error{kerr.GroupAuthorizationFailed}},
		{Key: kmsg.InitProducerID, Codes: []*kerr.Error{kerr.TransactionalIDAuthorizationFailed}},
		{Key: kmsg.OffsetFetch, Codes: []*kerr.Error{kerr.GroupAuthorizationFailed, kerr.TopicAuthorizationFailed}},
		{Key: kmsg.ListOffsets, Codes: []*kerr.Error{kerr.TopicAuthorizationFailed}},
		{Key: kmsg.Fetch, Codes: []*kerr.Error{kerr.TopicAuthorizationFailed}},
		{
			Key: kmsg.Produce,
			Codes: []*kerr.Error{
				kerr.TopicAuthorizationFailed, kerr.ClusterAuthorizationFailed,
				kerr.TransactionalIDAuthorizationFailed,
			},
		},
	} {
		r.Each(t, func(t *testing.T, code *kerr.Error) {
			brokertest.WithRefusing(t, 1, func(t *testing.T, c brokertest.Refusing) {
				l := newLooping(t, c)
				l.ours(r.Key, code, -1)
				l.start(t)
				select {
				case err := <-l.done:
					brokertest.WantKind(t, err, compute.KindForbidden)
					if !strings.Contains(err.Error(), lacks[code]) {
						t.Errorf("%v does not say %q", err, lacks[code])
					}
				case <-time.After(time.Minute):
					t.Error("it goes on")
					l.stop()
					<-l.done
				}
				l.p.Close()
			})
		})
	}
}

// What is wrong with the group ends it too.
func TestLoopEndsWhereTheGroupCannotBeJoined(t *testing.T) {
	for code, kind := range map[*kerr.Error]compute.Kind{
		kerr.InconsistentGroupProtocol: compute.KindConflict, kerr.InvalidSessionTimeout: compute.KindInvalid,
	} {
		t.Run(code.Message, func(t *testing.T) {
			brokertest.WithRefusing(t, 1, func(t *testing.T, c brokertest.Refusing) {
				l := newLooping(t, c)
				defer l.p.Close()
				l.ours(kmsg.JoinGroup, code, 1)
				l.start(t)
				brokertest.WantKind(t, <-l.done, kind)
				l.stop()
			})
		})
	}
}

// A producer epoch that cannot be renewed now is held as it is, and renewed later.
func TestProducerEpochThatCannotBeRaisedYet(t *testing.T) {
	brokertest.WithRefusing(t, 1, func(t *testing.T, c brokertest.Refusing) {
		l := newLooping(t, c)
		l.startWith(t, Options{Group: "g", RenewEvery: 2 * time.Second})
		l.decided(t)
		h := l.ours(kmsg.InitProducerID, kerr.CoordinatorNotAvailable, 3)
		// Nothing is written while a producer epoch is raised: kfake refuses the old one from then
		// on, Kafka only once the new one has written.
		for range 20 {
			brokertest.Passes(time.Second)
			l.loop.Wake()
		}
		brokertest.Passes(time.Second / 2)
		l.send(t)
		l.decided(t)
		brokertest.HitBy(t, h, 3)
		l.end(t)
		if l.gains[0] != 1 || l.gains[1] != 1 {
			t.Errorf("gained %v times", l.gains)
		}
	})
}

// A producer epoch that cannot be renewed because somebody else has it is not used any more: the
// partition is given up, and gained again if it is still this process's. The other
// partition goes on.
func TestProducerEpochThatSomebodyElseTook(t *testing.T) {
	for _, code := range []*kerr.Error{kerr.ProducerFenced, kerr.InvalidProducerEpoch} {
		t.Run(code.Message, func(t *testing.T) {
			brokertest.WithRefusing(t, 1, func(t *testing.T, c brokertest.Refusing) {
				l := newLooping(t, c)
				l.startWith(t, Options{Group: "g", RenewEvery: time.Hour})
				l.decided(t)
				h := l.ours(kmsg.InitProducerID, code, 1)
				for h.Hits() == 0 {
					brokertest.Passes(time.Minute)
				}
				// While an epoch is raised kfake refuses what is written under the old one: half an hour is between.
				brokertest.Passes(30 * time.Minute)
				l.send(t)
				l.decided(t)
				brokertest.Passes(time.Hour) // both are renewed
				l.send(t)
				l.decided(t)
				l.end(t)
				if l.gains[0]+l.gains[1] != 3 {
					t.Errorf("gained %v times", l.gains)
				}
			})
		})
	}
}

// A group's coordinator moves: a client that does not retry by itself must find it again.
func TestCoordinatorsMove(t *testing.T) {
	brokertest.WithRefusing(t, 3, func(t *testing.T, c brokertest.Refusing) {
		l := newLooping(t, c)
		l.start(t)
		l.decided(t)
		at := c.CoordinatorFor("g")
		for c.CoordinatorFor("g") == at {
			c.RehashCoordinators()
		}
		for range 20 {
			l.send(t)
			brokertest.Passes(time.Second)
		}
		l.decided(t)
		l.end(t)
	})
}
