// SPDX-License-Identifier: Apache-2.0

package libvirt

import (
	"encoding/xml"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/berth-project/berth/compute-agent/hypervisor"
	"github.com/berth-project/berth/pkg/compute"
)

const one = compute.InstanceID("00000000-0000-4000-8000-00000000000a")

func full() stamp {
	s := stampOf(hypervisor.Spec{
		Instance: one, Project: "shop", Attempt: 2, Claim: "c \"<&>\"", Fence: 3,
		Place:     compute.Place{Devices: []compute.PCIAddress{"0000:3b:00.1", "0000:3b:00.2"}, Nodes: []int{0, 1}},
		Resources: compute.Resources{compute.VCPU: 2, compute.MemoryMB: 2048, "CUSTOM_GPU": 1},
	}, "/odd & <place>")
	s.Ready, s.Launched, s.Released, s.Stopped = true, true, true, true
	s.Code, s.Why, s.Boot = compute.GuestShutdown, "why\nnot", "b"
	return s
}

// FuzzStamp reads what anybody may have written into a domain's metadata: it must
// not panic, and what is read is what was written.
func FuzzStamp(f *testing.F) {
	b, err := xml.Marshal(full())
	if err != nil {
		f.Fatal(err)
	}
	f.Add(string(b))
	f.Add(`<machine v="1" instance="` + string(one) + `"><holds class="VCPU" amount="1"/></machine>`)
	f.Add(`<machine v="2"/>`)
	f.Add(`<machine`)
	f.Fuzz(func(t *testing.T, text string) {
		s, err := decodeStamp(text, one)
		if err != nil {
			return
		}
		_ = s.machine()
		b, err := xml.Marshal(s)
		if err != nil {
			t.Fatal(err)
		}
		if again, err := decodeStamp(string(b), one); err != nil || !cmp.Equal(s, again) {
			t.Errorf("%s is read as %+v, %v", b, again, err)
		}
	})
}

func TestStampIsRead(t *testing.T) {
	b, err := xml.Marshal(full())
	if err != nil {
		t.Fatal(err)
	}
	got, err := decodeStamp(string(b), one)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(full(), got); diff != "" {
		t.Error(diff)
	}
	for _, bad := range []string{
		"", "<machine/>", `<machine v="2" instance="` + string(one) + `"/>`,
		`<machine v="1" instance="00000000-0000-4000-8000-00000000000b"/>`,
	} {
		if _, err := decodeStamp(bad, one); err == nil {
			t.Errorf("%q was read", bad)
		}
	}
}
