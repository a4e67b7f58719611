// SPDX-License-Identifier: Apache-2.0

package libvirt

import (
	"context"
	"encoding/xml"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"

	libvirt "github.com/digitalocean/go-libvirt"
	"github.com/google/uuid"

	"github.com/berth-project/berth/compute-agent/hypervisor"
	"github.com/berth-project/berth/compute-agent/hypervisor/prepare"
	"github.com/berth-project/berth/pkg/compute"
)

// definitionFile is the copy of a machine's definition in its folder, with Berth's part. List makes it; it is removed
// before a stamp is saved and before anything of a machine is, so that nothing old is ever defined anew.
const definitionFile = "domain.xml"

func (d *Driver) copyOf(id compute.InstanceID) string {
	return filepath.Join(d.dir(id), definitionFile)
}

// takeCopy removes the copy of a definition that is to change or to go, and gives what was in it. Until putBack or the
// next List the machine has none. The caller holds d.saving.
func (d *Driver) takeCopy(id compute.InstanceID) (text []byte, err error) {
	file := d.copyOf(id)
	text, err = os.ReadFile(file)
	if err == nil || !errors.Is(err, fs.ErrNotExist) {
		err = os.Remove(file)
	}
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil, nil
	case err != nil:
		return text, err
	}
	return text, prepare.Settle(d.dir(id))
}

// putBack undoes takeCopy where nothing was changed or removed after all.
func (d *Driver) putBack(id compute.InstanceID, text []byte) error {
	if text == nil {
		return nil
	}
	return prepare.Replace(d.copyOf(id), text)
}

// keep copies a definition that has no copy, or an old one, as where an agent of an earlier version saved a stamp. It
// gives what is copied.
func (d *Driver) keep(ctx context.Context, f found) (text []byte, err error) {
	file := d.copyOf(f.stamp.Instance)
	text, err = os.ReadFile(file)
	if err == nil {
		if s, err := stampIn(text); err == nil && reflect.DeepEqual(s, f.stamp) {
			return text, nil
		}
	}
	err = d.short(ctx, func(c conn) error {
		d.saving.Lock()
		defer d.saving.Unlock()
		defined, err := c.DomainGetXMLDesc(f.domain, libvirt.DomainXMLInactive)
		if is(err, libvirt.ErrNoDomain) {
			return nil
		}
		if text = []byte(defined); err == nil {
			err = prepare.Replace(file, text)
		}
		if errors.Is(err, fs.ErrNotExist) { // it is destroyed meanwhile
			return nil
		}
		return err
	})
	return text, err
}

// folders lists the machines' folders.
func (d *Driver) folders() (ids []compute.InstanceID, err error) {
	entries, err := d.home.Read()
	for _, e := range entries {
		if id := compute.InstanceID(e.Name()); id.Check() == nil {
			ids = append(ids, id)
		}
	}
	return ids, err
}

// restore defines anew what libvirt has lost, as where somebody undefined it. It gives the machines that libvirt does
// not take: their disks are there, so they are not gone.
func (d *Driver) restore(ctx context.Context, ids []compute.InstanceID) (refused []hypervisor.Machine, err error) {
	err = d.short(ctx, func(c conn) error {
		domains, _, err := c.ConnectListAllDomains(1, libvirt.ConnectListDomainsPersistent)
		if err != nil {
			return err
		}
		for _, id := range ids {
			if slices.ContainsFunc(domains, func(dom libvirt.Domain) bool { return uuidOf(dom) == id }) {
				continue
			}
			m, err := d.restoreOne(c, id)
			switch {
			case err != nil && m.Instance == "":
				return err
			case err != nil:
				m.Verdict = lost("libvirt has no definition of it, and does not take the copy in %s: %v", d.copyOf(id), err)
				refused = append(refused, m)
			}
		}
		return nil
	})
	return refused, err
}

func lost(format string, args ...any) hypervisor.Verdict {
	return hypervisor.Verdict{Power: compute.PowerUnknown, Detail: fmt.Sprintf(format, args...)}
}

