package kafka

import (
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/berth-project/berth/pkg/compute"
)

// The cases in here are those of a log that lost what had been read from it: another
// broker leads, which did not have all of it (an unclean election), and others have
// written since, so that the offset to read on at is in the log again (KIP-320).

// anotherHistory makes brokers answer each fetch that says what it read last that the
// log is another from the last record that was read on.
func anotherHistory(cluster *kfake.Cluster) {
	cluster.ControlKey(new(kmsg.FetchRequest).Key(), func(k kmsg.Request) (kmsg.Response, error, bool) {
		cluster.KeepControl()
		req := k.(*kmsg.FetchRequest)
		resp := req.ResponseKind().(*kmsg.FetchResponse)
		for _, t := range req.Topics {
			rt := kmsg.NewFetchResponseTopic()
			rt.TopicID = t.TopicID
			for _, p := range t.Partitions {
				if p.LastFetchedEpoch < 0 {
					continue
				}
				rp := kmsg.NewFetchResponseTopicPartition()
				rp.Partition, rp.HighWatermark = p.Partition, p.FetchOffset
				rp.DivergingEpoch.Epoch, rp.DivergingEpoch.EndOffset = p.LastFetchedEpoch, p.FetchOffset-1
				rt.Partitions = append(rt.Partitions, rp)
			}
			if len(rt.Partitions) > 0 {
				resp.Topics = append(resp.Topics, rt)
			}
		}
		return resp, nil, len(resp.Topics) > 0
	})
}

func TestReaderEndsWhenTheLogIsAnother(t *testing.T) {
	cluster, cfg := fakeCluster(t)
	makeTopic(t, cfg, "t", 1, nil)
	put(t, cfg, "t", 0, "0", "1", "2")
	r := read(t, cfg, ReaderOptions{Topic: "t", MaxWait: 100 * time.Millisecond})
	r.upTo(t, "2")
	anotherHistory(cluster)
	put(t, cfg, "t", 0, "another 3", "another 4")
	select {
	case err := <-r.stopped:
		if compute.KindOf(err) != compute.KindConflict {
			t.Errorf("ended with %v", err)
		}
	case <-patient(t).Done():
		t.Fatal("reads on as if nothing were")
	}
}

// The partition of a loop whose input is another log is set aside, and no other is.
func TestInputsOfAnotherHistoryAreSetAside(t *testing.T) {
	withRefusing(t, 1, func(t *testing.T, c refusing) {
		l, aside := newLooping(t, c), newAsides()
		l.startWith(t, LoopOptions{Group: "g", SetAside: aside.set})
		l.decided(t)
		anotherHistory(c.Cluster)
		l.send(t)
		aside.await(t, 1)
		if why := aside.now[0].Why; !strings.Contains(why, "of a log that ended at 0") {
			t.Error(why)
		}
		l.end(t)
	})
}

// A broker that led before, and does not know that it leads no more, is not believed
// when it says that what was read is lost: somebody else is asked who leads.
func TestWhoLedBeforeIsNotBelieved(t *testing.T) {
	for name, says := range map[string]func(*kmsg.FetchResponseTopicPartition){
		"out of range": func(p *kmsg.FetchResponseTopicPartition) { p.ErrorCode = kerr.OffsetOutOfRange.Code },
		"another log": func(p *kmsg.FetchResponseTopicPartition) {
			p.DivergingEpoch.Epoch, p.DivergingEpoch.EndOffset = 0, 1
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var network kfake.VirtualNetwork
				cluster, err := kfake.NewCluster(kfake.NumBrokers(3), kfake.Ports(9001, 9002, 9003), kfake.ListenFn(network.Listen))
				if err != nil {
					t.Fatal(err)
				}
				t.Cleanup(cluster.Close)
				cfg := Config{Brokers: cluster.ListenAddrs(), Dial: network.DialContext}
				makeTopic(t, cfg, "t", 1, nil)
				put(t, cfg, "t", 0, "one", "two")
				r := read(t, cfg, ReaderOptions{Topic: "t"})
				r.upTo(t, "two")
				synctest.Wait() // its next fetch is open: another would be answered while the old leader leads
				old := cluster.LeaderFor("t", 0)
				cluster.ControlKey(new(kmsg.FetchRequest).Key(), func(k kmsg.Request) (kmsg.Response, error, bool) {
					cluster.KeepControl()
					if cluster.CurrentNode() != old {
						return nil, nil, false
					}
					resp := outOfRange(k.(*kmsg.FetchRequest))
					p := &resp.Topics[0].Partitions[0]
					p.ErrorCode, p.HighWatermark = 0, 1
					says(p)
					return resp, nil, true
				})
				cutOff(t, cluster, cfg, old)
				if err := cluster.MoveTopicPartition("t", 0, (old+1)%3); err != nil {
					t.Fatal(err)
				}
				put(t, cfg, "t", 0, "since")
				r.upTo(t, "since")
				r.stop()
				<-r.ended
				time.Sleep(DefaultReaderWait) // what the broker still holds
			})
		})
	}
}

// Who wrote what was read last is known only where it was read.
func TestCursorsKnowWhoWrote(t *testing.T) {
	five, six := termOf(5), termOf(6)
	for name, c := range map[string]struct {
		got  fetchedPart
		want term
	}{
		"more of it":                  {fetchedPart{from: 3, next: 7, end: 7, bytes: 100, wrote: six}, six},
		"nothing new":                 {fetchedPart{from: 3, next: 3, end: 3}, five},
		"a batch of before epochs":    {fetchedPart{from: 3, next: 7, end: 7, bytes: 100, wrote: termOf(-1)}, term{}},
		"nothing up to the end":       {fetchedPart{from: 3, next: 3, end: 7, alone: true}, term{}},
		"removed before it was read":  {fetchedPart{from: 3, next: 9, skipped: true}, term{}},
		"others had their turn first": {fetchedPart{from: 3, next: 3, end: 7}, five},
	} {
		at := cursor{next: 3, end: -1, wrote: five}
		if at.advance(c.got); at.wrote != c.want {
			t.Errorf("%s: %+v, want %+v", name, at.wrote, c.want)
		}
	}
	at := cursor{wrote: five}
	if at.forsake(fetchedPart{err: kerr.NotLeaderForPartition}); !at.lost || at.wrote != five {
		t.Errorf("an error that passes: %+v", at)
	}
	if at.forsake(fetchedPart{err: kerr.OffsetNotAvailable, unsure: true}); at.wrote != (term{}) {
		t.Errorf("a leader that cannot say: %+v", at)
	}
}
