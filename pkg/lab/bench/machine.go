// SPDX-License-Identifier: Apache-2.0

package bench

import (
	"os"
	"runtime"
	"runtime/debug"
	"strconv"
	"strings"
)

// Machine is what a run was made on.
type Machine struct {
	CPU    string `json:"cpu"`
	Cores  int    `json:"cores"`
	Memory int64  `json:"memory"` // bytes
	Kernel string `json:"kernel"`
}

func thisMachine() Machine {
	m := Machine{CPU: procField("/proc/cpuinfo", "model name"), Cores: runtime.NumCPU()}
	total := strings.TrimSuffix(procField("/proc/meminfo", "MemTotal"), " kB")
	if kb, err := strconv.ParseInt(total, 10, 64); err == nil {
		m.Memory = kb << 10
	}
	if release, err := os.ReadFile("/proc/sys/kernel/osrelease"); err == nil {
		m.Kernel = strings.TrimSpace(string(release))
	}
	return m
}

// procField finds the first line "name : value" in a file of /proc.
func procField(path, name string) string {
	data, err := os.ReadFile(path)
	if err != nil {
		return ""
	}
	for line := range strings.Lines(string(data)) {
		if key, value, ok := strings.Cut(line, ":"); ok && strings.TrimSpace(key) == name {
			return strings.TrimSpace(value)
		}
	}
	return ""
}

// Versions are those of everything that was measured.
type Versions struct {
	Berth   string `json:"berth"` // commit
	Go      string `json:"go"`
	Kafka   string `json:"kafka"`
	FranzGo string `json:"franz_go"`
}

func theseVersions(kafka string) Versions {
	return Versions{
		Berth:   commit(),
		Go:      runtime.Version(),
		Kafka:   kafka,
		FranzGo: moduleVersion("github.com/twmb/franz-go"),
	}
}

// commit is what this process was built from, as far as it knows.
func commit() string {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return "unknown"
	}
	revision, dirty := "unknown", ""
	for _, s := range info.Settings {
		switch {
		case s.Key == "vcs.revision":
			revision = s.Value[:min(len(s.Value), 12)]
		case s.Key == "vcs.modified" && s.Value == "true":
			dirty = "+changes"
		}
	}
	return revision + dirty
}
