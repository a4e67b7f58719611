// SPDX-License-Identifier: Apache-2.0

package host

import (
	"os"
	"path/filepath"
	"strconv"
	"strings"
)

// MemoryLimit is how many MiB this process may have together with what it starts, by its cgroup (version 2) and those
// above; 0: as many as there are, or the kernel does not say.
func (h Host) MemoryLimit() (mb int64) {
	for at := h.cgroup(); at != ""; {
		b, _ := os.ReadFile(filepath.Join(h.Sys, "fs/cgroup", at, "memory.max"))
		if bytes, err := strconv.ParseInt(strings.TrimSpace(string(b)), 10, 64); err == nil && (mb == 0 || bytes>>20 < mb) {
			mb = bytes >> 20
		}
		if at == "/" {
			break
		}
		at = filepath.Dir(at)
	}
	if has := h.MemoryMB(); has > 0 && mb >= has {
		return 0
	}
	return mb
}

// cgroup is this process's cgroup, from the root of all; empty: it has none of version 2.
func (h Host) cgroup() string {
	b, _ := os.ReadFile(filepath.Join(h.Proc, "self/cgroup"))
	for line := range strings.Lines(string(b)) {
		if path, ok := strings.CutPrefix(strings.TrimSpace(line), "0::"); ok && filepath.IsAbs(path) {
			return filepath.Clean(path)
		}
	}
	return ""
}
