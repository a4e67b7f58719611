// SPDX-License-Identifier: Apache-2.0

// Package deploy_test holds that what is deployed agrees with what the daemons
// and the doctor say.
package deploy_test

import (
	"debug/elf"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/berth-project/berth/pkg/doctor"
	"github.com/berth-project/berth/pkg/kafkatest"
)

// berth is the binary as the Dockerfile builds it.
var berth string

func TestMain(m *testing.M) { os.Exit(run(m)) }

func run(m *testing.M) int {
	dir, err := os.MkdirTemp("", "berth-deploy-")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer func() { _ = os.RemoveAll(dir) }()
	berth = filepath.Join(dir, "berth")
	build := exec.Command("go", "build", "-trimpath", "-o", berth, "../cmd/berth")
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := build.CombinedOutput(); err != nil {
		fmt.Fprintf(os.Stderr, "%v\n%s", err, out)
		return 1
	}
	return kafkatest.Main(m)
}

// required fails a test that cannot run where CI says that it must, and skips it
// elsewhere.
func required(t *testing.T, variable, what string) {
	t.Helper()
	if os.Getenv(variable) == "1" {
		t.Fatalf("%s=1 and %s", variable, what)
	}
	t.Skip("skipped: " + what)
}

func read(t *testing.T, file string) string {
	t.Helper()
	data, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}

// needed is what a broker of a cluster of three should have: the one list.
func needed() map[string]string {
	out := map[string]string{}
	for _, s := range doctor.Settings() {
		out[s.Name] = s.Value
	}
	for _, s := range doctor.Internals() {
		out[s.Name] = s.Value
	}
	return out
}

// The example settings are those the doctor asks for, with the same values.
func TestServerProperties(t *testing.T) {
	text := read(t, "kafka/server.properties")
	ours, rest, found := strings.Cut(text, "--- the rest")
	if !found {
		t.Fatal("the end of Berth's settings is not marked")
	}
	got, want := kafkatest.Properties(ours), needed()
	want["default.replication.factor"], want["min.insync.replicas"] = "3", "2" // they make the topics that the doctor wants
	agree(t, "server.properties", want, got)
	for key := range kafkatest.Properties(rest) {
		if _, twice := got[key]; twice {
			t.Errorf("%s is there twice", key)
		}
	}
}

// The README's table has the same settings and values.
func TestREADME(t *testing.T) {
	got := map[string]string{}
	setting, number := regexp.MustCompile("`([a-z.]+\\.[a-z.]+)`"), regexp.MustCompile("[0-9,]+|true|false")
	for line := range strings.Lines(read(t, "../README.md")) {
		cells := strings.Split(line, "|")
		if len(cells) < 4 {
			continue
		}
		names := setting.FindAllStringSubmatch(cells[1], -1)
		values := number.FindAllString(cells[2], -1)
		for i, n := range names {
			if i < len(values) {
				got[n[1]] = strings.ReplaceAll(values[i], ",", "")
			}
		}
	}
	want := map[string]string{}
	for _, s := range doctor.Settings() {
		want[s.Name] = s.Value
	}
	delete(got, "group.share.max.share.sessions") // "≥ agents per broker": what is in the file is an example
	delete(want, "group.share.max.share.sessions")
	agree(t, "README", want, got)
}

func agree(t *testing.T, where string, want, got map[string]string) {
	t.Helper()
	for key, value := range want {
		if got[key] != value {
			t.Errorf("%s: %s is %q, berth doctor asks for %q", where, key, got[key], value)
		}
	}
	for key := range got {
		if _, ok := want[key]; !ok {
			t.Errorf("%s: %s is not in the doctor's list", where, key)
		}
	}
}

// The image is built with the Go of go.mod, and holds a binary that needs
// nothing else in it.
func TestDockerfile(t *testing.T) {
	version := regexp.MustCompile(`(?m)^go ([0-9.]+)$`).FindStringSubmatch(read(t, "../go.mod"))
	if from := "FROM golang:" + version[1] + " AS build"; !strings.Contains(read(t, "Dockerfile"), from) {
		t.Errorf("Dockerfile: %q is not there", from)
	}
	f, err := elf.Open(berth)
	if err != nil {
		t.Skip("skipped: not Linux")
	}
	defer func() { _ = f.Close() }()
	for _, p := range f.Progs {
		if p.Type == elf.PT_INTERP {
			t.Error("the binary needs a dynamic linker")
		}
	}
}
