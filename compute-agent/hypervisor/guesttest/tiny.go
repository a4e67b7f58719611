// SPDX-License-Identifier: Apache-2.0

package guesttest

// Tiny is a boot sector that prints TinyUp on the serial port and halts: a
// guest that is up after half a second, and deaf.
const Tiny = "\xfa\x31\xc0\x8e\xd8\xbe\x16\x7c\xba\xf8\x03\xac\x84\xc0\x74\x03\xee\xeb\xf8\xf4\xeb\xfd" +
	TinyUp + "\r\n\x00"

// Loud prints TinyUp again and again.
const Loud = "\xfa\x31\xc0\x8e\xd8\xbe\x16\x7c\xba\xf8\x03\xac\x84\xc0\x74\x03\xee\xeb\xf8\xeb\xf0\x90" +
	TinyUp + "\r\n\x00"

// TinyUp is what they print.
const TinyUp = "tiny boot"

// BootDisk is a raw disk with that in its boot sector. SeaBIOS boots none that is
// smaller than a megabyte.
func BootDisk(code string) []byte {
	b := make([]byte, 1<<20)
	copy(b, code)
	b[510], b[511] = 0x55, 0xaa
	return b
}
