// SPDX-License-Identifier: Apache-2.0

// Package seed makes the disks on which cloud-init finds a guest's identity (NoCloud).
package seed

import (
	"encoding/json"
	"errors"
	"os"
	"path/filepath"

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

// seedFiles are what a NoCloud seed has; cloud-init wants both, even if empty.
func seedFiles(s hypervisor.Spec) (map[string][]byte, error) {
	m := metaData{InstanceID: string(s.Instance), Hostname: s.Name, Keys: s.SSHKeys}
	m.Berth.Project, m.Berth.Metadata = string(s.Project), s.Metadata
	meta, err := json.Marshal(m)
	user := s.UserData
	if len(user) == 0 {
		user = []byte("#cloud-config\n")
	}
	return map[string][]byte{"meta-data": append(meta, '\n'), "user-data": user}, err
}

// seedBytes is more than a seed takes besides its user data.
const seedBytes = 1 << 20

// Write makes the file of the disk that cloud-init looks for by its label. It
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
	size := int64(seedBytes + 2*len(s.UserData))
	disk, err := file.CreateFromPath(path, size)
	if err != nil {
		return err
	}
	defer disk.Close()
	if err := os.Chmod(path, 0o600); err != nil { // there may be passwords in it
		return err
	}
	iso, err := iso9660.Create(disk, size, 0, 2048, work)
	if err != nil {
		return err
	}
	for name, b := range files {
		if err := os.WriteFile(filepath.Join(iso.Workspace(), name), b, 0o600); err != nil {
			return err
		}
	}
	return iso.Finalize(iso9660.FinalizeOptions{RockRidge: true, Joliet: true, VolumeIdentifier: "cidata"})
}
