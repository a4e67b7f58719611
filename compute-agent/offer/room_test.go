// SPDX-License-Identifier: Apache-2.0

package offer

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/berth-project/berth/pkg/compute"
)

const (
	wholeClass compute.ResourceClass = "CUSTOM_CARD"
	partClass  compute.ResourceClass = "CUSTOM_SLICE"
)

// card is a physical function with virtual ones.
func card(slot, parts, node int) []compute.PCIDevice {
	whole := compute.PCIDevice{
		Address: compute.PCIAddress(fmt.Sprintf("0000:%02x:00.0", slot)), Vendor: 0x10de, Device: 1,
		Driver: "vfio-pci", Node: node,
	}
	out := []compute.PCIDevice{whole}
	for i := range parts {
		out = append(out, compute.PCIDevice{
			Address: compute.PCIAddress(fmt.Sprintf("0000:%02x:00.%d", slot, i+1)), Vendor: 0x10de, Device: 2,
			Parent: whole.Address, Driver: "vfio-pci", Node: node,
		})
	}
	return out
}

func rules() []DeviceRule {
	return []DeviceRule{{Class: wholeClass, ID: "10de:0001"}, {Class: partClass, ID: "10de:0002"}}
}

// numaHost has two nodes of 4 processors and 8 GiB, with a card of two parts at each.
func numaHost(t Terms) Host {
	inv := compute.Inventory{Totals: compute.Resources{compute.VCPU: 8, compute.MemoryMB: 16384}}
	nodes := []compute.NUMANode{
		{ID: 0, CPUs: []int{0, 1, 2, 3}, MemoryMB: 8192}, {ID: 1, CPUs: []int{4, 5, 6, 7}, MemoryMB: 8192},
	}
	t.Devices = rules()
	return t.Offer(inv, nodes, slices.Concat(card(1, 2, 0), card(2, 2, 1)))
}

// taken takes, one after the other, what has room; the answer says where each is.
func taken(room Room, needs ...compute.Resources) string {
	var out []string
	for _, n := range needs {
		place, rest, ok := room.Allocate(n, compute.Place{})
		if !ok {
			out = append(out, "no")
			continue
		}
		var short []string
		for _, d := range place.Devices {
			short = append(short, strings.TrimPrefix(string(d), "0000:"))
		}
		out, room = append(out, fmt.Sprintf("%v%v", short, place.Nodes)), rest
	}
	return strings.Join(out, " ")
}

// A card that is taken has no parts, one of which a part is taken is no whole; and
// parts come from a card that is not whole any more.
func TestCardsAndTheirParts(t *testing.T) {
	whole, part := compute.Resources{wholeClass: 1}, compute.Resources{partClass: 1}
	for _, c := range []struct {
		when  string
		needs []compute.Resources
		want  string
	}{
		{
			"a card, then parts", []compute.Resources{whole, part, part, part},
			"[01:00.0][] [02:00.1][] [02:00.2][] no",
		},
		{
			"parts, then cards", []compute.Resources{part, part, whole, whole},
			"[01:00.1][] [01:00.2][] [02:00.0][] no",
		},
		{
			"both", []compute.Resources{{wholeClass: 1, partClass: 2}, part, whole},
			"[01:00.0 02:00.1 02:00.2][] no no",
		},
		{
			"more than one card has", []compute.Resources{{partClass: 3}, part, whole},
			"[01:00.1 01:00.2 02:00.1][] [02:00.2][] no",
		},
		{"more than there are", []compute.Resources{{partClass: 5}, {wholeClass: 3}}, "no no"},
	} {
		if got := taken(numaHost(Terms{}).Room(), c.needs...); got != c.want {
			t.Errorf("%s: %s, want %s", c.when, got, c.want)
		}
	}
}

