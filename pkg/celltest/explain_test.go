// SPDX-License-Identifier: Apache-2.0

package celltest

import (
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/berth-project/berth/compute-agent/hypervisor"
	"github.com/berth-project/berth/compute-agent/hypervisor/fake"
	"github.com/berth-project/berth/pkg/client"
	"github.com/berth-project/berth/pkg/compute"
	"github.com/berth-project/berth/pkg/kafkatest"
)

// explained waits until an instance is explained with these words and this advice.
func (r *rig) explained(c *client.Client, id compute.InstanceID, says string, advice func(client.Explanation) []string, do string) {
	r.t.Helper()
	last := client.Explanation{}
	r.t.Cleanup(func() {
		if r.t.Failed() {
			r.t.Logf("%s: %s; %+v", id, last.Summary, last)
		}
	})
	r.poll("it is explained: "+says, func() bool {
		e, err := c.Explain(r.t.Context(), id)
		r.must(err)
		last = e
		return strings.Contains(e.Summary, says) &&
			slices.ContainsFunc(advice(e), func(line string) bool { return strings.Contains(line, do) })
	})
}

func asker(e client.Explanation) []string     { return e.YouCan }
func operators(e client.Explanation) []string { return e.OperatorsCan }

// TestWhatIsExplainedFrees: machines wait for different reasons. Each explanation says what frees it, and after doing
// just that it starts.
func TestWhatIsExplainedFrees(t *testing.T) {
	each(t, func(t *testing.T, b kafkatest.Broker) {
		r := newRig(t, b, smallHosts(2)...).up()
		c := r.as("p")
		half, huge := small("half"), small("huge")
		half.Resources[compute.VCPU], huge.Resources[compute.VCPU] = 8, 17
		r.offer(c, nil, []compute.Flavor{half, huge})
		full := r.boot(c, 4, compute.Boot{Flavor: "half"})
		r.await(full, compute.StateActive)

		// Full: so much is to be freed on that host.
		waits := r.boot(c, 1, compute.Boot{Flavor: "half"})
		r.explained(c, waits[0], "2 full (the nearest is short of 8 processors)", operators, "free 8 processors on host host-01")
		why, err := c.Why(t.Context(), compute.Boot{Flavor: "half"})
		r.must(err)
		if why.Starts || why.Hosts.Room != 0 || why.Place.Position != 1 {
			t.Errorf("one more would start: %+v", why)
		}
		on, err := c.HostInstances(t.Context(), "host-01")
		r.must(err)
		r.delete(c, []compute.InstanceID{on[0].ID})
		r.await(waits, compute.StateActive)

		// Disabled: that host is to be enabled.
		r.delete(c, slices.DeleteFunc(append(full, waits...), func(id compute.InstanceID) bool { return id == on[0].ID }))
		r.await(append(full, waits...), compute.StateDeleted)
		for _, h := range []compute.HostID{"host-01", "host-02"} {
			asked := answered(r, func() (client.HostAsked, error) { return c.Disable(t.Context(), h, "new disks") })
			r.hostIs(c, h, compute.HostDisabled, asked)
		}
		waits = r.boot(c, 1, compute.Boot{Flavor: "half"})
		r.explained(c, waits[0], "of 2 hosts 2 disabled", operators, "host host-01 is disabled: new disks; berth host enable host-01")
		answered(r, func() (client.HostAsked, error) { return c.Enable(t.Context(), "host-01", "") })
		r.await(waits, compute.StateActive)

		// Avoided: without them it starts.
		avoids := r.boot(c, 1, compute.Boot{Flavor: "half", Avoid: []compute.HostID{"host-01"}})
		r.explained(c, avoids[0], "1 disabled, 1 that it avoids", asker, "without some of the hosts that it avoids")
		r.await(r.boot(c, 1, compute.Boot{Flavor: "half"}), compute.StateActive)

		// Pinned to a host that is disabled it would end at once, and ends so.
		why, err = c.Why(t.Context(), compute.Boot{Flavor: "half", Host: "host-02"})
		r.must(err)
		if why.Summary != "it would end at once: its host host-02 is disabled" || why.Starts {
			t.Errorf("pinned to a disabled host: %+v", why)
		}
		ends := r.boot(c, 1, compute.Boot{Flavor: "half", Host: "host-02"})
		r.await(ends, compute.StateError)
		r.explained(c, ends[0], "it ended in error: PinnedHostUnavailable", asker, "berth why says")

		// Too large: a smaller flavor starts.
		large := r.boot(c, 1, compute.Boot{Flavor: "huge", Deadline: time.Hour})
		r.explained(c, large[0], "no host can ever take it: of 2 hosts 2 too small even when empty", asker, "boot a smaller flavor")

		answered(r, func() (client.HostAsked, error) { return c.Enable(t.Context(), "host-02", "") })
		r.await(avoids, compute.StateActive)
		pinned := r.boot(c, 1, compute.Boot{Flavor: "half", Host: "host-02"})
		r.await(pinned, compute.StateActive)
		r.sane()
	})
}

// TestAnImageThatFailed: when an image has failed on a host again and again, that is said before and after a boot, and
// doing what operators are told lets it be tried there again.
func TestAnImageThatFailed(t *testing.T) {
	each(t, func(t *testing.T, b kafkatest.Broker) {
		var healed atomic.Bool
		r := newRig(t, b, hostWith(1, func(c fake.Call) *fake.Fault {
			if c.Method != "Prepare" || healed.Load() {
				return nil
			}
			return &fake.Fault{Err: hypervisor.RefuseImage("it is broken")}
		})).up()
		c := r.as("p")
		r.offer(c, nil, []compute.Flavor{small("m1.small")})
		boot := compute.Boot{Flavor: "m1.small", Image: "debian", Attempts: 1}
		r.await(r.boot(c, 3, boot), compute.StateError)
		host := r.hosts[0].ID
		mistrusts := func(want ...string) func() bool {
			return func() bool {
				h, err := c.Host(t.Context(), host)
				r.must(err)
				return slices.Equal(h.Mistrusts, want)
			}
		}
		r.poll("the host says so", mistrusts("debian"))
		p, err := c.Placements(t.Context(), client.MixOf("p", boot, 1))
		r.must(err)
		if want := "berth host enable " + string(host); !strings.Contains(p.Summary, "its image has failed there lately") ||
			!strings.Contains(strings.Join(p.OperatorsCan, "\n"), want) || p.Kinds[0].Hosts.By["mistrusts-image"] != 1 {
			t.Errorf("%+v", p)
		}
		boot.Image = "alpine"
		if other, err := c.Placements(t.Context(), client.MixOf("p", boot, 1)); err != nil || other.Kinds[0].Hosts.By["fits"] != 1 {
			t.Errorf("another image: %+v, %v", other, err)
		}
		healed.Store(true)
		answered(r, func() (client.HostAsked, error) { return c.Enable(t.Context(), host, "mended") })
		r.poll("it is trusted", mistrusts())
		boot.Image = "debian"
		r.await(r.boot(c, 1, boot), compute.StateActive)
		r.sane()
	})
}
