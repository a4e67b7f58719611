// SPDX-License-Identifier: Apache-2.0

package host

import (
	"testing"

	"github.com/berth-project/berth/pkg/compute"
)

// FuzzProc reads what any process may have for a command line and a name: it
// must not panic, and nobody's machine uses less than nothing.
func FuzzProc(f *testing.F) {
	f.Add(
		[]byte("/usr/bin/qemu-system-x86_64\x00-m\x00size=2G\x00-smp\x00cpus=2\x00-name\x00guest=a\x00"),
		[]byte("1 (a b) S 1"),
	)
	f.Add(
		[]byte("kvm\x00-m\x00-1\x00-smp\x00sockets=0"),
		[]byte("1 (a) S 1 1 1 0 -1 4194560 1 2 3 4 5 6 7 8 20 0 3 0 98765 1"),
	)
	f.Add([]byte("kvm\x00-m\x001e300T\x00-smp\x00sockets=999999999,cores=999999999,threads=999999999"), []byte(")"))
	f.Fuzz(func(t *testing.T, cmdline, stat []byte) {
		_, _ = startTime(stat)
		_, _ = realUser(stat)
		args := splitArgs(cmdline)
		_, _ = isQEMU(args), guestName(args)
		for class, n := range uses(args) {
			if n < 1 || n > compute.MaxAmount {
				t.Errorf("%q uses %d of %s", cmdline, n, class)
			}
		}
	})
}