// What is free of a class is what the next machine may have of it.
func TestHiddenDevicesDoNotCount(t *testing.T) {
	host := numaHost(Terms{})
	free := func(held ...Held) compute.Resources { return host.Room(held...).Free() }
	none := compute.Resources{compute.VCPU: 8, compute.MemoryMB: 16384}
	for _, c := range []struct {
		when string
		held []Held
		want compute.Resources
	}{
		{"empty", nil, none.Plus(compute.Resources{wholeClass: 2, partClass: 4})},
		{
			"a part",
			[]Held{{compute.Resources{partClass: 1}, compute.Place{Devices: []compute.PCIAddress{"0000:01:00.2"}}}},
			none.Plus(compute.Resources{wholeClass: 1, partClass: 3}),
		},
		{
			"a card",
			[]Held{{compute.Resources{wholeClass: 1}, compute.Place{Devices: []compute.PCIAddress{"0000:02:00.0"}}}},
			none.Plus(compute.Resources{wholeClass: 1, partClass: 2}),
		},
		{"one that is gone", []Held{{compute.Resources{partClass: 1},
			compute.Place{Devices: []compute.PCIAddress{"0000:01:00.9"}}}}, none.Plus(compute.Resources{wholeClass: 2,
			partClass: 4})},
		{
			"which one is not known", []Held{{compute.Resources{wholeClass: 1}, compute.Place{}}},
			none.Plus(compute.Resources{wholeClass: 1, partClass: 4}),
		},
	} {
		if diff := cmp.Diff(c.want, free(c.held...)); diff != "" {
			t.Errorf("%s: %s", c.when, diff)
		}
	}
}

// What the host or somebody else's machine uses is nobody's: the device, its parts,
// and the whole of which it is a part. The driver of a card may be the host's: that
// is how it comes to have parts.
func TestDevicesInUseAreNotOffered(t *testing.T) {
	devices := slices.Concat(card(1, 2, 0), card(2, 2, 0), card(3, 2, 0), card(4, 1, 0))
	set := func(at compute.PCIAddress, change func(*compute.PCIDevice)) {
		change(&devices[slices.IndexFunc(devices, func(d compute.PCIDevice) bool { return d.Address == at })])
	}
	use := func(d *compute.PCIDevice) { d.InUse = true }
	group := func(g string) func(*compute.PCIDevice) { return func(d *compute.PCIDevice) { d.Group = g } }
	devices = append(devices, card(5, 0, 0)...) // with its host's sound in one group
	devices = append(devices, compute.PCIDevice{Address: "0000:05:00.1", Driver: "snd", InUse: true, Group: "5"})
	set("0000:05:00.0", group("5"))
	devices = append(devices, compute.PCIDevice{Address: "0000:05:00.2", Vendor: 0x10de, Device: 1,
		Driver: "vfio-pci", Group: "5"})
	devices = append(devices, card(7, 1, 0)...) // the whole is for machines, and so its part is not
	set("0000:07:00.1", func(d *compute.PCIDevice) { d.Barred = true })
	devices = append(devices, card(6, 0, 0)...) // behind a bridge
	devices = append(
		devices,
		compute.PCIDevice{Address: "0000:06:00.7", Class: 0x060400, Driver: "pcieport", InUse: true, Group: "6"},
	)
	set("0000:06:00.0", group("6"))
	set("0000:01:00.0", func(d *compute.PCIDevice) { d.Driver, d.InUse = "nvidia", true })
	set("0000:02:00.0", use)
	set("0000:03:00.1", use)
	set("0000:04:00.1", func(d *compute.PCIDevice) { d.Driver = "" })
	var got []compute.PCIAddress
	for _, d := range offered(devices, rules()) {
		if d.class != "" {
			got = append(got, d.at)
		}
	}
	if diff := cmp.Diff(
		[]compute.PCIAddress{
			"0000:01:00.1", "0000:01:00.2", "0000:03:00.2", "0000:04:00.0", "0000:06:00.0", "0000:07:00.0",
		},
		got,
	); diff != "" {
		t.Error(diff)
	}
}

// What the IOMMU does not tell apart goes to one machine at most.
func TestGroupsAreNotDivided(t *testing.T) {
	devices := slices.Concat(card(1, 0, 0), card(2, 0, 0), card(3, 0, 0))
	devices[0].Group, devices[1].Group, devices[2].Group = "7", "7", "8"
	room := Terms{Devices: rules()}.Offer(compute.Inventory{}, nil, devices).Room()
	one := compute.Resources{wholeClass: 1}
	if got := taken(room, one, one, one); got != "[03:00.0][] [01:00.0][] no" {
		t.Errorf("they are given away as %s", got)
	}
}

