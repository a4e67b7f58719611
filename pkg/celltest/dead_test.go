// SPDX-License-Identifier: Apache-2.0

package celltest

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/berth-project/berth/compute-agent/hypervisor/fake"
	"github.com/berth-project/berth/pkg/cell"
	"github.com/berth-project/berth/pkg/client"
	"github.com/berth-project/berth/pkg/compute"
	"github.com/berth-project/berth/pkg/kafka/write"
	"github.com/berth-project/berth/pkg/kafkatest"
	"github.com/berth-project/berth/pkg/wire"
)

// dies ends a host: its agent, and then all that runs on it.
func (r *rig) dies(h compute.HostID) {
	r.t.Helper()
	r.stop(string(h))
	for _, host := range r.world.Hosts() {
		if host.ID() == h {
			r.must(host.Crash())
		}
	}
}

// filled is a rig where all of n machines run on host-01, which then dies. More
// hosts are up.
func filled(t *testing.T, b kafkatest.Broker, n int) (*rig, *client.Client, []compute.InstanceID) {
	t.Helper()
	r := newRig(t, b, smallHosts(3)...)
	// A conductor that hears a beacon half of this later than the node does takes the host for alive still.
	r.deadAfter = 20 * time.Second
	r.startQueues()
	r.startConductor("conductor")
	r.startAPI()
	r.startAgents(r.hosts[0])
	r.known(r.hosts[0])
	c := r.as("p")
	r.offer(c, nil, []compute.Flavor{small("m1.small")})
	ids := r.boot(c, n, compute.Boot{Flavor: "m1.small"})
	r.await(ids, compute.StateActive)
	r.dies("host-01")
	return r, c, ids
}

// moved waits until all are active, and not on this host.
func (r *rig) moved(ids []compute.InstanceID, from compute.HostID) {
	r.t.Helper()
	r.seen.await(
		r.t,
		fmt.Sprintf("%d instances active elsewhere than on %s", len(ids), from),
		func(now map[compute.InstanceID]compute.Instance) bool {
			for _, id := range ids {
				if i := now[id]; i.State != compute.StateActive || i.Host == from {
					return false
				}
			}
			return true
		},
	)
}

// machinesOn are those that a host has.
func (r *rig) machinesOn(h compute.HostID) map[compute.InstanceID]bool {
	there := map[compute.InstanceID]bool{}
	for _, host := range r.world.Hosts() {
		if host.ID() == h {
			for _, m := range host.Machines() {
				there[m.Instance] = true
			}
		}
	}
	return there
}

// A host dies with all it has. Declared dead, what it had runs elsewhere, once;
// what was being deleted is deleted. The host comes back, destroys what it had,
// runs none of it again, and takes new work.
func TestEvacuate(t *testing.T) {
	each(t, func(t *testing.T, b kafkatest.Broker) {
		r, c, ids := filled(t, b, 8)
		r.delete(c, ids[:2])
		r.await(ids[:2], compute.StateDeleting)
		r.startAgents(r.hosts[1:]...)
		err := r.settles(func() error { return second(c.Evacuate(t.Context(), "host-01", client.DeadHost{Force: true})) })
		if compute.KindOf(err) != compute.KindConflict {
			t.Fatalf("nobody is certain, and: %v", err)
		}
		dead := answered(r, func() (client.HostDead, error) {
			return c.Evacuate(t.Context(), "host-01", client.DeadHost{Fenced: true, Force: true, Reason: "burnt"})
		})
		if diff := cmp.Diff(map[string]int{"active": 6, "deleting": 2}, dead.Instances); diff != "" {
			t.Error(diff)
		}
		r.await(ids[:2], compute.StateDeleted)
		r.moved(ids[2:], "host-01")
		r.uses(c, compute.Instances, 6)
		again := answered(r, func() (client.HostDead, error) {
			return c.Evacuate(t.Context(), "host-01", client.DeadHost{Fenced: true, Force: true})
		})
		if again.Fence <= dead.Fence || again.Total() != 0 {
			t.Errorf("said again: %+v, before: %+v", again, dead)
		}

		r.startAgents(r.hosts[0])
		r.poll("the host destroys what it had", func() bool { return len(r.machinesOn("host-01")) == 0 })
		more := r.boot(c, 34, compute.Boot{Flavor: "m1.small"}) // the two others have room for 26
		r.await(more, compute.StateActive)
		r.await(ids[2:], compute.StateActive)
		for _, id := range ids[2:] {
			if n, i := r.launches(id), r.seen.get(id); n != 2 || i.Attempt != 2 || i.Host == "host-01" {
				t.Errorf("%s was launched %d times, attempt %d on %s", id, n, i.Attempt, i.Host)
			}
		}
		resumed, err := r.world.Count(fake.Resumed)
		r.must(err)
		if len(resumed) != 0 {
			t.Errorf("ran again: %v", resumed)
		}
		r.uses(c, compute.Instances, 40)
		r.sane()
	})
}

