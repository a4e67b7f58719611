package main

import (
	"testing"
	"testing/synctest"

	"github.com/berth-project/berth/pkg/compute"
	"github.com/berth-project/berth/pkg/embedded"
	"github.com/berth-project/berth/pkg/kafkatest"
)

// inBubble tries something in virtual time on a network of its own. Time moves
// only while everything waits for something inside, so a part that spins or
// waits for the world outside shows, and a goroutine that is left fails the test.
func inBubble(t *testing.T, try func(t *testing.T, n network)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		var virtual embedded.Network
		try(t, network{dial: virtual.Dial, listen: virtual.Listen})
	})
}

// broker is an embedded broker on the network.
func (n network) broker(t *testing.T) kafkatest.Broker {
	t.Helper()
	b, err := embedded.Start(embedded.Options{Listen: n.listen.within(t.Context())})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(b.Close)
	return kafkatest.Broker{Addrs: b.Addrs(), Prefix: "seams."}
}

func TestWholeBerthInVirtualTime(t *testing.T) {
	inBubble(t, func(t *testing.T, n network) {
		r := newRigOn(t, n, n.broker(t), smallHosts(5)...).up()
		c := r.as("p")
		r.offer(c, nil, []compute.Flavor{small("m1.small")})
		ids := r.boot(c, 20, compute.Boot{Flavor: "m1.small"})
		r.await(ids, compute.StateActive)
		r.exactlyOnce(ids)
		r.delete(c, ids)
		r.await(ids, compute.StateDeleted)
		r.unused(c)
		r.sane()
	})
}
