// SPDX-License-Identifier: Apache-2.0

package queues

import (
	"maps"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/berth-project/berth/pkg/compute"
	"github.com/berth-project/berth/pkg/hostkey"
	"github.com/berth-project/berth/pkg/wire"
)

// forgets is a manager that removes streams after an hour, and looks every minute.
func forgets(o *Options) { o.Forgotten, o.Sweep = time.Hour, time.Minute }

func (f *far) wantStreams(t *testing.T, want ...compute.HostID) {
	t.Helper()
	if diff := cmp.Diff(want, slices.Sorted(maps.Keys(f.streams()))); diff != "" {
		t.Errorf("streams: %s", diff)
	}
}

// tell says something to a host.
func (f *far) tell(h compute.HostID) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.said == nil {
		f.said = map[compute.HostID]time.Time{}
	}
	f.said[h] = time.Now()
}

// The stream of a host that was forgotten goes once nothing was said to it for long.
// That of a silent host stays, and so does that of one whose beacon cannot be read.
func TestStreamsOfForgottenHostsGo(t *testing.T) {
	bubble(t, func(t *testing.T, f *far) {
		m := f.join(t, "a", forgets)
		m.elected <- true
		f.publish(names.Hosts(), beacon("gone", 4), beacon("silent", 4), beacon("strange", 4))
		settle(5 * time.Second)
		f.wantStreams(t, "gone", "silent", "strange")
		f.tell("gone") // that it is fenced
		f.publish(names.Hosts(), wire.Tombstone(wire.KeyHost("gone")))
		f.publish(names.Hosts(), wire.Record{Key: wire.KeyHost("strange"), Value: []byte("?")})
		settle(50 * time.Minute)
		f.wantStreams(t, "gone", "silent", "strange")
		f.tell("gone") // an old conductor says something still
		settle(50 * time.Minute)
		f.wantStreams(t, "gone", "silent", "strange")
		settle(15 * time.Minute)
		f.wantStreams(t, "silent", "strange")
		f.publish(names.Hosts(), beacon("gone", 4)) // it is set up again
		settle(5 * time.Second)
		f.wantStreams(t, "gone", "silent", "strange")
	})
}

// A stream that somebody deletes is made again, though its host is alive and says nothing new.
func TestStreamThatIsDeletedIsMadeAgain(t *testing.T) {
	bubble(t, func(t *testing.T, f *far) {
		m := f.join(t, "a", forgets, func(o *Options) { o.Forgotten = 0 }) // those of forgotten hosts stay
		m.elected <- true
		f.publish(names.Hosts(), beacon("h", 4))
		settle(5 * time.Second)
		f.wantStreams(t, "h")
		f.mu.Lock()
		delete(f.hosts, "h")
		f.mu.Unlock()
		settle(3 * time.Minute)
		f.wantStreams(t, "h")
	})
}

// The stream of a host whose beacon is not believed stays: its key was withdrawn, or it has none yet, and it may run
// machines. It goes once the host is forgotten.
func TestStreamOfAHostWithoutItsKeyStays(t *testing.T) {
	bubble(t, func(t *testing.T, f *far) {
		master, withdrawn := hostkey.NewMaster([32]byte{1}), hostkey.NewMaster([32]byte{2})
		beaconOf := func(h string) wire.Record { return beacon(h, 4).To(names.Hosts(), 0) }
		f.mu.Lock()
		f.hosts["withdrawn"], f.hosts["unsigned"] = 1, 1
		f.mu.Unlock()
		before := hostkey.NewSigner(withdrawn.Derive("withdrawn"))
		f.publish(names.Hosts(), before.Sign(beaconOf("withdrawn")), beaconOf("unsigned"))
		m := f.join(t, "a", forgets, func(o *Options) {
			o.Hosts = hostkey.NewVerifier(hostkey.TrustKeys, []hostkey.Master{master})
		})
		m.elected <- true
		settle(3 * time.Hour)
		f.wantStreams(t, "unsigned", "withdrawn")
		f.publish(names.Hosts(), wire.Tombstone(wire.KeyHost("withdrawn")))
		settle(3 * time.Hour)
		f.wantStreams(t, "unsigned")
	})
}

// A host that comes back while its stream is looked at keeps it.
func TestAHostThatComesBackKeepsItsStream(t *testing.T) {
	bubble(t, func(t *testing.T, f *far) {
		f.mu.Lock()
		f.hosts["back"] = 1 // nobody knows which manager made it
		f.fault = func(c call) fault {
			if c.op != "quiet" {
				return fault{}
			}
			return fault{hook: func() { f.publish(names.Hosts(), beacon("back", 4)) }}
		}
		f.mu.Unlock()
		m := f.join(t, "a", forgets)
		m.elected <- true
		settle(3 * time.Minute)
		f.wantStreams(t, "back")
	})
}

func TestStreamsStayWithoutASetting(t *testing.T) {
	bubble(t, func(t *testing.T, f *far) {
		f.mu.Lock()
		f.hosts["nobodys"] = 1
		f.mu.Unlock()
		m := f.join(t, "a")
		m.elected <- true
		settle(3 * time.Hour)
		f.wantStreams(t, "nobodys")
	})
}
