// SPDX-License-Identifier: Apache-2.0

package read

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/berth-project/berth/pkg/compute"
	"github.com/berth-project/berth/pkg/kafka"
	"github.com/berth-project/berth/pkg/kafka/internal/brokertest"
)

func TestReaderEndsWhenTheLogIsAnother(t *testing.T) {
	cluster, cfg := brokertest.FakeCluster(t)
	brokertest.MakeTopic(t, cfg, "t", 1, nil)
	brokertest.Put(t, cfg, "t", 0, "0", "1", "2")
	r := read(t, cfg, Options{Topic: "t", MaxWait: 100 * time.Millisecond})
	r.upTo(t, "2")
	brokertest.AnotherHistory(cluster)
	brokertest.Put(t, cfg, "t", 0, "another 3", "another 4")
	select {
	case err := <-r.stopped:
		if compute.KindOf(err) != compute.KindConflict {
			t.Errorf("ended with %v", err)
		}
	case <-brokertest.Patient(t).Done():
		t.Fatal("reads on as if nothing were")
	}
}

// A broker that led before, and does not know that it leads no more, is not believed when it says that what was read
// is lost: other brokers are asked for the leader.
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
				cluster, err := kfake.NewCluster(
					kfake.NumBrokers(3), kfake.Ports(9001, 9002, 9003), kfake.ListenFn(network.Listen),
				)
				if err != nil {
					t.Fatal(err)
				}
				t.Cleanup(cluster.Close)
				cfg := kafka.Config{Brokers: cluster.ListenAddrs(), Dial: network.DialContext}
				brokertest.MakeTopic(t, cfg, "t", 1, nil)
				brokertest.Put(t, cfg, "t", 0, "one", "two")
				r := read(t, cfg, Options{Topic: "t"})
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
				brokertest.Put(t, cfg, "t", 0, "since")
				r.upTo(t, "since")
				r.stop()
				<-r.ended
				time.Sleep(DefaultWait) // what the broker still holds
			})
		})
	}
}
