// SPDX-License-Identifier: Apache-2.0

package host

import (
	"os"
	"path/filepath"
	"testing"
)

// The least limit of a cgroup and of those above it holds; one of as much as there is, or of version 1, is none.
func TestMemoryLimit(t *testing.T) {
	const in = "0::/system.slice/berth-agent.service\n"
	for name, c := range map[string]struct {
		cgroup string
		limits map[string]string
		want   int64
	}{
		"of its own": {in, map[string]string{"system.slice/berth-agent.service": "1073741824\n"}, 1024},
		"of all services": {in, map[string]string{"system.slice": "536870912\n",
			"system.slice/berth-agent.service": "1073741824\n"}, 512},
		"none":               {in, map[string]string{"system.slice/berth-agent.service": "max\n"}, 0},
		"more than there is": {in, map[string]string{"system.slice/berth-agent.service": "9663676416\n"}, 0},
		"in the root":        {"0::/\n", nil, 0},
		"version 1":          {"4:memory:/a\n1:cpu:/\n", map[string]string{"a": "1073741824\n"}, 0},
		"nothing said":       {"", nil, 0},
	} {
		h := Host{Proc: t.TempDir(), Sys: t.TempDir()}
		files := map[string]string{
			filepath.Join(h.Proc, "self/cgroup"): c.cgroup, filepath.Join(h.Proc, "meminfo"): "MemTotal:  8388608 kB\n",
		}
		for at, limit := range c.limits {
			files[filepath.Join(h.Sys, "fs/cgroup", at, "memory.max")] = limit
		}
		for file, text := range files {
			if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(file, []byte(text), 0o644); err != nil {
				t.Fatal(err)
			}
		}
		if got := h.MemoryLimit(); got != c.want {
			t.Errorf("%s: %d MiB, want %d", name, got, c.want)
		}
	}
}
