package kafka

import (
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/berth-project/berth/pkg/compute"
)

// readerErrors are those of every kind of request that a reader makes.
var readerErrors = []refusals{
	{kmsg.Metadata, []*kerr.Error{kerr.UnknownServerError, kerr.UnknownTopicOrPartition, kerr.LeaderNotAvailable}},
	{kmsg.ListOffsets, []*kerr.Error{
		kerr.UnknownServerError, kerr.UnknownTopicOrPartition, kerr.LeaderNotAvailable, kerr.NotLeaderForPartition, kerr.FencedLeaderEpoch, kerr.UnknownLeaderEpoch, kerr.OffsetNotAvailable,
	}},
	{kmsg.Fetch, []*kerr.Error{
		kerr.UnknownServerError, kerr.UnknownTopicOrPartition, kerr.UnknownTopicID, kerr.InconsistentTopicID, kerr.NotLeaderForPartition, kerr.ReplicaNotAvailable,
		kerr.FencedLeaderEpoch, kerr.UnknownLeaderEpoch, kerr.OffsetNotAvailable, kerr.KafkaStorageError, kerr.CorruptMessage,
	}},
}

// A reader passes every one of them, at its start and later, and misses nothing.
func TestReaderPassesEveryError(t *testing.T) {
	for _, r := range readerErrors {
		r.each(t, func(t *testing.T, code *kerr.Error) {
			withRefusing(t, 1, func(t *testing.T, c refusing) {
				makeTopic(t, c.cfg, "r.x", 1, nil)
				put(t, c.cfg, "r.x", 0, "0", "1")
				h, began := c.refuse(r.key, code, 3), time.Now()
				reading := read(t, c.cfg, ReaderOptions{Topic: "r.x"})
				reading.upTo(t, "1")
				hitBy(t, h, 3)
				<-reading.Ready()
				c.refuse(kmsg.Fetch, kerr.NotLeaderForPartition, 1) // so that who leads is asked
				h = c.refuse(r.key, code, 3)
				if r.key == kmsg.ListOffsets {
					syncUp(t, reading)
				}
				for h.Hits() < 3 && time.Since(began) < time.Minute {
					passes(time.Second)
				}
				hitBy(t, h, 3)
				put(t, c.cfg, "r.x", 0, "2")
				syncUp(t, reading)
				if values, _ := reading.now(); len(values) != 1 || values[0] != "2" {
					t.Errorf("read %q", values)
				}
				if took := time.Since(began); took > time.Minute {
					t.Errorf("it took %v", took)
				}
				reading.stop()
				<-reading.ended
			})
		})
	}
}

// What somebody must put right ends it, with what it is.
func TestReaderEndsWhereItIsForbidden(t *testing.T) {
	for _, r := range readerErrors {
		refusals{r.key, []*kerr.Error{kerr.TopicAuthorizationFailed}}.each(t, func(t *testing.T, code *kerr.Error) {
			withRefusing(t, 1, func(t *testing.T, c refusing) {
				makeTopic(t, c.cfg, "r.x", 1, nil)
				c.refuse(r.key, code, 1)
				reading := read(t, c.cfg, ReaderOptions{Topic: "r.x"})
				wantKind(t, <-reading.stopped, compute.KindForbidden)
			})
		})
	}
}

// Who is elected is so again soon, whatever the group's coordinator says.
func TestElectorPassesEveryError(t *testing.T) {
	forbidden := refusals{kmsg.JoinGroup, []*kerr.Error{kerr.GroupAuthorizationFailed}} // until somebody allows it
	for _, r := range append([]refusals{forbidden}, passingErrors...) {
		switch r.key {
		case kmsg.FindCoordinator, kmsg.JoinGroup, kmsg.SyncGroup, kmsg.Heartbeat:
		default:
			continue
		}
		r.each(t, func(t *testing.T, code *kerr.Error) {
			withRefusing(t, 1, func(t *testing.T, c refusing) {
				makeTopic(t, c.cfg, "r.x", 1, nil)
				h := c.refuse(r.key, code, 3)
				e, stop := elector(t, c.cfg, "r.x")
				began, elected := time.Now(), false
				for over := time.After(2 * ElectionTimeout); over != nil; {
					select {
					case elected = <-e.Elected():
					case <-over:
						over = nil
					}
				}
				if !elected {
					t.Errorf("not elected after %v", time.Since(began))
				}
				hitBy(t, h, 3)
				stop()
			})
		})
	}
}
