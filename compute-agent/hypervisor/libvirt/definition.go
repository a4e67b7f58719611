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
	"slices"
	"strings"

	libvirt "github.com/digitalocean/go-libvirt"
	"github.com/google/uuid"

	"github.com/berth-project/berth/compute-agent/hypervisor"
	"github.com/berth-project/berth/pkg/compute"
)

// definitionFile is the copy of a machine's definition in its folder, with Berth's part. It is there only while it is
// what libvirt has: it is removed before a stamp is saved and before anything of a machine is, and made by List.
const definitionFile = "domain.xml"

func (d *Driver) copyOf(id compute.InstanceID) string {
	return filepath.Join(d.dir(id), definitionFile)
}

// dropCopy removes the copy of a definition that is to change or to go. The caller holds d.saving.
func (d *Driver) dropCopy(id compute.InstanceID) error {
	if err := os.Remove(d.copyOf(id)); !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}

// keep copies the definitions that have no copy. What cannot be copied is tried again by the next List.
func (d *Driver) keep(ctx context.Context, all []found) {
	all = slices.DeleteFunc(slices.Clone(all), func(f found) bool {
		_, err := os.Stat(d.copyOf(f.stamp.Instance))
		return err == nil || !f.stamp.Ready
	})
	if len(all) == 0 {
		return
	}
	_ = d.short(ctx, func(c conn) error {
		d.saving.Lock()
		defer d.saving.Unlock()
		for _, f := range all {
			if text, err := c.DomainGetXMLDesc(f.domain, libvirt.DomainXMLInactive); err == nil {
				_ = replace(d.copyOf(f.stamp.Instance), text)
			}
		}
		return nil
	})
}

// replace writes a file as a whole or not at all.
func replace(file, text string) error {
	next := file + ".next"
	f, err := os.OpenFile(next, os.O_CREATE|os.O_TRUNC|os.O_WRONLY, 0o600) // #nosec G304 -- in a machine's folder
	if err != nil {
		return err
	}
	_, err = f.WriteString(text)
	if err := errors.Join(err, f.Sync(), f.Close()); err != nil {
		return errors.Join(err, os.Remove(next))
	}
	return os.Rename(next, file)
}

// restore defines anew what libvirt has lost, as where somebody undefined it. It gives those that libvirt does not
// take: their disks are there, so they are not gone.
func (d *Driver) restore(ctx context.Context) (refused []hypervisor.Machine, err error) {
	folders, err := os.ReadDir(d.o.Dir) // before the domains: what is destroyed meanwhile has no copy any more
	if err != nil {
		return nil, err
	}
	err = d.short(ctx, func(c conn) error {
		domains, _, err := c.ConnectListAllDomains(1, libvirt.ConnectListDomainsPersistent)
		if err != nil {
			return err
		}
		for _, entry := range folders {
			id := compute.InstanceID(entry.Name())
			has := slices.ContainsFunc(domains, func(dom libvirt.Domain) bool { return uuidOf(dom) == id })
			if has || id.Check() != nil {
				continue
			}
			if m, err := d.restoreOne(c, id); err != nil {
				m.Verdict = hypervisor.Verdict{Power: compute.PowerUnknown, Detail: fmt.Sprintf(
					"libvirt has no definition of it, and does not take the copy in %s: %v", d.copyOf(id), err)}
				refused = append(refused, m)
			}
		}
		return nil
	})
	return refused, err
}

// restoreOne defines a machine anew, unless there is no copy of its definition or libvirt has one.
func (d *Driver) restoreOne(c conn, id compute.InstanceID) (hypervisor.Machine, error) {
	d.saving.Lock()
	defer d.saving.Unlock()
	text, err := os.ReadFile(d.copyOf(id))
	if err != nil {
		return hypervisor.Machine{}, nil //nolint:nilerr // it is as before there were copies: the machine is gone
	}
	s, err := stampIn(text)
	if err != nil || s.Instance != id || s.Folder != d.o.Dir {
		return hypervisor.Machine{}, nil //nolint:nilerr // nor does it say which machine that was
	}
	dom, err := c.DomainLookupByUUID(libvirt.UUID(uuid.MustParse(string(id))))
	switch {
	case err == nil:
		if persists, err := c.DomainIsPersistent(dom); err != nil || persists == 1 {
			return s.machine(), err
		}
	case is(err, libvirt.ErrNoDomain):
		err = d.unknownToLibvirt(id)
	}
	if err == nil {
		_, err = c.DomainDefineXMLFlags(string(text), 0)
	}
	return s.machine(), err
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

// stampIn reads Berth's part of a definition.
func stampIn(text []byte) (stamp, error) {
	var domain struct {
		Metadata struct {
			Stamp stamp `xml:"https://github.com/berth-project/berth/libvirt/1 machine"`
		} `xml:"metadata"`
	}
	err := xml.Unmarshal(text, &domain)
	s := domain.Metadata.Stamp
	if err == nil && s.V != 1 {
		err = fmt.Errorf("version %d", s.V)
	}
	return s, err
}
