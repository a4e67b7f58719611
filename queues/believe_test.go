// SPDX-License-Identifier: Apache-2.0

package queues

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/berth-project/berth/pkg/compute"
	"github.com/berth-project/berth/pkg/hostkey"
	"github.com/berth-project/berth/pkg/telemetry/telemetrytest"
	"github.com/berth-project/berth/pkg/wire"
)

// codes are the reasons for what was rejected.
func (f *far) codes(t *testing.T) (all []compute.ReasonCode) {
	t.Helper()
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, rec := range f.logs[names.Rejected()] {
		r, err := wire.DecodeRejected(rec)
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, r.Reason.Code)
	}
	return all
}

// TestBeaconsAreTheHosts: what a stranger says in a host's name makes no stream and no host, is
// written down with the reason, and counted.
func TestBeaconsAreTheHosts(t *testing.T) {
	for trust, want := range map[hostkey.Trust][]compute.ReasonCode{
		hostkey.TrustKeys: {compute.Unsigned, compute.Forged, compute.Replayed},
		hostkey.TrustAll:  {compute.Forged, compute.Replayed},
	} {
		bubble(t, func(t *testing.T, f *far) {
			master := hostkey.NewMaster([32]byte{1})
			reg := prometheus.NewRegistry()
			m := f.join(t, "a", counting(reg), func(o *Options) {
				o.Hosts = hostkey.NewVerifier(trust, []hostkey.Master{master})
			})
			m.elected <- true
			settle(5 * time.Second)
			by := func(h compute.HostID) *hostkey.Signer { return hostkey.NewSigner(master.Derive(h)) }
			say := func(h string) wire.Record { return beacon(h, 4).To(names.Hosts(), 0) }
			signed := by("h1").Sign(say("h1"))
			f.publish(names.Hosts(), signed, say("h2"), by("h1").Sign(say("h3")), signed)
			settle(5 * time.Second)
			if diff := cmp.Diff(want, f.codes(t)); diff != "" {
				t.Errorf("trust %s: rejected (-want +got): %s", trust, diff)
			}
			streams, unsigned := map[compute.HostID]int{"h1": 1}, 0.0
			if trust == hostkey.TrustAll {
				streams["h2"], unsigned = 1, 1
			}
			if diff := cmp.Diff(streams, f.streams()); diff != "" {
				t.Errorf("trust %s: streams (-want +got): %s", trust, diff)
			}
			telemetrytest.Is(t, reg, unsigned, "berth_hosts_unsigned")
			telemetrytest.Is(t, reg, 1, "berth_queue_manager_beacons_total", "result", "Forged")
			telemetrytest.Is(t, reg, 1, "berth_queue_manager_beacons_total", "result", "signed")
		})
	}
}
