// SPDX-License-Identifier: Apache-2.0

// Package seed makes the disks on which cloud-init finds a guest's identity (NoCloud).
package seed

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"unicode/utf8"

	"github.com/diskfs/go-diskfs/backend"
	"github.com/diskfs/go-diskfs/backend/file"
	"github.com/diskfs/go-diskfs/filesystem/iso9660"

	"github.com/berth-project/berth/compute-agent/hypervisor"
)

// metaData is cloud-init's meta-data: YAML, of which JSON is a part.
type metaData struct {
	InstanceID string   `json:"instance-id"`
	Hostname   string   `json:"local-hostname,omitempty"`
	Keys       []string `json:"public-keys,omitempty"`
	Berth      struct {
		Project  string            `json:"project"`
		Metadata map[string]string `json:"metadata,omitempty"`
	} `json:"berth"`
}

// longestName is of metadata, as it is written: YAML reads no longer one as the key of an entry.
const longestName = 1000

// seedFiles are what a NoCloud seed has; cloud-init wants both, even if empty.
func seedFiles(s hypervisor.Spec) (map[string][]byte, error) {
	m := metaData{InstanceID: string(s.Instance), Hostname: s.Name, Keys: s.SSHKeys}
	m.Berth.Project, m.Berth.Metadata = string(s.Project), map[string]string{}
	for name, value := range s.Metadata { // with a longer name the guest would know nothing
		if b, err := asYAML(name); err == nil && len(b) <= longestName {
			m.Berth.Metadata[name] = value
		}
	}
	meta, err := asYAML(m)
	user := s.UserData
	if len(user) == 0 {
		user = []byte("#cloud-config\n")
	}
	return map[string][]byte{"meta-data": append(meta, '\n'), "user-data": user}, err
}

// asYAML is JSON in which the characters are escaped that JSON may have as they are and YAML may not, or takes for the
// end of a line. It has such characters in strings alone.
func asYAML(v any) ([]byte, error) {
	text, err := json.Marshal(v)
	var out []byte
	for _, r := range string(text) {
		if 0x7f <= r && r <= 0x9f || r == 0xfeff || r == 0xfffe || r == 0xffff {
			out = fmt.Appendf(out, `\u%04x`, r)
		} else {
			out = utf8.AppendRune(out, r)
		}
	}
	return out, err
}

// seedBytes is more than a seed takes besides its user data.
const seedBytes = 1 << 20

// Write makes the file of the disk that cloud-init looks for by its label. It is durable when Write returns. It
// works in a folder beside it.
func Write(path string, s hypervisor.Spec) error {
	files, err := seedFiles(s)
	if err != nil {
		return err
	}
	work := path + ".work"
	if err := errors.Join(os.RemoveAll(path), os.RemoveAll(work), os.Mkdir(work, 0o700)); err != nil {
		return err
	}
	defer os.RemoveAll(work) // the library removes it where all went well alone
	const mode = 0o600       // there may be passwords in it
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE|os.O_EXCL, mode)
	if err != nil {
		return err
	}
	size := int64(seedBytes + 2*len(s.UserData))
	return errors.Join(f.Truncate(size), fill(f, size, work, files), f.Sync(), f.Close())
}

// fill writes a file system with these files, by way of a folder.
func fill(f backend.WritableFile, size int64, work string, files map[string][]byte) error {
	to := &disk{WritableFile: f}
	iso, err := iso9660.Create(file.New(to, false), size, 0, 2048, work)
	if err != nil {
		return err
	}
	for name, b := range files {
		if err := os.WriteFile(filepath.Join(iso.Workspace(), name), b, 0o600); err != nil {
			return err
		}
	}
	err = iso.Finalize(iso9660.FinalizeOptions{RockRidge: true, Joliet: true, VolumeIdentifier: "cidata"})
	return errors.Join(err, to.failed)
}

// disk remembers that something was not written: the library does not look at each of its writes.
type disk struct {
	backend.WritableFile
	failed error // the first
}

func (d *disk) WriteAt(b []byte, offset int64) (int, error) {
	n, err := d.WritableFile.WriteAt(b, offset)
	d.failed = cmp.Or(d.failed, err)
	return n, err
}
