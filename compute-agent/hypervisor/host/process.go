// SPDX-License-Identifier: Apache-2.0

package host

import (
	"bytes"
	"cmp"
	"fmt"
	"path"
	"regexp"
	"strconv"
	"strings"

	"github.com/berth-project/berth/pkg/compute"
)

// Process is a QEMU as /proc shows it.
type Process struct {
	PID   int
	Start uint64 // in ticks since the host's boot: with the pid, its identity
	User  int    // the real user id, which a program cannot choose as it can its arguments
	Args  []string
}

// Option is the value behind the last -name of its command line.
func (p Process) Option(name string) string { return option(p.Args, name) }

// Foreign is the process as a machine that is not Berth's.
func (p Process) Foreign() compute.Foreign {
	return compute.Foreign{Name: guestName(p.Args), PID: p.PID, Uses: uses(p.Args), Devices: p.Devices()}
}

var hostDevice = regexp.MustCompile(`(?i)\b([0-9a-f]{4,8}:)?([0-9a-f]{2}:[0-1][0-9a-f]\.[0-7])\b`)

// Devices are the host's PCI devices that it was given, however its command line
// says so: with or without a domain, in either case, in JSON or not.
func (p Process) Devices() (out []compute.PCIAddress) {
	for _, a := range p.Args {
		if !strings.Contains(a, "vfio") {
			continue
		}
		for _, at := range hostDevice.FindAllStringSubmatch(a, -1) {
			out = append(out, compute.PCIAddress(strings.ToLower(cmp.Or(at[1], "0000:")+at[2])))
		}
	}
	return out
}

// isQEMU knows a machine by its program's name, as distributions have it.
func isQEMU(args []string) bool {
	if len(args) == 0 {
		return false
	}
	name := path.Base(args[0])
	return strings.HasPrefix(name, "qemu-system-") || name == "qemu-kvm" || name == "kvm"
}

// splitArgs reads /proc/<pid>/cmdline.
func splitArgs(b []byte) []string {
	if len(b) == 0 {
		return nil // the kernel's own, or dead and not yet buried
	}
	return strings.Split(string(bytes.TrimSuffix(b, []byte{0})), "\x00")
}

// startTime reads field 22 of /proc/<pid>/stat. The second field is the
// program's name in brackets and may hold anything.
func startTime(stat []byte) (uint64, error) {
	_, rest, ok := bytes.Cut(stat[max(bytes.LastIndexByte(stat, ')'), 0):], []byte(") "))
	fields := bytes.Fields(rest)
	if !ok || len(fields) < 20 {
		return 0, fmt.Errorf("stat of a process that cannot be read: %.80q", stat)
	}
	return strconv.ParseUint(string(fields[19]), 10, 64)
}

// realUser reads the first id in the line Uid: of /proc/<pid>/status. Others may be those of a program with a set-uid
// bit.
func realUser(status []byte) (int, error) {
	for line := range bytes.Lines(status) {
		if rest, is := bytes.CutPrefix(line, []byte("Uid:")); is && len(bytes.Fields(rest)) > 0 {
			id, err := strconv.ParseUint(string(bytes.Fields(rest)[0]), 10, 32)
			return int(id), err
		}
	}
	return 0, fmt.Errorf("status of a process that says nothing of its user: %.80q", status)
}

// option is the value behind the last -name of a command line.
func option(args []string, name string) string {
	value := ""
	for i, a := range args[:max(len(args)-1, 0)] {
		if a == "-"+name || a == "--"+name {
			value = args[i+1]
		}
	}
	return value
}

// property is one key of QEMU's "first,key=value,…"; bare is its key if the
// first stands without one.
func property(value, key, bare string) string {
	for i, p := range strings.Split(value, ",") {
		k, v, named := strings.Cut(p, "=")
		if named && k == key {
			return v
		}
		if !named && i == 0 && key == bare {
			return p
		}
	}
	return ""
}

// uses is what a machine takes at most, by its command line.
func uses(args []string) compute.Resources {
	return compute.Resources{compute.VCPU: cpus(option(args, "smp")), compute.MemoryMB: memory(option(args, "m"))}
}

// cpus reads -smp; QEMU's default is one.
func cpus(smp string) int64 {
	const most = 1 << 16 // of anything; anybody may call a program so and give it any numbers
	if n, err := strconv.ParseInt(property(smp, "cpus", "cpus"), 10, 64); err == nil && n > 0 {
		return min(n, most)
	}
	n := int64(1)
	for _, key := range []string{"sockets", "dies", "clusters", "cores", "threads"} {
		if k, err := strconv.ParseInt(property(smp, key, ""), 10, 64); err == nil && k > 0 {
			n = min(n*min(k, most), most)
		}
	}
	return n
}

// memory reads -m, rounded up to MiB; QEMU's default is 128 MiB.
func memory(m string) int64 {
	const fallback = 128
	size := property(m, "size", "size")
	if size == "" {
		return fallback
	}
	unit := 1.0
	switch size[len(size)-1] | 0x20 {
	case 'k':
		unit = 1.0 / 1024
	case 'g':
		unit = 1024
	case 't':
		unit = 1 << 20
	}
	n, err := strconv.ParseFloat(strings.TrimRight(size, "kKmMgGtTbB"), 64)
	if err != nil || n <= 0 {
		return fallback
	}
	mb := min(n*unit, compute.MaxAmount)
	if whole := int64(mb); float64(whole) == mb {
		return whole
	}
	return int64(mb) + 1
}

// guestName is -name, without its other properties.
func guestName(args []string) string { return property(option(args, "name"), "guest", "guest") }
