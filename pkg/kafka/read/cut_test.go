// SPDX-License-Identifier: Apache-2.0

package read

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/berth-project/berth/pkg/kafka"
	"github.com/berth-project/berth/pkg/kafka/internal/brokertest"
	"github.com/berth-project/berth/pkg/kafka/internal/fetch"
)

// A leader that is cut off from the other brokers goes on answering from the log of before, while another leads. Sync
// does not answer with the past, and a reader without it finds the new leader too.
func TestALeaderThatIsCutOff(t *testing.T) {
	cases := []struct {
		name   string
		finds  func(t *testing.T, r *reading)
		within time.Duration // virtual
	}{
		{"sync", func(t *testing.T, r *reading) {
			if err := r.Sync(t.Context()); err != nil {
				t.Fatal(err)
			}
		}, time.Second},
		{"reading", func(*testing.T, *reading) {}, fetch.VerifyEvery + DefaultWait + time.Second},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var network kfake.VirtualNetwork
				cluster, err := kfake.NewCluster(
					kfake.NumBrokers(3), kfake.Ports(9001, 9002, 9003), kfake.ListenFn(network.Listen),
					kfake.SleepOutOfOrder(), // in order two requests that sleep race in kfake itself
				)
				if err != nil {
					t.Fatal(err)
				}
				t.Cleanup(cluster.Close)
				cfg := kafka.Config{Brokers: cluster.ListenAddrs(), Dial: network.DialContext}
				brokertest.MakeTopic(t, cfg, "t", 1, nil)
				brokertest.Put(t, cfg, "t", 0, "before")
				r := read(t, cfg, Options{Topic: "t"})
				r.upTo(t, "before")
				old := cluster.LeaderFor("t", 0)
				cutOff(t, cluster, cfg, old)
				if err := cluster.MoveTopicPartition("t", 0, (old+1)%3); err != nil {
					t.Fatal(err)
				}
				brokertest.Put(t, cfg, "t", 0, "since")
				began := time.Now()
				c.finds(t, r)
				r.upTo(t, "since")
				if took := time.Since(began); took > c.within {
					t.Errorf("that took %s", took)
				}
				r.stop()
				<-r.ended
				time.Sleep(DefaultWait) // what the broker still holds
			})
		})
	}
}

// cutOff makes a broker answer from now on what it would answer now: with one
// record in partition 0 of topic t, which it leads.
func cutOff(t *testing.T, cluster *kfake.Cluster, cfg kafka.Config, broker int32) {
	t.Helper()
	cl, err := kafka.NewClient(cfg)
	if err != nil {
		t.Fatal(err)
	}
	past, err := fetch.Metadata(t.Context(), cl, "t")
	if err != nil {
		t.Fatal(err)
	}
	cl.Close()
	answer := func(key int16, say func(kmsg.Request) kmsg.Response) {
		cluster.ControlKey(key, func(req kmsg.Request) (kmsg.Response, error, bool) {
			cluster.KeepControl()
			if cluster.CurrentNode() != broker {
				return nil, nil, false
			}
			resp := say(req)
			resp.SetVersion(req.GetVersion())
			return resp, nil, true
		})
	}
	answer(past.Key(), func(kmsg.Request) kmsg.Response {
		m := *past
		return &m
	})
	answer(
		new(kmsg.ListOffsetsRequest).Key(),
		func(req kmsg.Request) kmsg.Response { return offsetOne(req.(*kmsg.ListOffsetsRequest)) },
	)
	answer(new(kmsg.FetchRequest).Key(), func(k kmsg.Request) kmsg.Response {
		req := k.(*kmsg.FetchRequest)
		resp := outOfRange(req)
		resp.Topics[0].Partitions[0].ErrorCode, resp.Topics[0].Partitions[0].HighWatermark = 0, 1
		cluster.SleepControl(func() { time.Sleep(time.Duration(req.MaxWaitMillis) * time.Millisecond) })
		return resp
	})
}
