// SPDX-License-Identifier: Apache-2.0

package guesttest

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
)

// initScript prints the guest's identity, as its firmware and its seed have it, and then waits for the power button
// or for ever.
const initScript = `#!/bin/busybox sh
b=/bin/busybox
$b mount -t proc proc /proc; $b mount -t sysfs sys /sys; $b mount -t devtmpfs dev /dev 2>/dev/null
for m in %s; do $b insmod /m/$m.ko; done
echo "BERTH instance $($b cat /sys/class/dmi/id/product_serial)"
for d in vda vdb; do
  [ -b /dev/$d ] && $b mount -t iso9660 -o ro /dev/$d /mnt 2>/dev/null && {
    $b sed 's/^/BERTH meta /' /mnt/meta-data; $b sed 's/^/BERTH user /' /mnt/user-data; $b umount /mnt; break
  }
done
case "$($b cat /proc/cmdline)" in *berth.listen*)
  n=3 # opened before it says that it is up: what is pressed earlier is lost
  for e in /dev/input/event*; do
    eval "exec $n<$e"; ( $b dd bs=24 count=1 of=/dev/null 2>/dev/null <&$n; echo "BERTH goodbye"; $b poweroff -f ) &
    n=$((n+1))
  done;;
esac
case "$($b cat /proc/cmdline)" in *berth.call=*)
  $b ifconfig eth0 10.0.2.15 netmask 255.255.255.0 up
  port=$($b sed 's/.*berth.call=\([0-9]*\).*/\1/' /proc/cmdline)
  echo "BERTH heard: $($b timeout 10 $b nc -w 5 10.0.2.2 "$port" </dev/null 2>&1)";;
esac
case "$($b cat /proc/cmdline)" in *berth.writes*)
  $b dd if=/dev/urandom of=/dev/vda bs=65536 count=256 conv=fsync 2>/dev/null;; esac
echo "BERTH up"
case "$($b cat /proc/cmdline)" in *berth.panic*) echo c >/proc/sysrq-trigger;; esac
while :; do $b sleep 1000; done
`

// writeInitrd makes the guest's first and only file system. It is not compressed: to unpack it takes a guest longer,
// and to pack it takes the race detector long.
func writeInitrd(file, from string) error {
	var a archive
	for _, dir := range []string{"bin", "dev", "m", "mnt", "proc", "sys"} {
		a.add(dir, 0o40755, 0, 0, nil)
	}
	a.add("dev/console", 0o20600, 5, 1, nil)
	busybox, err := os.ReadFile(filepath.Join(from, "busybox"))
	if err != nil {
		return err
	}
	a.add("bin/busybox", 0o100755, 0, 0, busybox)
	names := ""
	for _, m := range modules() {
		b, err := os.ReadFile(filepath.Join(from, m+".ko"))
		if err != nil {
			return err
		}
		a.add("m/"+m+".ko", 0o100644, 0, 0, b)
		names += m + " "
	}
	a.add("init", 0o100755, 0, 0, fmt.Appendf(nil, initScript, names))
	a.add("TRAILER!!!", 0, 0, 0, nil)
	return os.WriteFile(file, a.Bytes(), 0o644)
}

// archive is a cpio archive in the format that kernels read ("newc").
type archive struct {
	bytes.Buffer
	inode int
}

func (a *archive) add(name string, mode, major, minor int, data []byte) {
	a.inode++
	a.WriteString("070701")
	for _, field := range []int{a.inode, mode, 0, 0, 1, 0, len(data), 0, 0, major, minor, len(name) + 1, 0} {
		fmt.Fprintf(a, "%08X", field)
	}
	a.WriteString(name + "\x00")
	a.pad()
	a.Write(data)
	a.pad()
}

func (a *archive) pad() { a.Write(make([]byte, (4-a.Len()%4)%4)) }
