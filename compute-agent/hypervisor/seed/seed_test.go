// SPDX-License-Identifier: Apache-2.0

package seed

import (
	"errors"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"github.com/diskfs/go-diskfs/backend/file"
	"github.com/diskfs/go-diskfs/filesystem/iso9660"
	"go.yaml.in/yaml/v3"

	"github.com/berth-project/berth/compute-agent/hypervisor"
)

// Whatever people write into names, keys and metadata, cloud-init reads all of it, but for names that YAML cannot have.
func TestMetaDataIsYAML(t *testing.T) {
	odd := "\x00\x1f\u007f\u0080\u0085\u009f\u00a0\u2028\ufeff\ufffd\ufffe\uffff😀 <&> \"'\\ \ttab\nline"
	long := strings.Repeat("n", longestName-2)
	want := map[string]any{
		"instance-id": "i", "local-hostname": odd, "public-keys": []any{"ssh-ed25519 AAAA " + odd},
		"berth": map[string]any{"project": "shop", "metadata": map[string]any{odd: odd, long: odd, "role": ""}},
	}
	path := filepath.Join(t.TempDir(), "seed.iso")
	err := Write(path, hypervisor.Spec{
		Instance: "i", Project: "shop", Name: odd, SSHKeys: []string{"ssh-ed25519 AAAA " + odd},
		Metadata: map[string]string{odd: odd, long: odd, "role": "", long + "n": "", strings.Repeat("\x7f", 200): ""},
	})
	if err != nil {
		t.Fatal(err)
	}
	text := read(t, path, "meta-data")
	var got map[string]any
	if err := yaml.Unmarshal(text, &got); err != nil {
		t.Fatalf("%v: %.100q", err, text)
	}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("cloud-init reads %+q, want %+q", got, want)
	}
}

// read gives a file of a seed.
func read(t *testing.T, path, name string) []byte {
	t.Helper()
	disk, err := file.OpenFromPath(path, true)
	if err != nil {
		t.Fatal(err)
	}
	defer disk.Close()
	iso, err := iso9660.Read(disk, 0, 0, 2048)
	if err != nil {
		t.Fatal(err)
	}
	b, err := iso.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// flaky is a file of which one write fails.
type flaky struct {
	*os.File
	left int // writes until then
}

var errFlaky = errors.New("no space left")

func (f *flaky) WriteAt(b []byte, offset int64) (int, error) {
	if f.left--; f.left == 0 {
		return 0, errFlaky
	}
	return f.File.WriteAt(b, offset)
}

// A seed of which anything was not written is none.
func TestEachWriteCounts(t *testing.T) {
	for n := 1; ; n++ {
		dir := t.TempDir()
		f, err := os.Create(filepath.Join(dir, "seed.iso"))
		if err == nil {
			err = errors.Join(f.Truncate(seedBytes), os.Mkdir(filepath.Join(dir, "work"), 0o700))
		}
		if err != nil {
			t.Fatal(err)
		}
		fails := &flaky{File: f, left: n}
		err = fill(fails, seedBytes, filepath.Join(dir, "work"), map[string][]byte{"meta-data": []byte("{}")})
		f.Close()
		if fails.left > 0 { // there are no more
			if err != nil || n < 5 {
				t.Errorf("after %d writes: %v", n, err)
			}
			return
		}
		if !errors.Is(err, errFlaky) {
			t.Errorf("write %d fails, and the seed is answered %v", n, err)
		}
	}
}
