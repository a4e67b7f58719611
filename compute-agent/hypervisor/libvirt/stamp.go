// SPDX-License-Identifier: Apache-2.0

package libvirt

import (
	"context"
	"encoding/xml"
	"errors"
	"fmt"

	libvirt "github.com/digitalocean/go-libvirt"

	"github.com/berth-project/berth/compute-agent/hypervisor"
	"github.com/berth-project/berth/pkg/compute"
)

// namespace is where in a domain's metadata Berth's part is.
const namespace = "https://github.com/berth-project/berth/libvirt/1"

// stamp is what a domain of Berth's has in its metadata. libvirt keeps it in its
// own files, durably, before it answers.
type stamp struct {
	V        int                `xml:"v,attr"`      // 1
	Folder   string             `xml:"folder,attr"` // Options.Dir; another's machines are another agent's
	Instance compute.InstanceID `xml:"instance,attr"`
	Project  compute.Project    `xml:"project,attr"`
	Attempt  compute.Attempt    `xml:"attempt,attr"`
	Claim    compute.ClaimID    `xml:"claim,attr"`
	Fence    compute.FenceEpoch `xml:"fence,attr"`
	Ready    bool               `xml:"ready,attr"` // Prepare has finished
	Launched bool               `xml:"launched,attr"`
	// its processors were let go: if they stand still now, somebody stopped them
	Released bool                 `xml:"released,attr"`
	Stopped  bool                 `xml:"stopped,attr"` // by command, for the reason Why
	Why      string               `xml:"why,attr,omitempty"`
	Code     compute.ReasonCode   `xml:"code,attr,omitempty"` // the same in a word
	Boot     string               `xml:"boot,attr"`           // the host's boot id when it was started last
	Holds    []held               `xml:"holds"`
	Devices  []compute.PCIAddress `xml:"device"`
	Nodes    []int                `xml:"node"`
}

type held struct {
	Class  compute.ResourceClass `xml:"class,attr"`
	Amount int64                 `xml:"amount,attr"`
}

// stamped is a stamp inside a domain's definition.
type stamped struct {
	XMLNS string `xml:"xmlns:berth,attr"`
	stamp
}

func stampOf(s hypervisor.Spec, folder string) stamp {
	out := stamp{
		V: 1, Folder: folder, Instance: s.Instance, Project: s.Project, Attempt: s.Attempt, Claim: s.Claim,
		Fence: s.Fence, Devices: s.Devices, Nodes: s.Nodes,
	}
	for _, class := range s.Resources.Classes() {
		out.Holds = append(out.Holds, held{class, s.Resources[class]})
	}
	return out
}

// machine is the part that List tells of, without what it does now.
func (s stamp) machine() hypervisor.Machine {
	m := hypervisor.Machine{
		Instance: s.Instance, Project: s.Project, Attempt: s.Attempt, Claim: s.Claim, Fence: s.Fence,
		Resources: compute.Resources{}, Place: compute.Place{Devices: s.Devices, Nodes: s.Nodes},
		Launched: s.Launched,
	}
	for _, h := range s.Holds {
		m.Resources[h.Class] = h.Amount
	}
	return m
}

// decodeStamp reads what libvirt gives of a domain's metadata.
func decodeStamp(text string, id compute.InstanceID) (stamp, error) {
	var s stamp
	err := xml.Unmarshal([]byte(text), &s)
	if err == nil {
		err = s.check(id)
	}
	if err != nil {
		return s, fmt.Errorf(
			"domain %s: Berth's part of its metadata cannot be read; repair it, or undefine the domain: %w",
			id, err,
		)
	}
	return s, nil
}

// check refuses a stamp that this version does not read, or that is another machine's.
func (s stamp) check(id compute.InstanceID) error {
	if s.V != 1 || s.Instance != id {
		return fmt.Errorf("version %d of instance %q", s.V, s.Instance)
	}
	return nil
}

// read gives a domain's stamp; false if it is not one of ours. Where only what runs of the domain has it, it is written
// into the definition again: when the machine stops by itself, nothing else would say whose its disk is.
func (d *Driver) read(c conn, dom libvirt.Domain) (stamp, bool, error) {
	s, missed, err := look(c, dom)
	if err == nil && missed && s.Folder == d.o.Dir {
		d.saving.Lock()
		defer d.saving.Unlock()
		if s, missed, err = look(c, dom); err == nil && missed && s.Folder == d.o.Dir { // nobody saved meanwhile
			// If that fails, the machine is known as long as it runs, and the next who reads tries again.
			_ = write(c, dom, s, libvirt.DomainAffectConfig)
		}
	}
	return s, err == nil && s.Folder == d.o.Dir, err
}

// look gives a domain's stamp, that of its definition before that of what runs of it, and none where neither has one.
// missed says that the definition is there and lacks it.
func look(c conn, dom libvirt.Domain) (s stamp, missed bool, err error) {
	get := func(which libvirt.DomainModificationImpact) (string, error) {
		return c.DomainGetMetadata(dom, int32(libvirt.DomainMetadataElement), libvirt.OptString{namespace}, which)
	}
	text, err := get(libvirt.DomainAffectConfig)
	missed = is(err, libvirt.ErrNoDomainMetadata) // it may have been defined anew without Berth's part
	// or it was undefined while it runs
	if missed || is(err, libvirt.ErrOperationInvalid, libvirt.ErrInvalidArg) {
		text, err = get(libvirt.DomainAffectCurrent)
	}
	if is(err, libvirt.ErrNoDomainMetadata, libvirt.ErrNoDomain) {
		return stamp{}, missed, nil
	}
	if err != nil {
		return stamp{}, missed, err
	}
	s, err = decodeStamp(text, uuidOf(dom))
	return s, missed, err
}

// save replaces a domain's stamp, in its definition and in what runs of it.
func (d *Driver) save(ctx context.Context, f found) error {
	return d.short(ctx, func(c conn) error {
		d.saving.Lock()
		defer d.saving.Unlock()
		// What cannot be removed must not keep a machine from being stopped: then the next List replaces the copy.
		text, _ := d.takeCopy(f.stamp.Instance)
		err := write(c, f.domain, f.stamp, libvirt.DomainAffectConfig|libvirt.DomainAffectLive)
		if is(err, libvirt.ErrOperationInvalid) { // it does not run
			err = write(c, f.domain, f.stamp, libvirt.DomainAffectConfig)
		}
		if is(err, libvirt.ErrNoDomain, libvirt.ErrOperationInvalid) { // it was undefined, and nothing was written
			return errors.Join(err, d.putBack(f.stamp.Instance, text))
		}
		return err
	})
}

// write puts a stamp into a part of a domain, or into both.
func write(c conn, dom libvirt.Domain, s stamp, where libvirt.DomainModificationImpact) error {
	b, err := xml.Marshal(struct {
		XMLName xml.Name `xml:"machine"`
		stamp
	}{stamp: s})
	if err != nil {
		return err
	}
	return c.DomainSetMetadata(
		dom, int32(libvirt.DomainMetadataElement), libvirt.OptString{string(b)},
		libvirt.OptString{"berth"}, libvirt.OptString{namespace}, where,
	)
}