// Of devices that would do, the nearest are taken, then those by which fewest others are
// lost; if so there is no way, those by which fewest are lost come first.
func TestWhichDevices(t *testing.T) {
	one := func(class compute.ResourceClass) compute.Resources { return compute.Resources{class: 1} }
	both := compute.Resources{wholeClass: 1, partClass: 1}
	parts := []DeviceRule{{Class: wholeClass, Addresses: []compute.PCIAddress{"0000:01:00.0"}}, rules()[1]}
	alone := card(1, 0, 0)
	alone[0].Group = "8"
	for _, c := range []struct {
		when    string
		devices []compute.PCIDevice
		rules   []DeviceRule
		held    compute.PCIAddress // a part of a card
		needs   compute.Resources
		want    []compute.PCIAddress
	}{
		{"near, though a card is lost", slices.Concat(card(1, 2, 0), card(2, 2, 1)), rules(), "0000:02:00.1",
			one(partClass), []compute.PCIAddress{"0000:01:00.1"}},
		{"of a card that is lost", slices.Concat(card(1, 2, 0), card(2, 2, 0)), rules(), "0000:02:00.1",
			one(partClass), []compute.PCIAddress{"0000:02:00.2"}},
		{"of a card that is not offered", slices.Concat(card(1, 2, 0), card(2, 2, 0)), parts, "", one(partClass),
			[]compute.PCIAddress{"0000:02:00.1"}},
		{"alone in a group", slices.Concat(alone, card(2, 0, 0)), rules(), "", one(wholeClass),
			[]compute.PCIAddress{"0000:01:00.0"}},
		{"far, or there is no part", slices.Concat(card(1, 2, 0), card(2, 0, 1)), rules(), "", both,
			[]compute.PCIAddress{"0000:01:00.1", "0000:02:00.0"}},
		{
			"the nearest of those", slices.Concat(card(1, 2, 0), card(2, 0, 1), card(4, 0, 1), card(5, 0, 0)),
			rules(), "", compute.Resources{wholeClass: 2, partClass: 1},
			[]compute.PCIAddress{"0000:01:00.1", "0000:02:00.0", "0000:05:00.0"},
		},
	} {
		room := Terms{Devices: c.rules}.Offer(compute.Inventory{}, nil, c.devices).Room()
		if c.held != "" {
			room = room.Hold(one(partClass), compute.Place{Devices: []compute.PCIAddress{c.held}})
		}
		if got, ok := room.devices.pick(c.needs, []int{0}, nil); !ok || !slices.Equal(got, c.want) {
			t.Errorf("%s: %v, want %v", c.when, got, c.want)
		}
	}
}

// Machines outlive the rules that they got their devices by: those are nobody
// else's, and neither is what they exclude; the rest is counted as it is offered.
func TestRulesThatChange(t *testing.T) {
	devices := slices.Concat(card(1, 2, 0), card(2, 2, 0))
	held := []Held{
		{compute.Resources{partClass: 1}, compute.Place{Devices: []compute.PCIAddress{"0000:01:00.1"}}},
		{compute.Resources{"CUSTOM_OLD": 1}, compute.Place{Devices: []compute.PCIAddress{"0000:02:00.1"}}},
	}
	for _, c := range []struct {
		when string
		now  []DeviceRule
		want compute.Resources
	}{
		{"cards only", rules()[:1], compute.Resources{wholeClass: 0}},
		{"parts only", rules()[1:], compute.Resources{partClass: 2}},
		{"another class", []DeviceRule{{Class: "CUSTOM_NEW", ID: "10de:0002"}}, compute.Resources{"CUSTOM_NEW": 2}},
	} {
		free := Terms{Devices: c.now}.Offer(compute.Inventory{}, nil, devices).Room(held...).Free()
		for class, n := range c.want {
			if free[class] != n {
				t.Errorf("%s: %d %s are free, want %d", c.when, free[class], class, n)
			}
		}
		if n, there := free[""]; there {
			t.Errorf("%s: of what is not offered %d are free", c.when, n)
		}
	}
}

