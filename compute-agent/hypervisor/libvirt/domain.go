// SPDX-License-Identifier: Apache-2.0

package libvirt

import (
	"encoding/xml"
	"fmt"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/berth-project/berth/compute-agent/hypervisor"
	"github.com/berth-project/berth/compute-agent/hypervisor/console"
	"github.com/berth-project/berth/compute-agent/hypervisor/host"
	"github.com/berth-project/berth/compute-agent/hypervisor/image"
	"github.com/berth-project/berth/compute-agent/hypervisor/prepare"
	"github.com/berth-project/berth/pkg/compute"
)

// As much of libvirt's format as Berth writes; libvirt.org/formatdomain.html says
// what it means.
type (
	domain struct {
		XMLName  xml.Name `xml:"domain"`
		Type     string   `xml:"type,attr"` // "kvm" or "qemu"
		Name     string   `xml:"name"`
		UUID     string   `xml:"uuid"`
		Stamp    stamped  `xml:"metadata>berth:machine"`
		Memory   quantity `xml:"memory"`
		VCPU     pinned   `xml:"vcpu"`
		NUMA     *numa    `xml:"numatune"`
		System   firmware `xml:"sysinfo"`
		OS       boot     `xml:"os"`
		ACPI     struct{} `xml:"features>acpi"` // without it nobody hears the power button
		APIC     struct{} `xml:"features>apic"`
		CPU      mode     `xml:"cpu"`
		PowerOff string   `xml:"on_poweroff"`
		Reboot   string   `xml:"on_reboot"`
		Crash    string   `xml:"on_crash"`
		Devices  devices  `xml:"devices"`

		// What libvirt has no words for.
		QEMU string     `xml:"xmlns:qemu,attr,omitempty"`
		Args *arguments `xml:"qemu:commandline"`
	}
	arguments struct {
		All []value `xml:"qemu:arg"`
	}
	value struct {
		Is string `xml:"value,attr"`
	}
	pinned struct { // to the host's processors, if it names some
		CPUs string `xml:"cpuset,attr,omitempty"`
		N    int64  `xml:",chardata"`
	}
	numa struct {
		Memory struct {
			Mode  string `xml:"mode,attr"`
			Nodes string `xml:"nodeset,attr"`
		} `xml:"memory"`
	}
	quantity struct {
		Unit string `xml:"unit,attr"`
		N    int64  `xml:",chardata"`
	}
	firmware struct {
		Type    string  `xml:"type,attr"`
		Entries []entry `xml:"system>entry"`
	}
	entry struct {
		Name  string `xml:"name,attr"`
		Value string `xml:",chardata"`
	}
	boot struct {
		Type    hvm    `xml:"type"`
		Kernel  string `xml:"kernel,omitempty"`
		Initrd  string `xml:"initrd,omitempty"`
		Cmdline string `xml:"cmdline,omitempty"`
		SMBIOS  mode   `xml:"smbios"`
	}
	hvm struct {
		Arch    string `xml:"arch,attr"`
		Machine string `xml:"machine,attr"`
		Is      string `xml:",chardata"`
	}
	mode struct {
		Mode string `xml:"mode,attr"`
	}
	typed struct {
		Type string `xml:"type,attr"`
	}
	devices struct {
		Disks      []disk    `xml:"disk"`
		Interfaces []network `xml:"interface"`
		Serial     serial    `xml:"serial"`
		RNG        random    `xml:"rng"`
		Controller usb       `xml:"controller"`
		Video      *typed    `xml:"video>model"`
		Balloon    model     `xml:"memballoon"`
		Host       []hostPCI `xml:"hostdev"`
		Panic      model     `xml:"panic"`
	}
	disk struct {
		Type     string     `xml:"type,attr"`
		Device   string     `xml:"device,attr"`
		Driver   diskDriver `xml:"driver"`
		Source   file       `xml:"source"`
		Backing  backing    `xml:"backingStore"`
		Target   target     `xml:"target"`
		ReadOnly *struct{}  `xml:"readonly"`
		Boot     *order     `xml:"boot"`
	}
	diskDriver struct {
		Name    string `xml:"name,attr"`
		Type    string `xml:"type,attr"`
		Discard string `xml:"discard,attr,omitempty"`
	}
	file struct {
		File  string `xml:"file,attr"`
		Label *label `xml:"seclabel"`
	}
	label struct {
		Model   string `xml:"model,attr"`
		Relabel string `xml:"relabel,attr"`
	}
	backing struct { // below a disk; empty: nothing for sure, whatever the disk's file says
		Type   string   `xml:"type,attr,omitempty"`
		Format *typed   `xml:"format"`
		Source *file    `xml:"source"`
		Below  *backing `xml:"backingStore"`
	}
	target struct {
		Dev string `xml:"dev,attr"`
		Bus string `xml:"bus,attr"`
	}
	order struct {
		N int `xml:"order,attr"`
	}
	network struct {
		Type   string  `xml:"type,attr"`
		MAC    address `xml:"mac"`
		Source *where  `xml:"source"`
		Model  typed   `xml:"model"`
	}
	address struct {
		Is string `xml:"address,attr"`
	}
	where struct {
		Bridge  string `xml:"bridge,attr,omitempty"`
		Network string `xml:"network,attr,omitempty"`
	}
	serial struct {
		Type   string `xml:"type,attr"`
		Source path   `xml:"source"`
	}
	path struct {
		Path   string `xml:"path,attr"`
		Append string `xml:"append,attr"`
	}
	random struct {
		Model   string `xml:"model,attr"`
		Backend struct {
			Model string `xml:"model,attr"`
			File  string `xml:",chardata"`
		} `xml:"backend"`
	}
	usb struct {
		Type  string `xml:"type,attr"`
		Model string `xml:"model,attr"`
	}
	model struct {
		Model string `xml:"model,attr"`
	}
	hostPCI struct { // not managed: libvirt would take it from the host's driver without a word
		Mode    string `xml:"mode,attr"`
		Type    string `xml:"type,attr"`
		Managed string `xml:"managed,attr"`
		At      pci    `xml:"source>address"`
	}
	pci struct {
		Domain   string `xml:"domain,attr"`
		Bus      string `xml:"bus,attr"`
		Slot     string `xml:"slot,attr"`
		Function string `xml:"function,attr"`
	}
)

