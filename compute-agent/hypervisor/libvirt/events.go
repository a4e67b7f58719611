// SPDX-License-Identifier: Apache-2.0

package libvirt

import (
	"context"
	"time"

	libvirt "github.com/digitalocean/go-libvirt"

	"github.com/berth-project/berth/compute-agent/hypervisor"
	"github.com/berth-project/berth/pkg/compute"
)

// againEvery is how long Events waits before it tries libvirt once more.
const againEvery = time.Second

// Events hears from libvirt. Where the connection ends, it tells afterwards what
// has changed meanwhile.
func (d *Driver) Events(ctx context.Context, tell func(hypervisor.Event)) error {
	e := listener{d: d, tell: tell}
	for {
		_ = e.listen(ctx)
		if !hypervisor.Pause(ctx, againEvery) {
			return ctx.Err()
		}
	}
}

// listener knows what was last seen of each machine.
type listener struct {
	d     *Driver
	tell  func(hypervisor.Event)
	known map[compute.InstanceID]compute.PowerState // nil until all was looked at once
}

// listen hears until ctx or the connection ends. The library blocks for ever where a stream of events is canceled
// while an event comes, and never ends one that begins while the connection ends. To cancel with c.gone is safe: the
// last read was before, so no event can come.
func (e *listener) listen(ctx context.Context) error {
	ctx, giveUp := context.WithCancel(ctx)
	defer giveUp()
	silent := time.AfterFunc(longTime, giveUp) // a libvirt that answers nothing, until there are changes to wait for
	defer silent.Stop()
	c, hangUp, err := e.d.connect(ctx)
	if err != nil {
		return err
	}
	changes, err := c.LifecycleEvents(c.gone)
	if err != nil {
		hangUp()
		return err
	}
	silent.Stop()
	defer func() {
		silent.Reset(shortTime) // it may not answer a goodbye either
		hangUp()
		for range changes {
		}
	}()
	all, err := e.d.list(ctx)
	if err != nil {
		return err
	}
	first := e.known == nil
	if first {
		e.known = map[compute.InstanceID]compute.PowerState{}
	}
	for _, m := range all {
		if first || e.known[m.Instance] == m.Power {
			e.known[m.Instance] = m.Power
			continue
		}
		e.pass(m)
	}
	for event := range changes {
		if err := e.examine(ctx, event.Dom); err != nil {
			return err
		}
	}
	return nil
}

// examine reads a domain of which there is news.
func (e *listener) examine(ctx context.Context, dom libvirt.Domain) error {
	id := uuidOf(dom)
	f, whose, err := e.d.find(ctx, id)
	if err != nil {
		return err
	}
	if whose != ours {
		delete(e.known, id)
		return nil
	}
	e.pass(e.d.machine(f, e.d.host.BootID()))
	return nil
}

func (e *listener) pass(m hypervisor.Machine) {
	e.known[m.Instance] = m.Power
	if m.Launched {
		e.tell(hypervisor.Event{Instance: m.Instance, Power: m.Power, Detail: m.Detail})
	}
}