// With OneNode a machine is on one node, on the one that has its devices if it
// needs some, otherwise on the fullest that has room.
func TestMachinesStayOnTheirNode(t *testing.T) {
	half := compute.Resources{compute.VCPU: 2, compute.MemoryMB: 1024}
	one := compute.Resources{compute.VCPU: 1, compute.MemoryMB: 1024}
	all := compute.Resources{compute.VCPU: 5, compute.MemoryMB: 1024}
	for _, c := range []struct {
		when  string
		needs []compute.Resources
		want  string
	}{
		{"the fullest first", []compute.Resources{one, half, one, half}, "[][0] [][0] [][0] [][1]"},
		{"larger than a node", []compute.Resources{all}, "no"},
		{
			"free in all, but not on one", []compute.Resources{half, one, half, one, half},
			"[][0] [][0] [][1] [][0] [][1]",
		},
		{
			"only a card elsewhere leaves a part",
			[]compute.Resources{half.Plus(compute.Resources{wholeClass: 2}), half}, "[01:00.0 02:00.0][0] [][0]",
		},
		{
			"its devices are there",
			[]compute.Resources{
				half.Plus(compute.Resources{partClass: 1}), one.Plus(compute.Resources{wholeClass: 1}),
			},
			"[01:00.1][0] [02:00.0][1]",
		},
	} {
		if got := taken(numaHost(Terms{OneNode: true}).Room(), c.needs...); got != c.want {
			t.Errorf("%s: %s, want %s", c.when, got, c.want)
		}
	}
	if got := taken(numaHost(Terms{}).Room(), all); got != "[][]" {
		t.Errorf("anywhere: %s", got)
	}
	// a node that was there before the host was set up anew
	gone := Held{compute.Resources{compute.VCPU: 8}, compute.Place{Nodes: []int{9}}}
	if got := taken(numaHost(Terms{OneNode: true}).Room(gone), one); got != "no" {
		t.Errorf("beside a machine on a node that is gone: %s", got)
	}
}

// TestPlacesBesideEachOther: several machines have room together if each has a place beside the others; that what
// they need together is free is not enough.
func TestPlacesBesideEachOther(t *testing.T) {
	half := compute.Resources{compute.VCPU: 2, compute.MemoryMB: 1024}
	three := compute.Resources{compute.VCPU: 3, compute.MemoryMB: 1024}
	carded := half.Plus(compute.Resources{wholeClass: 1})
	for _, c := range []struct {
		when  string
		needs []compute.Resources
		want  string
	}{
		{"two on a node", []compute.Resources{half, half, half, half}, "true [0] [0] [1] [1]"},
		{"no node has two of them", []compute.Resources{three, three, half}, "false"},
		{"the largest first, in their order", []compute.Resources{half, three, half}, "true [1] [0] [1]"},
		{"a device each", []compute.Resources{carded, carded}, "true 01:00.0[0] 02:00.0[1]"},
		{"more devices than there are", []compute.Resources{carded, carded, carded}, "false"},
		{
			"both devices, and a part of one",
			[]compute.Resources{half.Plus(compute.Resources{wholeClass: 2}),
				half.Plus(compute.Resources{partClass: 1})}, "false",
		},
	} {
		places, fits := numaHost(Terms{OneNode: true}).Room().AllocateAll(c.needs, compute.Place{})
		got := fmt.Sprint(fits)
		for _, p := range places {
			got += " "
			for _, d := range p.Devices {
				got += strings.TrimPrefix(string(d), "0000:")
			}
			got += fmt.Sprint(p.Nodes)
		}
		if got != c.want {
			t.Errorf("%s: %s, want %s", c.when, got, c.want)
		}
	}
}