// describe is a machine's whole definition.
func (d *Driver) describe(s stamp, img image.Image) (string, error) {
	m := s.machine()
	dir := d.dir(m.Instance)
	cpus, err := d.host.CPUs(m.Nodes)
	if err != nil {
		return "", err
	}
	x := domain{
		Type: d.kind, Name: "berth-" + string(m.Instance), UUID: string(m.Instance),
		Stamp:  stamped{XMLNS: namespace, stamp: s},
		Memory: quantity{Unit: "MiB", N: m.Resources[compute.MemoryMB]},
		VCPU:   pinned{list(cpus), m.Resources[compute.VCPU]}, NUMA: strict(m.Nodes),
		System: firmware{
			Type:    "smbios",
			Entries: []entry{{"manufacturer", "Berth"}, {"product", "Berth"}, {"serial", string(m.Instance)}},
		},
		OS: boot{
			Type:   hvm{Arch: "x86_64", Machine: d.o.Machine, Is: "hvm"},
			Kernel: img.Kernel, Initrd: img.Initrd, SMBIOS: mode{"sysinfo"},
		},
		CPU:      mode{map[string]string{"kvm": "host-passthrough"}[d.accel]},
		PowerOff: "destroy",
		Reboot:   "restart",
		Crash:    "preserve", // until it is seen: a domain that was destroyed says no more why
		Devices: devices{
			Interfaces: d.network(m.Instance),
			Serial:     serial{Type: "file", Source: path{filepath.Join(dir, console.File), "on"}},
			Controller: usb{"usb", "none"}, Video: &typed{"none"}, Balloon: model{"none"}, Panic: model{"isa"},
		},
	}
	if x.CPU.Mode == "" {
		x.CPU.Mode = "maximum"
	}
	if img.Kernel != "" {
		x.OS.Cmdline = img.Append
	}
	x.Devices.RNG.Model, x.Devices.RNG.Backend.Model, x.Devices.RNG.Backend.File = "virtio", "random", "/dev/urandom"
	disks := &x.Devices.Disks
	if img.HasDisk(m.Resources) {
		*disks = append(*disks, disk{Driver: diskDriver{Type: "qcow2", Discard: "unmap"},
			Source: file{File: filepath.Join(dir, prepare.DiskFile)}, Backing: below(img), Boot: &order{1}})
	}
	*disks = append(*disks, disk{
		Driver: diskDriver{Type: "raw"}, Source: file{File: filepath.Join(dir, prepare.SeedFile)}, ReadOnly: &struct{}{},
	})
	for i := range *disks {
		p := &(*disks)[i]
		p.Type, p.Device, p.Driver.Name, p.Target = "file", "disk", "qemu", target{fmt.Sprintf("vd%c", 'a'+i), "virtio"}
	}
	if d.o.Network == host.NetworkUser {
		x.QEMU, x.Args = "http://libvirt.org/schemas/domain/qemu/1.0", &arguments{closed(m.Instance, d.o.Machine)}
	}
	for _, a := range m.Devices {
		x.Devices.Host = append(x.Devices.Host, hostPCI{Mode: "subsystem", Type: "pci", Managed: "no", At: split(a)})
	}
	b, err := xml.MarshalIndent(x, "", "  ")
	return string(b), err
}

