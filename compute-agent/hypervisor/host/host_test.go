// SPDX-License-Identifier: Apache-2.0

package host

import (
	"errors"
	"math"
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/berth-project/berth/compute-agent/hypervisor"
	"github.com/berth-project/berth/pkg/compute"
)

// A file system of another machine that says it has no end has no room below nothing.
func TestBytesOfWhatHasNoEnd(t *testing.T) {
	for _, c := range []struct {
		blocks uint64
		want   int64
	}{
		{0, 0}, {3, 3 * 4096}, {1<<50 - 1, 1<<62 - 4096}, {1 << 50, 1 << 62}, {1 << 51, 1 << 62}, {1 << 52, 1 << 62},
		{math.MaxUint64, 1 << 62},
	} {
		if got := bytesOf(c.blocks, 4096); got != c.want {
			t.Errorf("%d blocks have %d bytes, want %d", c.blocks, got, c.want)
		}
	}
	endless := Host{Room: func(string) (int64, int64, error) { return bytesOf(math.MaxUint64, 4096), 0, nil }}
	disk := filepath.Join(t.TempDir(), "disk")
	if err := os.WriteFile(disk, make([]byte, 1<<20), 0o600); err != nil {
		t.Fatal(err)
	}
	if gb, err := endless.diskGB(Share{MinFree: 1 << 30}, []Disk{{disk, 1}}); err != nil || gb < 1<<30 {
		t.Errorf("machines may have %d GiB of it: %v", gb, err)
	}
	if free, total, err := room(t.TempDir()); err != nil || free < 0 || total <= 0 || free > total {
		t.Errorf("of this disk %d of %d bytes are free: %v", free, total, err)
	}
}

// A host that has no room for one more copy starts the images that it has: it is not what fails.
func TestNoRoomForACopyIsTheImagesFault(t *testing.T) {
	h := Host{Room: func(string) (int64, int64, error) { return 5 << 20, 1 << 40, nil }}
	if err := h.Spare(Share{MinFree: 2 << 20}, 3<<20); err != nil {
		t.Errorf("what leaves as much as it has to: %v", err)
	}
	if err := h.Spare(Share{MinFree: 2 << 20}, 4<<20); !hypervisor.OfImage(err) {
		t.Errorf("what leaves less: %v, which blames the image: %t", err, hypervisor.OfImage(err))
	}
}

// What a machine has written of its disk is not offered again, but for as much as it holds of DISK_GB: that is taken off
// by what it holds.
func TestDisksCountAtMostWhatTheyHold(t *testing.T) {
	file := filepath.Join(t.TempDir(), "disk")
	f, err := os.Create(file)
	if err == nil {
		err = errors.Join(syscall.Fallocate(int(f.Fd()), 0, 0, 3<<20), f.Close())
	}
	if err != nil {
		t.Skipf("skipped: needs a file system that gives a file its room: %v", err)
	}
	const free = 10<<30 - 2<<20 // with three more MiB there are ten GiB
	h := Host{Room: func(string) (int64, int64, error) { return free, 1 << 40, nil }}
	for gb, want := range map[int64]int64{0: 9, 1: 10, 100: 10, compute.MaxAmount: 10} {
		inv, err := h.Inventory(Share{}, 1, 1, []Disk{{file, gb}}, nil)
		if got := inv.Totals[compute.DiskGB]; got != want || err != nil {
			t.Errorf("beside a machine that holds %d GB machines may have %d, %v; want %d", gb, got, err, want)
		}
	}
}