// What one machine may have is less than what there is where it is promised more
// than once, and where machines stay on a node.
func TestLargest(t *testing.T) {
	terms := Terms{OverCommit: Ratios{compute.MemoryMB: 2}, OneNode: true}
	h := numaHost(terms)
	if diff := cmp.Diff(compute.Resources{compute.VCPU: 4, compute.MemoryMB: 8192}, h.Inventory.Largest); diff != "" {
		t.Error(diff)
	}
	held := Held{compute.Resources{compute.VCPU: 3, compute.MemoryMB: 15000}, compute.Place{Nodes: []int{1}}}
	also := Held{compute.Resources{compute.VCPU: 2}, compute.Place{Nodes: []int{0}}}
	if diff := cmp.Diff(
		compute.Resources{compute.VCPU: 2, compute.MemoryMB: 8192}, h.Room(held, also).Largest(),
	); diff != "" {
		t.Error(diff)
	}
	if most := numaHost(Terms{}).Room().Largest(); most != nil {
		t.Errorf("nothing is promised twice, and one machine may have %v", most)
	}
}

// What a machine has that is bound to no node is counted on each by its size, what is on
// several is divided among them; nodes may have nothing of a class.
func TestNodesAreCounted(t *testing.T) {
	h := numaHost(Terms{OneNode: true})
	for _, c := range []struct {
		held Held
		want int64
	}{
		{Held{compute.Resources{compute.VCPU: 2}, compute.Place{}}, 3},
		{Held{compute.Resources{compute.VCPU: 3}, compute.Place{}}, 2},
		{Held{compute.Resources{compute.VCPU: 3}, compute.Place{Nodes: []int{0, 1}}}, 2},
		{Held{compute.Resources{compute.VCPU: 4}, compute.Place{Nodes: []int{0, 1}}}, 2},
	} {
		if got := h.Room(c.held).Largest()[compute.VCPU]; got != c.want {
			t.Errorf("beside %+v a machine may have %d processors, want %d", c.held, got, c.want)
		}
	}
	for _, n := range split([]compute.NUMANode{{ID: 0}, {ID: 1}}, compute.Resources{compute.VCPU: 8,
		compute.MemoryMB: 8}, nil, nil) {
		if n.free[compute.VCPU] != 0 || n.free[compute.MemoryMB] != 0 || n.shares[compute.VCPU] != 0 ||
			n.shares[compute.MemoryMB] != 0 {
			t.Errorf("a node without anything has %v: %v", n.free, n.shares)
		}
	}
}

// Fits says what Take would find, and Largest is told only where it is less than is free.
func TestFits(t *testing.T) {
	inv := compute.Inventory{Totals: compute.Resources{compute.VCPU: 8, compute.MemoryMB: 16384}}
	twice := Terms{OverCommit: Ratios{compute.VCPU: 4}}.Offer(inv, nil, nil)
	nodes := numaHost(Terms{OneNode: true, OverCommit: Ratios{compute.VCPU: 4}})
	busy := Held{compute.Resources{compute.VCPU: 14}, compute.Place{Nodes: []int{0}}}
	cpus := func(n int64) compute.Resources { return compute.Resources{compute.VCPU: n} }
	for _, c := range []struct {
		when    string
		room    Room
		largest compute.Resources
		fits    map[string]compute.Resources
		not     compute.Resources
	}{
		{"promised twice", twice.Room(), cpus(8), map[string]compute.Resources{"as many": cpus(8)}, cpus(9)},
		{
			"nearly full", twice.Room(Held{Resources: cpus(25)}), nil, map[string]compute.Resources{"all": cpus(7)},
			cpus(8),
		},
		{"just as many are free", twice.Room(Held{Resources: cpus(24)}), nil,
			map[string]compute.Resources{"all": cpus(8)}, cpus(9)},
		{
			"promised twice, on nodes", nodes.Room(), compute.Resources{compute.VCPU: 4, compute.MemoryMB: 8192},
			map[string]compute.Resources{"as many": cpus(4)}, cpus(5),
		},
		{
			"one node is nearly full", nodes.Room(busy), compute.Resources{compute.VCPU: 4, compute.MemoryMB: 8192},
			map[string]compute.Resources{"on the other": cpus(3)}, cpus(5),
		},
		{
			"a card and parts of it", Terms{Devices: rules()}.Offer(compute.Inventory{}, nil, card(1, 2, 0)).Room(),
			nil,
			map[string]compute.Resources{"the card": {wholeClass: 1}, "the parts": {partClass: 2}},
			compute.Resources{wholeClass: 1, partClass: 1},
		},
	} {
		if diff := cmp.Diff(c.largest, c.room.Largest()); diff != "" {
			t.Errorf("%s: %s", c.when, diff)
		}
		for what, needs := range c.fits {
			if _, _, ok := c.room.Allocate(needs, compute.Place{}); !ok || !c.room.Fits(needs) {
				t.Errorf("%s: %s does not fit", c.when, what)
			}
		}
		if _, _, ok := c.room.Allocate(c.not, compute.Place{}); ok || c.room.Fits(c.not) {
			t.Errorf("%s: %v fits", c.when, c.not)
		}
	}
	small := Room{free: cpus(9), largest: cpus(2), nodes: nodes.Room().nodes}
	if got := small.Largest()[compute.VCPU]; got != 2 {
		t.Errorf("of what is promised twice, less than a node has, a machine may have %d", got)
	}
}

