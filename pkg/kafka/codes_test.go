package kafka

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/berth-project/berth/pkg/compute"
	"github.com/berth-project/berth/pkg/wire"
)

// What every part does when a broker answers with an error. docs/KAFKA-ERRORS.md
// says it in words.

// refusing is a broker in a bubble that can be made to answer with errors.
type refusing struct {
	*kfake.Cluster
	cfg Config
}

func withRefusing(t *testing.T, brokers int, do func(t *testing.T, c refusing)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		var network kfake.VirtualNetwork
		ports := []int{9092, 9093, 9094}[:brokers]
		c, err := kfake.NewCluster(kfake.NumBrokers(brokers), kfake.Ports(ports...), kfake.ListenFn(network.Listen),
			kfake.BrokerConfigs(map[string]string{"group.initial.rebalance.delay.ms": "0"}))
		if err != nil {
			t.Fatal(err)
		}
		defer time.Sleep(time.Second) // kgo does not wait for a connection that it was opening
		defer c.Close()
		do(t, refusing{c, Config{Brokers: c.ListenAddrs(), Topics: wire.Topics{Prefix: "r."}, Dial: network.DialContext}})
	})
}

// whole are the requests whose error is that of the whole answer.
var whole = map[kmsg.Key]bool{
	kmsg.ShareFetch: true, kmsg.ShareAcknowledge: true, kmsg.InitProducerID: true, kmsg.Heartbeat: true, kmsg.JoinGroup: true, kmsg.SyncGroup: true, kmsg.LeaveGroup: true,
}

// refuse has the next n requests of a kind answered with an error.
func (c refusing) refuse(key kmsg.Key, code *kerr.Error, n int) *kfake.FaultHandle {
	return c.Fault(kfake.Fault{Keys: []kmsg.Key{key}, Err: code, Count: n, TopLevel: whole[key]})
}

// refusals are errors of one kind of request.
type refusals struct {
	key   kmsg.Key
	codes []*kerr.Error
}

func (r refusals) each(t *testing.T, do func(t *testing.T, code *kerr.Error)) {
	for _, code := range r.codes {
		t.Run(kmsg.NameForKey(int16(r.key))+"/"+code.Message, func(t *testing.T) { do(t, code) })
	}
}

// hitBy says that requests were refused as they should be.
func hitBy(t *testing.T, h *kfake.FaultHandle, n int) {
	t.Helper()
	if h.Hits() != n {
		t.Errorf("%d requests were refused, want %d", h.Hits(), n)
	}
}

func wantKind(t *testing.T, err error, want compute.Kind) {
	t.Helper()
	if err == nil || compute.KindOf(err) != want {
		t.Errorf("got %v (%v), want kind %v", err, compute.KindOf(err), want)
	}
}

// passes lets time pass in the bubble.
func passes(d time.Duration) { time.Sleep(d) }
