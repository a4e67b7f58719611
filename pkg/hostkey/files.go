// SPDX-License-Identifier: Apache-2.0

package hostkey

import (
	"bytes"
	"encoding/hex"
	"fmt"
	"iter"
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
		text, err := secretfile.Read(field, file)
		if err != nil {
			return nil, err
		}
		masters, err := parseMasters(field, file, text)
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

// Lines are those of a file that are neither empty nor a comment, with their numbers.
func Lines(text []byte) iter.Seq2[int, string] {
	return func(yield func(int, string) bool) {
		for n, line := range strings.Split(string(bytes.ReplaceAll(text, []byte("\r"), nil)), "\n") {
			line = strings.TrimSpace(line)
			if line != "" && !strings.HasPrefix(line, "#") && !yield(n+1, line) {
				return
			}
		}
	}
}

// parseMasters says of a bad line where it is, and never what it is: it may be a secret.
func parseMasters(field, file string, text []byte) (all []Master, err error) {
	for n, line := range Lines(text) {
		secret, ok := DecodeSecret(line)
		if !ok {
			return nil, compute.Invalid(field, fmt.Sprintf("%s:%d", file, n),
				"give 64 hexadecimal digits, as openssl rand -hex 32 prints them")
		}
		all = append(all, NewMaster(secret))
	}
	return all, nil
}

// LoadKey reads a host's key from a file of lines that "berth host enroll" printed. A file
// that others may read, or without a line for this host, is refused.
func LoadKey(field, file string, host compute.HostID) (Key, error) {
	text, err := secretfile.Read(field, file)
	if err != nil {
		return Key{}, err
	}
	keys, err := parseKeys(field, file, text)
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

func parseKeys(field, file string, text []byte) (all []Key, err error) {
	for n, line := range Lines(text) {
		bad := compute.Invalid(field, fmt.Sprintf("%s:%d", file, n), "put a line there that berth host enroll printed")
		parts := strings.Fields(line)
		if len(parts) != 3 {
			return nil, bad
		}
		k := Key{host: compute.HostID(parts[0])}
		id, err := hex.DecodeString(parts[1])
		secret, ok := DecodeSecret(parts[2])
		if k.host.Check() != nil || err != nil || len(id) != len(k.master) || !ok {
			return nil, bad
		}
		copy(k.master[:], id)
		k.secret = secret
		all = append(all, k)
	}
	return all, nil
}

// DecodeSecret reads a master or a key as it stands in a file, and refuses what is none: all zeros is what is left of
// a file that was not written.
func DecodeSecret(text string) (secret [32]byte, ok bool) {
	n, err := hex.Decode(secret[:], []byte(text[:min(len(text), 2*secretBytes)]))
	return secret, err == nil && n == secretBytes && len(text) == 2*secretBytes && secret != [secretBytes]byte{}
}