// A host with one node is one node: nothing has to be kept on it.
func TestOneNode(t *testing.T) {
	inv := compute.Inventory{Totals: compute.Resources{compute.VCPU: 4, compute.MemoryMB: 1024}}
	for _, nodes := range [][]compute.NUMANode{nil, {{ID: 0, CPUs: []int{0, 1}, MemoryMB: 1024}}} {
		if got := taken(Terms{OneNode: true}.Offer(inv, nodes, nil).Room(),
			compute.Resources{compute.VCPU: 4}); got != "[][]" {
			t.Errorf("%d nodes: %s", len(nodes), got)
		}
	}
}

// Of a class that devices count as there is what there are devices, whatever the driver says.
func TestTotalsAreDevices(t *testing.T) {
	inv := compute.Inventory{Totals: compute.Resources{wholeClass: 5, compute.VCPU: 1}}
	got := Terms{Devices: rules()}.Offer(inv, nil, append(card(1, 0, 0),
		compute.PCIDevice{Address: "0000:09:00.0"})).Inventory.Totals
	if diff := cmp.Diff(compute.Resources{wholeClass: 1, partClass: 0, compute.VCPU: 1}, got); diff != "" {
		t.Error(diff)
	}
}

// A machine that has devices, nobody knows which, has as many of them.
func TestUnknownDevicesAreHeld(t *testing.T) {
	if got := numaHost(Terms{}).Room().Hold(compute.Resources{wholeClass: 1},
		compute.Place{}).Free()[wholeClass]; got != 1 {
		t.Errorf("%d cards are free", got)
	}
}

func TestRulesMatch(t *testing.T) {
	d := compute.PCIDevice{Address: "0000:01:00.0", Vendor: 0x10de, Device: 0x2230}
	for want, rules := range map[bool][]DeviceRule{
		true:  {{ID: "10de:2230"}, {Addresses: []compute.PCIAddress{"0000:02:00.0", "0000:01:00.0"}}},
		false: {{ID: "10de:2231"}, {ID: "10df:2230"}, {Addresses: []compute.PCIAddress{"0000:02:00.0"}}},
	} {
		for _, r := range rules {
			if r.matches(d) != want {
				t.Errorf("%+v matches: %t", r, !want)
			}
		}
	}
	for _, r := range []DeviceRule{
		{Class: compute.MemoryMB, ID: "10de:0001"}, {Class: compute.DiskGB, ID: "10de:0001"},
		{Class: "CUSTOM_GPU", Addresses: []compute.PCIAddress{"0000:01:00.0", "01:00.0"}},
	} {
		if r.Check() == nil {
			t.Errorf("%+v is taken", r)
		}
	}
}

