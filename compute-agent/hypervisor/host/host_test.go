// SPDX-License-Identifier: Apache-2.0

package host

import (
	"math"
	"os"
	"path/filepath"
	"testing"
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
	if gb, err := endless.diskGB(Share{MinFree: 1 << 30}, []string{disk}); err != nil || gb < 1<<30 {
		t.Errorf("machines may have %d GiB of it: %v", gb, err)
	}
	if free, total, err := room(t.TempDir()); err != nil || free < 0 || total <= 0 || free > total {
		t.Errorf("of this disk %d of %d bytes are free: %v", free, total, err)
	}
}
