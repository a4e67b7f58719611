// SPDX-License-Identifier: Apache-2.0

package guesttest

// Tiny is a boot sector that prints TinyUp on the serial port and halts: a
// guest that is up after half a second, and deaf.
const Tiny = "\xfa\x31\xc0\x8e\xd8\xbe\x16\x7c\xba\xf8\x03\xac\x84\xc0\x74\x03\xee\xeb\xf8\xf4\xeb\xfd" +
	TinyUp + "\r\n\x00"

// Loud prints TinyUp again and again.
const Loud = "\xfa\x31\xc0\x8e\xd8\xbe\x16\x7c\xba\xf8\x03\xac\x84\xc0\x74\x03\xee\xeb\xf8\xeb\xf0\x90" +
	TinyUp + "\r\n\x00"

// Listening prints TinyUp, waits for the power button as an operating system does, prints Goodbye and powers off. It is
// up after half a second too, where a kernel takes seconds. Of ACPI's registers, which SeaBIOS puts at port 0x600 on
// both machines, it sets the button's bit (8) of what is enabled (0x602), looks at that of the status (0x600) at each
// tick of the clock, and writes SLP_EN to the control (0x604). The second PIC is masked: the button interrupts nothing.
//
//	0x00 cli; ds = ss = 0; sp = 0x7c00; out 0x602, 0x0100; out 0xa1, 0xff; si = TinyUp; call say
//	0x1b sti; hlt; in ax, 0x600; test ah, 1; jz 0x1b
//	0x26 cli; si = Goodbye; call say; out 0x604, 0x2000
//	0x34 hlt; jmp 0x34
//	0x37 say: dx = 0x3f8; until the byte at si++ is zero: out dx, al
const Listening = "\xfa\x31\xc0\x8e\xd8\x8e\xd0\xbc\x00\x7c\xba\x02\x06\xb8\x00\x01\xef\xb0\xff\xe6\xa1" +
	"\xbe\x43\x7c\xe8\x1c\x00" +
	"\xfb\xf4\xba\x00\x06\xed\xf6\xc4\x01\x74\xf5\xfa\xbe\x4f\x7c\xe8\x0a\x00\xba\x04\x06\xb8\x00\x20\xef\xf4\xeb\xfd" +
	"\xba\xf8\x03\xac\x84\xc0\x74\x03\xee\xeb\xf8\xc3" +
	TinyUp + "\r\n\x00" + Goodbye + "\r\n\x00"

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