// What ran on a forgotten host is lost, and the host is not listed, until it
// comes back after all.
func TestForget(t *testing.T) {
	each(t, func(t *testing.T, b kafkatest.Broker) {
		r, c, ids := filled(t, b, 3)
		r.delete(c, ids[:1])
		r.await(ids[:1], compute.StateDeleting)
		answered(r, func() (client.HostDead, error) {
			return c.Forget(t.Context(), "host-01", client.DeadHost{Fenced: true, Force: true})
		})
		r.await(ids[:1], compute.StateDeleted)
		r.await(ids[1:], compute.StateError)
		r.reason(ids[1], compute.HostLost)
		r.uses(c, compute.Instances, 0)
		r.poll("it is not listed", func() bool {
			_, err := c.Host(t.Context(), "host-01")
			return compute.KindOf(err) == compute.KindNotFound
		})
		r.startAgents(r.hosts[0])
		r.known(r.hosts[0])
		r.poll("the host destroys what it had", func() bool { return len(r.machinesOn("host-01")) == 0 })
		r.sane()
	})
}

// The node's own command makes certain that a host is dead: what it says is in
// the refusal, and nothing is declared unless it exits with 0.
func TestFenceCommand(t *testing.T) {
	t.Parallel()
	r := newRig(t, kafkatest.Embedded(t), smallHosts(1)...)
	r.startQueues()
	off, address := filepath.Join(r.data, "off"), freeAddress(t)
	r.daemonOf("api", "api", map[string]any{"listen": address, "fence": map[string]any{
		"command": []string{
			"sh",
			"-c",
			`echo "$1 has power still"; test "$1" = "$(cat ` + off + `)" && ` +
				`test "$1" = "$BERTH_HOST" && touch ` + off + `.done`,
			"fence",
		},
	}})
	r.api = address
	r.startAgents(r.hosts...)
	r.known(r.hosts...)
	c := r.as("p")
	r.dies("host-01")
	err := r.settles(func() error { return second(c.Evacuate(t.Context(), "host-01", client.DeadHost{Force: true})) })
	if compute.KindOf(err) != compute.KindConflict || !strings.Contains(err.Error(), "host-01 has power still") {
		t.Fatalf("it has power, and: %v", err)
	}
	r.must(os.WriteFile(off, []byte("host-01"), 0o644))
	// A daemon waits until the host has been silent for a minute, and this test does not.
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	ended := make(chan error, 1)
	go func() {
		_, err := c.Evacuate(ctx, "host-01", client.DeadHost{Force: true})
		for ctx.Err() == nil && compute.KindOf(mayPass(err)) == compute.KindUnavailable {
			_, err = c.Evacuate(ctx, "host-01", client.DeadHost{Force: true})
		}
		ended <- err
	}()
	r.poll("the host is off for certain", func() bool {
		_, err := os.Stat(off + ".done")
		return err == nil
	})
	select {
	case err := <-ended:
		t.Fatalf("the host was heard of a moment ago, and: %v", err)
	default:
	}
	cancel()
	<-ended
}

// A host reads that it was declared dead, destroys all it had and takes new work,
// long before a conductor hears of it. That is not the new work's end: it runs
// there, and must not be built elsewhere.
func TestWorkBehindAFenceStays(t *testing.T) {
	inBubble(t, func(t *testing.T, n network) {
		r := newRigOn(t, n, n.broker(t), smallHosts(2)...)
		r.startQueues()
		r.startConductor("conductor")
		r.startAPI()
		r.startAgents(r.hosts[0])
		c := r.as("p")
		r.offer(c, nil, []compute.Flavor{small("m1.small")})
		before := r.boot(c, 3, compute.Boot{Flavor: "m1.small"})
		r.await(before, compute.StateActive)
		r.dies("host-01")

		test := r.prepared("operator")
		producer, err := write.NewProducer(test.Kafka)
		r.must(err)
		defer producer.Close()
		offset, err := producer.Append(
			t.Context(),
			wire.EncodeCommand(compute.Command{Op: compute.CommandFenced}).To(test.Topics().Host("host-01"), 0),
		)
		r.must(err)
		r.startAgents(r.hosts[0])
		r.poll("the host destroys what it had", func() bool { return len(r.machinesOn("host-01")) == 0 })
		after := r.boot(c, 4, compute.Boot{Flavor: "m1.small"})
		r.await(after, compute.StateActive)
		r.startAgents(r.hosts[1])
		r.must(
			toAll(
				t.Context(),
				producer,
				test,
				compute.Request{Op: compute.OpFence, Host: "host-01", Fence: compute.FenceEpoch(offset) + 1},
			),
		)
		r.await(
			r.boot(c, 1, compute.Boot{Flavor: "m1.small"}),
			compute.StateActive,
		) // asked for behind the fence, so that is decided
		r.await(after, compute.StateActive)
		for _, id := range after {
			if i := r.seen.get(id); i.Host != "host-01" || i.Attempt != 1 || r.launches(id) != 1 {
				t.Errorf("%s: attempt %d on %s, launched %d times", id, i.Attempt, i.Host, r.launches(id))
			}
		}
		r.sane()
	})
}

// toAll publishes a request to every partition.
func toAll(ctx context.Context, p *write.Producer, c cell.Cell, q compute.Request) error {
	recs := make([]wire.Record, c.Partitions)
	for i := range recs {
		recs[i] = wire.EncodeRequest(q).To(c.Topics().Requests(), int32(i))
	}
	return p.Send(ctx, recs...)
}
