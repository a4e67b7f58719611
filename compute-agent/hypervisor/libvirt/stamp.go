// SPDX-License-Identifier: Apache-2.0

package libvirt

import (
	"context"
	"encoding/xml"
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
	if err == nil && (s.V != 1 || s.Instance != id) {
		err = fmt.Errorf("version %d of instance %q", s.V, s.Instance)
	}
	if err != nil {
		return s, fmt.Errorf(
			"domain %s: Berth's part of its metadata cannot be read; repair it, or undefine the domain: %w",
			id, err,
		)
	}
	return s, nil
}

// read gives a domain's stamp; false if it is not one of ours.
func (d *Driver) read(c conn, dom libvirt.Domain) (stamp, bool, error) {
	get := func(which libvirt.DomainModificationImpact) (string, error) {
		return c.DomainGetMetadata(dom, int32(libvirt.DomainMetadataElement), libvirt.OptString{namespace}, which)
	}
	text, err := get(libvirt.DomainAffectConfig)
	if is(err, libvirt.ErrOperationInvalid, libvirt.ErrInvalidArg) { // it was undefined while it runs
		text, err = get(libvirt.DomainAffectCurrent)
	}
	if is(err, libvirt.ErrNoDomainMetadata, libvirt.ErrNoDomain) {
		return stamp{}, false, nil
	}
	if err != nil {
		return stamp{}, false, err
	}
	s, err := decodeStamp(text, uuidOf(dom))
	return s, err == nil && s.Folder == d.o.Dir, err
}

// save replaces a domain's stamp, in its definition and in what runs of it.
func (d *Driver) save(ctx context.Context, f found) error {
	b, err := xml.Marshal(struct {
		XMLName xml.Name `xml:"machine"`
		stamp
	}{stamp: f.stamp})
	if err != nil {
		return err
	}
	return d.short(ctx, func(c conn) error {
		set := func(which libvirt.DomainModificationImpact) error {
			return c.DomainSetMetadata(
				f.domain, int32(libvirt.DomainMetadataElement), libvirt.OptString{string(b)},
				libvirt.OptString{"berth"}, libvirt.OptString{namespace}, which,
			)
		}
		err := set(libvirt.DomainAffectConfig | libvirt.DomainAffectLive)
		if is(err, libvirt.ErrOperationInvalid) { // it does not run
			err = set(libvirt.DomainAffectConfig)
		}
		return err
	})
}