func TestTermsThatCannotBe(t *testing.T) {
	for says, terms := range map[string]Terms{
		"a class of your own": {Devices: []DeviceRule{{Class: compute.VCPU, ID: "10de:0001"}}},
		"resource class":      {Devices: []DeviceRule{{Class: "GPU", ID: "10de:0001"}}},
		"give one of them":    {Devices: []DeviceRule{{Class: "CUSTOM_GPU"}}},
		"give one of them: id": {
			Devices: []DeviceRule{
				{Class: "CUSTOM_GPU", ID: "10de:0001", Addresses: []compute.PCIAddress{"0000:01:00.0"}},
			},
		},
		"lspci -n": {Devices: []DeviceRule{{Class: "CUSTOM_GPU", ID: "10DE:1"}}},
		"domain, bus, device": {
			Devices: []DeviceRule{{Class: "CUSTOM_GPU", Addresses: []compute.PCIAddress{"01:00.0"}}},
		},
		"CUSTOM_SECOND":              {Devices: []DeviceRule{rules()[0], {Class: "CUSTOM_SECOND"}}},
		"can be promised more than ": {OverCommit: Ratios{"CUSTOM_GPU": 2}},
	} {
		if err := terms.Check(); err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("%+v: %v, and should say %q", terms, err, says)
		}
	}
	if err := (Terms{Devices: rules(), OneNode: true}).Check(); err != nil {
		t.Error(err)
	}
}

// busy is a host on which machines come and go, and fetches are open.
type busy struct {
	*rapid.T
	host    Host
	terms   Terms
	nodes   []compute.NUMANode
	devices []compute.PCIDevice
	held    []Held
	open    [3]Planned
}

func (b *busy) room() Room {
	r := b.host.Room(b.held...)
	for _, p := range b.open {
		r = r.Hold(p.Most, p.Place)
	}
	return r
}

func (b *busy) needs() compute.Resources {
	r := compute.Resources{
		compute.VCPU:     rapid.Int64Range(1, 4).Draw(b.T, "cpus"),
		compute.MemoryMB: 512 * rapid.Int64Range(1, 8).Draw(b.T, "memory"),
	}
	for class, most := range map[compute.ResourceClass]int64{wholeClass: 1, partClass: 2} {
		if n := rapid.Int64Range(-3, most).Draw(b.T, string(class)); n > 0 {
			r[class] = n
		}
	}
	return r
}

// fetch opens fetches in idle sessions.
func (b *busy) fetch() {
	var sessions []Session
	for i, p := range b.open {
		var session Session
		if p.Most != nil {
			session.Open = &b.open[i].Reserved
		}
		for n := range rapid.IntRange(0, 3).Draw(b.T, "candidates") {
			session.Candidates = append(session.Candidates, Candidate{
				Queue: compute.QueueName(fmt.Sprint(i, "-", n)), Needs: b.needs(),
				Skipped: rapid.IntRange(0, 2).Draw(b.T, "skipped"),
			})
		}
		sessions = append(sessions, session)
	}
	for i, p := range Plan(b.host.Room(b.held...), sessions, 4) {
		if len(p.Listed) > 0 {
			b.open[i] = p
		}
	}
}

// arrive ends a fetch, mostly with a record of one of its queues.
func (b *busy) arrive() {
	i := rapid.IntRange(0, len(b.open)-1).Draw(b.T, "session")
	p := b.open[i]
	if p.Most == nil {
		return
	}
	b.open[i] = Planned{}
	if n := rapid.IntRange(-1, len(p.Listed)-1).Draw(b.T, "brings"); n >= 0 {
		needs := p.Listed[n].Needs
		place, _, ok := b.room().Allocate(needs, p.Place)
		if !ok {
			b.Fatalf("a fetch that reserved %v at %v brought %v, which has no room", p.Most, p.Place, needs)
		}
		b.held = append(b.held, Held{needs, place})
	}
}

func (b *busy) leave() {
	if len(b.held) > 0 {
		i := rapid.IntRange(0, len(b.held)-1).Draw(b.T, "leaves")
		b.held = slices.Delete(b.held, i, i+1)
	}
}

