// SPDX-License-Identifier: Apache-2.0

package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// TestSecuritySetup: by copying the first block of docs/SECURITY-SETUP.md one has certificates that
// are of use and settings that a node starts with; the commands of the others are there.
func TestSecuritySetup(t *testing.T) {
	const page = "../../docs/SECURITY-SETUP.md"
	var first, others []string
	for _, c := range commandsOf(t, page, "```") {
		others = append(others, c.command)
	}
	text, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	_, script, _ := strings.Cut(string(text), "\n```sh\n")
	script, _, _ = strings.Cut(script, "\n```\n")
	first = strings.Split(script, "\n")
	if len(first) < 20 || len(others) < 10 {
		t.Fatalf("%d and %d commands are found", len(first), len(others))
	}
	for _, line := range others {
		line, _, _ = strings.Cut(line, " > ")
		line, _, _ = strings.Cut(line, " < ")
		parsed(t, line)
	}
	if _, err := exec.LookPath("openssl"); err != nil {
		t.Skip("needs openssl")
	}
	home := aHome(t)
	run := exec.CommandContext(t.Context(), "sh", "-e", "-c", script)
	run.Dir = t.TempDir()
	run.Env = append(os.Environ(), "HOME="+home, "PATH="+filepath.Join(home, "bin")+":"+os.Getenv("PATH"), asBerth+"=1")
	if out, err := run.CombinedOutput(); err != nil || !strings.HasSuffix(string(out), "\nok\n") {
		t.Errorf("%v\n%s", err, out)
	}
}
