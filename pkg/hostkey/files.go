// SPDX-License-Identifier: Apache-2.0

package hostkey

import (
	"encoding/hex"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/berth-project/berth/pkg/compute"
	"github.com/berth-project/berth/pkg/secretfile"
)

// LoadMasters reads masters from a file, or from all files of a folder in the order of
// their names: a line each, 64 hexadecimal digits, the newest last. Lines that begin with #
// are comments. field is the setting that names it. A file that others may read is refused.
func LoadMasters(field, path string) ([]Master, error) {
	files, err := filesOf(field, path)
	if err != nil {
		return nil, err
	}
	var all []Master
	for _, file := range files {
		masters, err := secretfile.Load(field, file, masterRemedy, parseMaster)
		if err != nil {
			return nil, err
		}
		all = append(all, masters...)
	}
	if len(all) == 0 {
		return nil, compute.Invalid(field, path, "put a line there: openssl rand -hex 32")
	}
	for i, m := range all {
		if slices.ContainsFunc(all[:i], func(n Master) bool { return n.id == m.id }) {
			return nil, compute.Invalid(field, path, fmt.Sprintf("leave one of the two lines of %s out", m))
		}
	}
	return all, nil
}

// filesOf is the file, or what is in the folder. Names that begin with a dot are left out: a
// mounted secret has its older versions there.
func filesOf(field, path string) ([]string, error) {
	info, err := os.Stat(path)
	if err != nil {
		return nil, compute.Unreadable(field, path, err)
	}
	if !info.IsDir() {
		return []string{path}, nil
	}
	entries, err := os.ReadDir(path)
	if err != nil {
		return nil, compute.Unreadable(field, path, err)
	}
	var files []string
	for _, e := range entries { // sorted by name
		if !strings.HasPrefix(e.Name(), ".") {
			files = append(files, filepath.Join(path, e.Name()))
		}
	}
	return files, nil
}

const (
	masterRemedy = "give a master as 64 hexadecimal digits, as openssl rand -hex 32 prints one"
	keyRemedy    = "put a line there that berth host enroll printed"
)

func parseMaster(words []string) (m Master, ok bool) {
	if len(words) != 1 {
		return Master{}, false
	}
	secret, ok := secretfile.DecodeSecret(words[0])
	return NewMaster(secret), ok
}

// LoadKey reads a host's key from a file of lines that "berth host enroll" printed. A file
// that others may read, or without a line for this host, is refused.
func LoadKey(field, file string, host compute.HostID) (Key, error) {
	keys, err := secretfile.Load(field, file, keyRemedy, parseKey)
	if err != nil {
		return Key{}, err
	}
	// The last one: a new key is written below the one before.
	for _, k := range slices.Backward(keys) {
		if k.host == host {
			return k, nil
		}
	}
	return Key{}, compute.Invalid(field, file, fmt.Sprintf("it has no key of host %s: berth host enroll %[1]s", host))
}

func parseKey(words []string) (k Key, ok bool) {
	if len(words) != 3 {
		return Key{}, false
	}
	master, known := ParseMasterID(words[1])
	secret, ok := secretfile.DecodeSecret(words[2])
	k = Key{host: compute.HostID(words[0]), master: master, secret: secret}
	return k, ok && known && k.host.Check() == nil
}

// ParseMasterID reads how String writes it; capital letters are taken, too.
func ParseMasterID(text string) (id MasterID, ok bool) {
	raw, err := hex.DecodeString(text)
	if err != nil || len(raw) != len(id) {
		return id, false
	}
	return MasterID(raw), true
}
