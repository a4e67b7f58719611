// SPDX-License-Identifier: Apache-2.0

package queues

import (
	"fmt"
	"testing"
	"time"

	"github.com/berth-project/berth/pkg/compute"
	"github.com/berth-project/berth/pkg/wire"
	"github.com/berth-project/berth/queues/save"
)

// logged is a record that a broker has appended now.
func logged(rec wire.Record) wire.Record {
	rec.Time, rec.Logged = time.Now(), true
	return rec
}

// showing has a queue manager run by a clock that is off by as much.
func showing(off time.Duration) func(*Options) {
	return func(o *Options) { o.Now = func() time.Time { return time.Now().Add(off) } }
}

// TestAQueueManagerWithAWrongClock: advice, rings and savings come when they are due by the log, whatever the queue
// manager's clock shows, though the first that it reads was appended long ago.
func TestAQueueManagerWithAWrongClock(t *testing.T) {
	for _, off := range []time.Duration{0, time.Hour, -time.Hour, -5 * 365 * 24 * time.Hour} {
		t.Run(fmt.Sprint(off), func(t *testing.T) {
			bubble(t, func(t *testing.T, f *far) {
				m := f.wrongClock(t, off)
				f.waitsAsItShould(t)
				f.backsOffAsItShould(t)
				f.isLateAsItShould(t, m)
			})
		})
	}
}

// wrongClock has a queue manager work that has read records of three hours ago and of now.
func (f *far) wrongClock(t *testing.T, off time.Duration) *member {
	f.publish(names.Catalog(), logged(flavor("x")), logged(flavor("y")))
	later := func(i *compute.Instance) { i.PublishAt = time.Now().Add(3*time.Hour + 20*time.Second) }
	f.publish(names.Instances(), logged(instance(9, "y", compute.StateQueued, later)))
	settle(3 * time.Hour)
	m := f.join(t, "a", showing(off))
	f.publish(names.Hosts(), logged(ringing("h1", 1)))
	m.elected <- true
	settle(19 * time.Second)
	if told := f.lastAdvice(t); len(told) != 2 || told["y"].Depth != 0 || len(f.rung(t, "h1")) != 0 {
		t.Errorf("before a build is published is told %+v", told)
	}
	settle(2 * time.Second)
	if got := f.rung(t, "h1")["h1"]; len(got) == 0 || got[0].Queue != "y" {
		t.Errorf("rung is %+v when it is published", got)
	}
	f.publish(names.Instances(), logged(instance(9, "y", compute.StateDeleted)))
	return m
}

// waitsAsItShould publishes work at once.
func (f *far) waitsAsItShould(t *testing.T) {
	queued := time.Now()
	f.publish(names.Instances(), logged(instance(1, "x", compute.StateQueued)))
	settle(0)
	if got := f.rung(t, "h1")["h1"]; len(got) != 1 || !got[0].Oldest.Equal(queued) {
		t.Errorf("rung is %+v", got)
	}
	settle(5 * time.Second)
	if x := f.lastAdvice(t)["x"]; x.Depth != 1 || !x.Oldest.Equal(queued) {
		t.Errorf("told is %+v", x)
	}
	all := f.advice(t)
	if at := all[len(all)-1].At; time.Since(at).Abs() > 10*time.Second {
		t.Errorf("and that at %s", at)
	}
}

// backsOffAsItShould publishes the same work again, in ten seconds.
func (f *far) backsOffAsItShould(t *testing.T) {
	f.publish(names.Instances(), logged(instance(1, "x", compute.StateStarting)))
	settle(10 * time.Second)
	f.rung(t, "h1")
	backsOff := func(i *compute.Instance) { i.PublishAt = time.Now().Add(10 * time.Second) }
	f.publish(names.Instances(), logged(instance(1, "x", compute.StateQueued, backsOff)))
	settle(9900 * time.Millisecond)
	if x := f.lastAdvice(t)["x"]; x.Depth != 0 || len(f.rung(t, "h1")) != 0 {
		t.Errorf("before its time is told %+v", x)
	}
	settle(100 * time.Millisecond)
	if got := f.rung(t, "h1")["h1"]; len(got) != 1 {
		t.Errorf("rung is %+v", got)
	}
}

// saving is the beacon of a host that is full and can be told to save.
func saving(host string) wire.Record {
	inv := compute.Inventory{Totals: compute.Resources{compute.VCPU: 4}}
	return wire.EncodeBeacon(compute.Beacon{
		Host: compute.HostID(host), Inventory: inv, Free: compute.Resources{}, Rings: true, Saves: true,
	})
}

// isLateAsItShould has the host full, so that it is to save.
func (f *far) isLateAsItShould(t *testing.T, m *member) {
	for range 1 + save.DefaultRules().After/(15*time.Second) {
		f.publish(names.Hosts(), logged(saving("h1")))
		settle(15 * time.Second)
	}
	saves := false
	for _, look := range f.rung(t, "h1")["h1"] {
		saves = saves || look.Save > 0
	}
	if x := f.lastAdvice(t)["x"]; !x.Late || !saves {
		t.Errorf("told is %+v; told to save: %v", x, saves)
	}
	if since := time.Until(m.view.logTime(m.now())); since.Abs() > time.Second {
		t.Errorf("it takes the log to be %s ahead", since)
	}
}
