// SPDX-License-Identifier: Apache-2.0

package loop

import (
	"slices"
	"strings"
	"testing"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kmsg"
	"pgregory.net/rapid"

	"github.com/berth-project/berth/pkg/kafka/internal/brokertest"
	"github.com/berth-project/berth/pkg/kafka/internal/fetch"
	"github.com/berth-project/berth/pkg/wire"
)

// A partition with another log for an input is set aside, and no other is.
func TestInputsOfAnotherHistoryAreSetAside(t *testing.T) {
	brokertest.WithRefusing(t, 1, func(t *testing.T, c brokertest.Refusing) {
		l, aside := newLooping(t, c), newAsides()
		l.startWith(t, Options{Group: "g", SetAside: aside.set})
		l.decided(t)
		brokertest.AnotherHistory(c.Cluster)
		l.send(t)
		aside.await(t, 1)
		if why := aside.now[0].Why; !strings.Contains(why, "of a log that ended at 0") {
			t.Error(why)
		}
		l.end(t)
	})
}

// The log that an earlier owner read was cut and has grown again before the next one came: that one sees it before it
// decides anything, by the position in instances or in the group.
func TestTheNextOwnerSeesAnotherHistory(t *testing.T) {
	for name, leave := range map[string]func(t *testing.T, l *looping){
		"in instances": func(t *testing.T, l *looping) {
			l.ours(kmsg.OffsetCommit, kerr.GroupAuthorizationFailed, 1000)
			l.start(t)
			l.decided(t)
			l.stop()
			if err := <-l.done; err != nil {
				t.Error(err)
			}
		},
		"in the group": func(t *testing.T, l *looping) { commitAt(t, l, 0) },
	} {
		t.Run(name, func(t *testing.T) {
			brokertest.WithRefusing(t, 1, func(t *testing.T, c brokertest.Refusing) {
				l, aside := newLooping(t, c), newAsides()
				leave(t, l)
				brokertest.AnotherHistory(c.Cluster, c.Cfg.Topics.Requests())
				l.send(t)
				l.send(t)
				l.ledger = newLedger(t, "b")
				l.startWith(t, Options{Group: "g", SetAside: aside.set})
				aside.await(t, 1)
				if why := aside.now[0].Why; !strings.Contains(why, "of a log that ended at 0") {
					t.Error(why)
				}
				l.end(t)
			})
		})
	}
}

// A leader that has not come as far as the epoch of a position has another log, which was begun anew.
func TestAPositionOfALaterEpochIsOfAnotherLog(t *testing.T) {
	brokertest.WithRefusing(t, 1, func(t *testing.T, c brokertest.Refusing) {
		l, aside := newLooping(t, c), newAsides()
		commitAt(t, l, 1000)
		l.send(t)
		l.Fault(kfake.Fault{
			Keys: []kmsg.Key{kmsg.Fetch}, Err: kerr.OffsetOutOfRange, Topic: c.Cfg.Topics.Requests(),
			When: func(r kmsg.Request) bool {
				return slices.ContainsFunc(r.(*kmsg.FetchRequest).Topics, func(t kmsg.FetchRequestTopic) bool {
					return slices.ContainsFunc(t.Partitions, func(p kmsg.FetchRequestTopicPartition) bool {
						return p.LastFetchedEpoch == 1000
					})
				})
			},
		})
		l.startWith(t, Options{Group: "g", SetAside: aside.set})
		aside.await(t, 1)
		if why := aside.now[0].Why; !strings.Contains(why, "is 1, of a log that ended at 0") {
			t.Error(why)
		}
		l.end(t)
	})
}

// commitAt has the group say that the first request is decided, written by a leader of an epoch.
func commitAt(t *testing.T, l *looping, epoch int32) {
	t.Helper()
	var offsets kadm.Offsets
	offsets.AddOffset(l.Cfg.Topics.Requests(), 1, 1, epoch)
	offsets.AddOffset(l.Cfg.Topics.Reports(), 1, 0, -1)
	adm := kadm.NewClient(brokertest.AnyClient(t, l.Cfg))
	if err := adm.CommitAllOffsets(t.Context(), "g", offsets); err != nil {
		t.Fatal(err)
	}
	adm.Close() // before the bubble ends
}

// Whatever was read and taken, a position knows the leader's epoch of the record just before it, except behind a gap.
func TestPositionsKnowWhoWrote(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		const topic = "t"
		first := rapid.Int64Range(0, 3).Draw(t, "position")
		start := rapid.Int32Range(-1, 2).Draw(t, "its epoch")
		in := newInputs(nil, [inputTopics]*fetch.Source{{Topic: topic}, {Topic: topic}}, nil, 1000)
		in.add(0, position{
			at: [inputTopics]int64{first, 0}, wrote: [inputTopics]fetch.Epoch{requests: fetch.EpochOf(start)},
		})
		written := map[int64]int32{first - 1: start} // the epoch of each offset; none in a gap
		next, epoch := first, max(0, start)
		for range rapid.IntRange(1, 30).Draw(t, "steps") {
			switch rapid.SampledFrom([]string{"fetch", "fetch", "take", "take", "gap"}).Draw(t, "step") {
			case "fetch":
				part := fetch.Part{From: next, Bytes: 1}
				for range rapid.IntRange(1, 3).Draw(t, "batches") {
					epoch += rapid.Int32Range(0, 2).Draw(t, "elections")
					part.Epochs = append(part.Epochs, fetch.WrittenBy{From: next, Number: epoch})
					for range rapid.IntRange(1, 3).Draw(t, "records") {
						part.Records = append(part.Records, wire.Record{Offset: next})
						written[next] = epoch
						next++
					}
				}
				part.Next, part.End = next, next
				if err := in.put(requests, part); err != nil {
					t.Fatal(err)
				}
			case "take":
				in.next(rapid.IntRange(1, 4).Draw(t, "records"))
			case "gap":
				from := next
				next += rapid.Int64Range(1, 3).Draw(t, "offsets")
				if err := in.put(requests, fetch.Part{From: from, Next: from, End: next, Alone: true}); err != nil {
					t.Fatal(err)
				}
			}
			at, want := in.at(0)[requests], fetch.Epoch{}
			if e, ok := written[at-1]; ok {
				want = fetch.EpochOf(e)
			}
			if got := in.wrote(0)[requests]; got != want {
				t.Fatalf("before %d: %+v, want %+v; read up to %d: %v", at, got, want, next, in.feeds[inputKey{}].epochs)
			}
		}
	})
}