// restoreOne defines a machine anew, unless there is no copy of its definition or libvirt has one. With an error it
// gives the machine if libvirt does not take that copy, and none if nobody knows.
func (d *Driver) restoreOne(c conn, id compute.InstanceID) (hypervisor.Machine, error) {
	d.saving.Lock()
	defer d.saving.Unlock()
	s, text, err := d.readCopy(id)
	if err != nil || text == nil {
		return hypervisor.Machine{}, err
	}
	dom, err := c.DomainLookupByUUID(libvirt.UUID(uuid.MustParse(string(id))))
	switch {
	case err == nil:
		if persists, err := c.DomainIsPersistent(dom); err != nil || persists == 1 {
			return hypervisor.Machine{}, err
		}
	case is(err, libvirt.ErrNoDomain):
		if err := d.unknownToLibvirt(id); err != nil {
			return s.machine(), err
		}
	default:
		return hypervisor.Machine{}, err
	}
	_, err = c.DomainDefineXMLFlags(string(text), 0)
	if no := (libvirt.Error{}); errors.As(err, &no) {
		return s.machine(), err
	}
	return hypervisor.Machine{}, err
}

// unmarked gives the machines of which there is a copy, beside those that are listed: somebody has defined them anew by
// hand, with nothing of Berth's in the metadata, or undefined them meanwhile.
func (d *Driver) unmarked(
	ctx context.Context, ids []compute.InstanceID, listed []hypervisor.Machine,
) (list []hypervisor.Machine, err error) {
	for _, id := range ids {
		if slices.ContainsFunc(listed, func(m hypervisor.Machine) bool { return m.Instance == id }) {
			continue
		}
		m, there, err := d.unmarkedOne(ctx, id)
		if err != nil {
			return nil, err
		}
		if there {
			list = append(list, m)
		}
	}
	return list, nil
}

func (d *Driver) unmarkedOne(ctx context.Context, id compute.InstanceID) (m hypervisor.Machine, there bool, err error) {
	if _, text, err := d.readCopy(id); err != nil || text == nil {
		return m, false, err
	}
	f, whose, err := d.find(ctx, id)
	if err != nil {
		return m, false, err
	}
	if whose == ours { // it was prepared meanwhile
		return d.machine(f, d.host.BootID()), true, nil
	}
	s, text, err := d.readCopy(id) // again: it may have been destroyed
	m = s.machine()
	m.Verdict = lost("libvirt has no domain of it with Berth's metadata: virsh define %s puts that back", d.copyOf(id))
	return m, text != nil, err
}

// readCopy reads a copy and the stamp in it; nil: there is none of this agent's.
func (d *Driver) readCopy(id compute.InstanceID) (s stamp, text []byte, err error) {
	text, err = os.ReadFile(d.copyOf(id))
	if errors.Is(err, fs.ErrNotExist) {
		return s, nil, nil
	}
	if err == nil {
		s, err = stampIn(text)
	}
	if err == nil {
		err = s.check(id)
	}
	if err != nil {
		return s, nil, hypervisor.Refuse("libvirt has nothing of Berth's about %s, and %s cannot be read: define that "+
			"machine again, or remove its folder: %v", id, d.copyOf(id), err)
	}
	if s.Folder != d.o.Dir {
		return s, nil, nil
	}
	return s, text, nil
}

// unknownToLibvirt is an error where a QEMU runs a machine that libvirt has no domain of: libvirt lost all that it had.
func (d *Driver) unknownToLibvirt(id compute.InstanceID) error {
	processes, err := d.host.Processes()
	for _, p := range processes {
		if strings.Contains(strings.Join(p.Args, " "), d.dir(id)+"/") {
			return hypervisor.Refuse("QEMU runs it as process %d, and libvirt does not know: end it (kill %[1]d)", p.PID)
		}
	}
	return err
}

// isOpen says whether a machine of this definition has user networking that is not closed.
func isOpen(definition []byte) bool {
	var domain struct {
		Networks []network `xml:"devices>interface"`
	}
	return xml.Unmarshal(definition, &domain) == nil &&
		slices.ContainsFunc(domain.Networks, func(n network) bool { return n.Type == "user" })
}

// stampIn reads Berth's part of a definition.
func stampIn(text []byte) (stamp, error) {
	var domain struct {
		Metadata struct {
			Stamp stamp `xml:"https://github.com/berth-project/berth/libvirt/1 machine"`
		} `xml:"metadata"`
	}
	err := xml.Unmarshal(text, &domain)
	return domain.Metadata.Stamp, err
}
