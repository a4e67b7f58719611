// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"bytes"
	"os"
	"strings"
	"testing"
)

func TestInTheClear(t *testing.T) {
	for address, want := range map[string]bool{
		"http://127.0.0.1:7070": false, "127.0.0.1:7070": false, "http://[::1]:7070": false, "localhost:7070": false,
		"https://berth.example.org": false, "http://berth.example.org": true, "berth.example.org:7070": true,
		"http://10.0.0.1": true, "http://localhost.example.org": true, "http://127.0.0.1.example.org": true,
	} {
		if got := inTheClear(address); got != want {
			t.Errorf("%s: %v", address, got)
		}
	}
}

// TestAddressWithAUserIsNotShown: it is refused before anything is said of the address, and the help shows none.
func TestAddressWithAUserIsNotShown(t *testing.T) {
	t.Setenv(EnvAPI, "http://ci:hunter2@proxy.example.org:7070")
	t.Setenv(EnvToken, "t")
	for _, args := range [][]string{{"list"}, {"whoami"}, {"--help"}, {"list", "--nonsense"}} {
		var said bytes.Buffer
		root := NewRoot()
		root.SetOut(&said)
		root.SetErr(&said)
		if code := Execute(t.Context(), root, args); (code == 0) != (args[0] == "--help") ||
			strings.Contains(said.String(), "hunter2") {
			t.Errorf("%v: %d, %s", args, code, &said)
		}
	}
}

// What is kept is this user's alone, also where a file that others may read was there before.
func TestKeptTokens(t *testing.T) {
	t.Setenv("XDG_CONFIG_HOME", t.TempDir())
	t.Setenv(EnvToken, "")
	t.Setenv(EnvTokenFile, "")
	if text, _, err := findToken(); text != "" || err != nil {
		t.Errorf("%q, %v", text, err)
	}
	file := keptFile(t)
	if err := keep(file, "berth_a_b"); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(file, 0o644); err != nil {
		t.Fatal(err)
	}
	if _, _, err := findToken(); err == nil {
		t.Error("a file that others may read is taken")
	}
	if err := keep(file, "berth_c_d"); err != nil {
		t.Fatal(err)
	}
	if text, _, err := findToken(); text != "berth_c_d" || err != nil {
		t.Errorf("%q, %v", text, err)
	}
	t.Setenv(EnvToken, " berth_e_f\n")
	if text, _, err := findToken(); text != "berth_e_f" || err != nil {
		t.Errorf("%q, %v", text, err)
	}
}