// below is the image's disk below a machine's own. It is named with its format, so
// that libvirt guesses at nothing and follows nothing that is written in it. All machines of an image share the file:
// libvirt is to make QEMU's user its owner only where it could not be read otherwise.
func below(img image.Image) backing {
	if img.Disk == "" {
		return backing{}
	}
	f := &file{File: img.Disk}
	if img.Public {
		f.Label = &label{Model: "dac", Relabel: "no"}
	}
	return backing{Type: "file", Format: &typed{img.Format}, Source: f, Below: &backing{}}
}

// closed is a network card by which nothing can be reached, neither the host (10.0.2.2 is its loopback in QEMU's user
// networking) nor anything behind it. libvirt knows user networking only without that. QEMU makes what is asked for
// so before what libvirt asks for, so the card is put where libvirt puts nothing by itself.
func closed(id compute.InstanceID, machine string) []value {
	bus := map[string]string{"q35": "pcie.0", "pc": "pci.0"}[machine]
	return []value{
		{"-netdev"}, {"user,id=berth,restrict=on"},
		{"-device"}, {"virtio-net-pci,netdev=berth,bus=" + bus + ",addr=0x1c,mac=" + hypervisor.MAC(id)},
	}
}

func (d *Driver) network(id compute.InstanceID) []network {
	n := network{MAC: address{hypervisor.MAC(id)}, Model: typed{"virtio"}}
	kind, name, _ := strings.Cut(d.o.Network, ":")
	switch n.Type = kind; {
	case kind == "none" || d.o.Network == host.NetworkUser:
		return nil
	case kind == "bridge":
		n.Source = &where{Bridge: name}
	case kind == "network":
		n.Source = &where{Network: name}
	}
	return []network{n}
}

// strict keeps memory on some NUMA nodes.
func strict(nodes []int) *numa {
	if len(nodes) == 0 {
		return nil
	}
	var n numa
	n.Memory.Mode, n.Memory.Nodes = "strict", list(nodes)
	return &n
}

// list is numbers as libvirt writes them: "0,1,2".
func list(numbers []int) string {
	var words []string
	for _, n := range numbers {
		words = append(words, strconv.Itoa(n))
	}
	return strings.Join(words, ",")
}

// split takes a PCI address apart; it was checked before.
func split(a compute.PCIAddress) pci {
	f := strings.FieldsFunc(string(a), func(r rune) bool { return r == ':' || r == '.' })
	return pci{"0x" + f[0], "0x" + f[1], "0x" + f[2], "0x" + f[3]}
}