// check counts everything again, in another way.
func (b *busy) check() {
	all := slices.Clone(b.held)
	for _, p := range b.open {
		if p.Most != nil {
			all = append(all, Held{p.Most, p.Place})
		}
	}
	sum, has, on := compute.Resources{}, map[compute.PCIAddress]bool{}, map[int]compute.Resources{}
	groups := map[string]int{}
	for i, h := range all {
		sum = sum.Plus(h.Resources)
		if b.terms.OneNode != (len(h.Nodes) == 1) {
			b.Fatalf("%v is on nodes %v", h.Resources, h.Nodes)
		}
		for _, n := range h.Nodes {
			on[n] = on[n].Plus(h.Resources)
		}
		classes := compute.Resources{}
		for _, at := range h.Devices {
			d := b.devices[slices.IndexFunc(b.devices, func(d compute.PCIDevice) bool { return d.Address == at })]
			if has[at] || d.InUse {
				b.Fatalf("%s is in use", at)
			}
			has[at] = true
			if other, there := groups[d.Group]; d.Group != "" && there && other != i {
				b.Fatalf("group %s is divided", d.Group)
			}
			groups[d.Group] = i
			classes[map[uint16]compute.ResourceClass{1: wholeClass, 2: partClass}[d.Device]]++
		}
		if classes[wholeClass] != h.Resources[wholeClass] || classes[partClass] != h.Resources[partClass] {
			b.Fatalf("for %v it has %v", h.Resources, h.Devices)
		}
	}
	for _, d := range b.devices {
		if has[d.Address] && has[d.Parent] {
			b.Fatalf("%s and all of %s are given away", d.Address, d.Parent)
		}
	}
	if !sum.FitsIn(b.host.Inventory.Totals) {
		b.Fatalf("%v is given away of %v", sum, b.host.Inventory.Totals)
	}
	times := func(class compute.ResourceClass, n int64) int64 {
		if ratio, is := b.terms.OverCommit[class]; is {
			return int64(float64(n) * ratio)
		}
		return n
	}
	for _, n := range b.nodes {
		cpus, memory := int64(len(n.CPUs)), n.MemoryMB
		if on[n.ID][compute.VCPU] > times(compute.VCPU, cpus) || on[n.ID][compute.MemoryMB] > times(
			compute.MemoryMB, memory,
		) {
			b.Fatalf("node %d has %d processors and %d MiB, and %v is given away", n.ID, cpus, memory, on[n.ID])
		}
		for _, h := range all {
			if slices.Contains(h.Nodes, n.ID) &&
				(h.Resources[compute.VCPU] > cpus || h.Resources[compute.MemoryMB] > memory) {
				b.Fatalf(
					"node %d has %d processors and %d MiB, and one machine is to have %v", n.ID, cpus, memory,
					h.Resources,
				)
			}
		}
	}
}

// Whatever comes and goes: whatever open fetches bring has a place that nobody else
// has any part of.
func TestPlacesNeverClash(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		b := &busy{T: t, terms: Terms{Devices: rules(), OneNode: rapid.Bool().Draw(t, "one node")}}
		if rapid.Bool().Draw(t, "over-commit") {
			b.terms.OverCommit = Ratios{compute.VCPU: 3, compute.MemoryMB: 1.5}
		}
		inv := compute.Inventory{Totals: compute.Resources{compute.VCPU: 0, compute.MemoryMB: 0}}
		for id := range rapid.IntRange(2, 3).Draw(t, "nodes") {
			n := compute.NUMANode{
				ID: id, CPUs: make([]int, rapid.IntRange(1, 8).Draw(t, "cpus")),
				MemoryMB: 512 * rapid.Int64Range(1, 16).Draw(t, "memory"),
			}
			b.nodes = append(b.nodes, n)
			inv.Totals = inv.Totals.Plus(
				compute.Resources{compute.VCPU: int64(len(n.CPUs)), compute.MemoryMB: n.MemoryMB},
			)
		}
		for slot := range rapid.IntRange(0, 3).Draw(t, "cards") {
			for _, d := range card(
				slot, rapid.IntRange(0, 3).Draw(t, "parts"), rapid.IntRange(-1, 1).Draw(t, "node"),
			) {
				d.InUse = rapid.IntRange(0, 9).Draw(t, "in use") == 0
				d.Group = rapid.SampledFrom([]string{"", "", "1", "2"}).Draw(t, "group")
				b.devices = append(b.devices, d)
			}
		}
		b.host = b.terms.Offer(inv, b.nodes, b.devices)
		if !b.terms.OneNode {
			b.nodes = nil
		}
		t.Repeat(map[string]func(*rapid.T){
			"fetch":  func(*rapid.T) { b.fetch() },
			"arrive": func(*rapid.T) { b.arrive() },
			"leave":  func(*rapid.T) { b.leave() },
			"":       func(*rapid.T) { b.check() },
		})
	})
}
