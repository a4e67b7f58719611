// SPDX-License-Identifier: Apache-2.0

package secretfile

import (
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/berth-project/berth/pkg/compute"
)

func TestModes(t *testing.T) {
	file := filepath.Join(t.TempDir(), "secret")
	if err := os.WriteFile(file, []byte("planted"), 0o600); err != nil {
		t.Fatal(err)
	}
	// A group may read what is root's, and nothing else.
	for _, owner := range []int{0, 12345} {
		if err := os.Chown(file, owner, owner); err != nil {
			if owner = os.Getuid(); owner == 0 {
				t.Fatal(err)
			}
		}
		for mode, fine := range map[fs.FileMode]bool{
			0o600: true, 0o400: true, 0o700: true, 0o440: owner == 0, 0o640: owner == 0, 0o660: false, 0o604: false,
			0o644: false, 0o602: false, 0o601: false,
		} {
			if err := os.Chmod(file, mode); err != nil {
				t.Fatal(err)
			}
			err := Check("kafka.sasl.password_file", file)
			if fine != (err == nil) {
				t.Errorf("owner %d, mode %o: %v", owner, mode, err)
			}
			if err == nil {
				continue
			}
			for _, part := range []string{"kafka.sasl.password_file", file, "chmod 600 "} {
				if compute.KindOf(err) != compute.KindInvalid || !strings.Contains(err.Error(), part) {
					t.Errorf("%o: %v does not say %q", mode, err, part)
				}
			}
		}
	}
}

func TestRead(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "secret")
	if err := os.WriteFile(file, []byte("text\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if text, err := Read("f", file); err != nil || string(text) != "text\n" {
		t.Errorf("%q, %v", text, err)
	}
	for _, bad := range []string{"", dir, file + ".not"} {
		if _, err := Read("f", bad); compute.KindOf(err) != compute.KindInvalid {
			t.Errorf("%q: %v", bad, err)
		}
	}
	if err := os.Chmod(file, 0o644); err != nil {
		t.Fatal(err)
	}
	if _, err := Read("f", file); err == nil {
		t.Error("what others may read is read")
	}
}
