// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"testing"
	"time"

	"github.com/berth-project/berth/pkg/client"
)

// What is said of a host that is being emptied, by commands that wait and by those
// that look once.
func TestDrainInWords(t *testing.T) {
	now := time.Date(2026, 11, 22, 9, 0, 0, 0, time.UTC)
	in := func(d time.Duration) time.Time { return now.Add(d) }
	for _, c := range []struct {
		host         client.Host
		waits, looks string
	}{
		{
			client.Host{State: "draining", Machines: 2, Building: 1}, "draining, 2 machines and 1 build left",
			"2 machines and 1 build left",
		},
		{
			client.Host{State: "draining", Machines: 1, Deadline: in(9 * time.Minute)},
			"draining, 1 machine left, deadline in 9m", "1 machine left, deadline in 9m",
		},
		{
			client.Host{State: "draining", Building: 1, Deadline: in(-5 * time.Minute)},
			"draining, 1 build left, deadline passed 5m ago", "1 build left, deadline passed 5m ago",
		},
		{client.Host{State: "draining", Deadline: in(-5 * time.Minute)}, "draining, nothing left", "nothing left"},
		{client.Host{State: "silent", Machines: 2}, "silent, 2 machines left when it was last heard", ""},
		{client.Host{State: "silent"}, "silent, nothing left when it was last heard", ""},
	} {
		c.host.Host, c.host.DesiredSeen = "h", 5
		w := emptying{asked: client.HostAsked{Host: "h", Version: 5}, by: c.host.Deadline, host: c.host}
		if got := w.status(now).line; got != "host h is "+c.waits {
			t.Errorf("%q, want %q", got, c.waits)
		}
		if got := drainage(c.host, now); got != c.looks {
			t.Errorf("%q, want %q", got, c.looks)
		}
	}
	w := emptying{asked: client.HostAsked{Version: 6}, host: client.Host{Host: "h", State: "enabled", DesiredSeen: 5}}
	if got := w.status(now).line; got != "host h is enabled, and has not read yet that it is to be drained" {
		t.Errorf("before it has read it: %q", got)
	}
}
