// SPDX-License-Identifier: Apache-2.0

package libvirt

import (
	"cmp"
	"context"
	"slices"

	libvirt "github.com/digitalocean/go-libvirt"
	"github.com/google/uuid"

	"github.com/berth-project/berth/compute-agent/hypervisor"
	"github.com/berth-project/berth/pkg/compute"
)

// owner is the kind of owner that a domain has.
type owner int

const (
	nobody owner = iota // there is none
	ours
	others
)

// find looks for a machine's domain.
func (d *Driver) find(ctx context.Context, id compute.InstanceID) (found, owner, error) {
	key, err := uuid.Parse(string(id))
	if err != nil {
		return found{}, nobody, hypervisor.Reject("%v", err)
	}
	var f found
	whose := nobody
	err = d.short(ctx, func(c conn) error {
		dom, err := c.DomainLookupByUUID(libvirt.UUID(key))
		if is(err, libvirt.ErrNoDomain) {
			return nil
		}
		if err == nil {
			f, whose, err = d.inspect(c, dom)
		}
		return err
	})
	return f, whose, err
}

// inspect says which kind of owner a domain has, and of ours what it does.
func (d *Driver) inspect(c conn, dom libvirt.Domain) (f found, whose owner, err error) {
	f.domain = dom
	var is_ bool
	if f.stamp, is_, err = d.read(c, dom); err != nil || !is_ {
		return f, others, err
	}
	state, reason, err := c.DomainGetState(dom, 0)
	if is(err, libvirt.ErrNoDomain) {
		return f, nobody, nil
	}
	f.state, f.reason = libvirt.DomainState(state), reason
	return f, ours, err
}

// ours lists the machines of Berth, by instance. What starts with the host
// starts without being asked: no machine of Berth may.
func (d *Driver) ours(ctx context.Context) ([]found, error) {
	var all []found
	err := d.short(ctx, func(c conn) error {
		domains, _, err := c.ConnectListAllDomains(1, 0)
		if err != nil {
			return err
		}
		for _, dom := range domains {
			f, whose, err := d.inspect(c, dom)
			if err != nil {
				return err
			}
			if whose == ours {
				all = append(all, f)
			}
		}
		auto, _, err := c.ConnectListAllDomains(1, libvirt.ConnectListDomainsAutostart)
		for _, dom := range auto {
			if slices.ContainsFunc(all, func(f found) bool { return f.domain.UUID == dom.UUID }) {
				err = cmp.Or(err, c.DomainSetAutostart(dom, 0))
			}
		}
		return err
	})
	slices.SortFunc(all, func(a, b found) int { return cmp.Compare(a.stamp.Instance, b.stamp.Instance) })
	return all, err
}

// List asks libvirt for its domains.
func (d *Driver) List(ctx context.Context) ([]hypervisor.Machine, error) {
	list, err := d.list(ctx)
	return list, classed(ctx, "list", err)
}

func (d *Driver) list(ctx context.Context) ([]hypervisor.Machine, error) {
	ids, err := d.folders()
	if err != nil {
		return nil, err
	}
	refused, err := d.restore(ctx, ids) // before the domains: what is defined anew is one of them
	if err != nil {
		return nil, err
	}
	all, err := d.ours(ctx)
	if err != nil {
		return nil, err
	}
	list := make([]hypervisor.Machine, 0, len(all)+len(refused))
	boot, open := d.host.BootID(), int64(0)
	for _, f := range all {
		m := d.machine(f, boot)
		if err := d.consoles.Trim(d.dir(m.Instance)); err != nil {
			m.Detail += "; its console cannot be cut: " + err.Error()
		}
		if f.stamp.Ready {
			text, err := d.keep(ctx, f)
			if err != nil {
				m.Detail += "; its definition cannot be copied: " + err.Error()
			}
			if isOpen(text) {
				open++
			}
		}
		list = append(list, m)
	}
	d.open.Store(open)
	for _, m := range refused {
		if !slices.ContainsFunc(all, func(f found) bool { return f.stamp.Instance == m.Instance }) {
			list = append(list, m)
		}
	}
	unmarked, err := d.unmarked(ctx, ids, list)
	if err != nil {
		return nil, err
	}
	list = append(list, unmarked...)
	slices.SortFunc(list, func(a, b hypervisor.Machine) int { return cmp.Compare(a.Instance, b.Instance) })
	return list, ctx.Err()
}

// machine is a domain as List gives it.
func (d *Driver) machine(f found, boot string) hypervisor.Machine {
	m := f.stamp.machine()
	m.Verdict = judge(f, boot)
	m.Detail += "; domain " + f.domain.Name + ", " + d.dir(m.Instance)
	return m
}

func uuidOf(dom libvirt.Domain) compute.InstanceID {
	return compute.InstanceID(uuid.UUID(dom.UUID).String())
}
