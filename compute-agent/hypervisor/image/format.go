// SPDX-License-Identifier: Apache-2.0

package image

import (
	"bytes"
	"encoding/binary"
	"fmt"

	"github.com/berth-project/berth/compute-agent/hypervisor"
)

// formats are how files of QEMU's other formats begin. LUKS is not among them: a disk
// that a guest encrypted as a whole is a raw disk like any other.
var formats = []struct {
	name string
	at   int
	is   string
}{
	{"qcow2", 0, qcowMagic}, {"qed", 0, "QED\x00"},
	{"vmdk", 0, "KDMV"}, {"vmdk", 0, "COWD"}, {"vmdk", 0, "# Disk DescriptorFile"},
	{"vdi", 0x40, "\x7f\x10\xda\xbe"}, {"vhdx", 0, "vhdxfile"}, {"vhd", 0, "conectix"},
	{"parallels", 0, "WithoutFreeSpace"}, {"parallels", 0, "WithouFreSpacExt"},
	{"bochs", 0, "Bochs Virtual HD Image"}, {"cloop", 0, "#!/bin/sh\n#V2.0 Format"},
}

// probed is the format that a file's beginning shows; none: "raw".
func probed(begin []byte) string {
	for _, f := range formats {
		if len(begin) > f.at && bytes.HasPrefix(begin[f.at:], []byte(f.is)) {
			return f.name
		}
	}
	return "raw"
}

// bootable says whether a file begins as one of the kernels does that are booted: Linux for x86, ELF (PVH).
func bootable(begin []byte) bool { return linux(begin) || bytes.HasPrefix(begin, []byte("\x7fELF")) }

func linux(begin []byte) bool { return len(begin) >= 0x206 && string(begin[0x202:0x206]) == "HdrS" }

// multiboot says whether QEMU would load a file as a multiboot kernel, as it does whatever else the file is, Linux
// alone excepted: by the first such header whose sum is zero.
func multiboot(begin []byte) bool {
	const magic = 0x1badb002
	word := func(at int) uint32 { return binary.LittleEndian.Uint32(begin[at:]) }
	for at := 0; at+12 <= len(begin) && !linux(begin); at += 4 {
		if word(at) == magic && word(at)+word(at+4)+word(at+8) == 0 {
			return true
		}
	}
	return false
}

const (
	qcowMagic = "QFI\xfb"
	// longestHeader is the largest cluster that qcow2 knows: all that is read here lies
	// in the first.
	longestHeader = 2 << 20
	// mostBytes bounds the disk that a header may claim, so that sums do not overflow.
	mostBytes = 1 << 56
)

// The incompatible features of qcow2 that an image may have. All others are refused:
// an external data file, and whatever is not known yet.
const (
	featureDirty       = 1 << 0
	featureCorrupt     = 1 << 1
	featureDataFile    = 1 << 2
	featureCompression = 1 << 3
	featureExtendedL2  = 1 << 4
	featuresKnown      = featureDirty | featureCorrupt | featureCompression | featureExtendedL2
)

// The header extensions that name another file, or a key.
const (
	extensionDataFile   = 0x44415441
	extensionEncryption = 0x0537be77
)

// readQCOW2 reads how large a disk a qcow2 file is for its guest, from the file's
// first cluster. A file that makes QEMU open another, or that wants a key, is
// refused: with it a guest would read what the host's users own.
func readQCOW2(path string, b []byte) (int64, error) {
	broken := func(what string, args ...any) error {
		return hypervisor.RefuseImage("image file %s is broken: %s; copy it to this host again", path,
			fmt.Sprintf(what, args...))
	}
	if is := probed(b); is != "qcow2" && is != "raw" {
		return 0, hypervisor.Reject("image file %s is of the format %s, not qcow2 as its name says: convert it "+
			"(qemu-img convert -O qcow2)", path, is)
	}
	if len(b) < 72 || probed(b) != "qcow2" {
		return 0, broken("it does not begin as a qcow2 file does")
	}
	u32 := func(at int) uint32 { return binary.BigEndian.Uint32(b[at:]) }
	u64 := func(at int) uint64 { return binary.BigEndian.Uint64(b[at:]) }
	version, clusterBits, bytes := u32(4), u32(20), u64(24)
	switch {
	case version != 2 && version != 3:
		return 0, hypervisor.Reject("image file %s is of qcow's version %d: convert it to 2 or 3 (qemu-img "+
			"convert -O qcow2)", path, version)
	case clusterBits < 9 || clusterBits > 21:
		return 0, broken("its clusters have 2^%d bytes", clusterBits)
	case bytes > mostBytes:
		return 0, broken("its disk has %d bytes", bytes)
	case u64(8) != 0 || u32(16) != 0:
		return 0, hypervisor.Reject("image file %s has a backing file, which a guest would read: write it all "+
			"into one file (qemu-img convert -O qcow2)", path)
	case u32(32) != 0:
		return 0, hypervisor.Reject("image file %s is encrypted, and there is no key: decrypt it (qemu-img "+
			"convert -O qcow2)", path)
	}
	length := 72
	if version == 3 {
		if len(b) < 104 {
			return 0, broken("it is cut off in its header")
		}
		if length = int(min(u32(100), longestHeader)); length < 104 {
			return 0, broken("its header has %d bytes", length)
		}
		switch features := u64(72); {
		case features&featureDataFile != 0:
			return 0, external(path)
		case features&^featuresKnown != 0:
			return 0, hypervisor.Reject("image file %s has the qcow2 features %#x, which are not known here: "+
				"convert it (qemu-img convert -O qcow2)", path, features)
		case features&featureCorrupt != 0:
			return 0, broken("it says so itself")
		}
	}
	return int64(bytes), extensions(path, b[:min(len(b), 1<<clusterBits)], length)
}

// extensions walks over what follows a qcow2 header.
func extensions(path string, b []byte, at int) error {
	for at+8 <= len(b) {
		switch kind := binary.BigEndian.Uint32(b[at:]); kind {
		case 0:
			return nil
		case extensionDataFile:
			return external(path)
		case extensionEncryption:
			return hypervisor.Reject("image file %s is encrypted, and there is no key: decrypt it (qemu-img "+
				"convert -O qcow2)", path)
		}
		at += 8 + (int(binary.BigEndian.Uint32(b[at+4:]))+7)&^7
	}
	return nil
}

func external(path string) error {
	return hypervisor.Reject("image file %s has an external data file, which a guest would read: write it all "+
		"into one file (qemu-img convert -O qcow2)", path)
}
