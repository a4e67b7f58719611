// SPDX-License-Identifier: Apache-2.0

package compute

import (
	"encoding/base64"
	"encoding/binary"
	"fmt"
	"strings"
)

// Limits of the SSH keys of one request.
const (
	MaxSSHKeys     = 64
	MaxSSHKeysSize = 32 << 10 // bytes, all together
)

// checkSSHKeys refuses what no SSH server would take: a guest that nobody can
// enter is found out about too late.
func checkSSHKeys(keys []string) error {
	for n, k := range keys {
		if err := checkSSHKey(n, k); err != nil {
			return err
		}
	}
	return nil
}

func checkSSHKey(n int, line string) error {
	field := fmt.Sprintf("ssh_keys[%d]", n)
	const remedy = `give a public key in one line, as in authorized_keys: "ssh-ed25519 AAAA… name"`
	if strings.Contains(line, "PRIVATE KEY") { // which is nobody's to see
		return Invalid(field, "a private key", "give the public one: the file that ends in .pub")
	}
	if strings.ContainsFunc(line, func(r rune) bool { return r < ' ' && r != '\t' || r == 0x7f }) {
		return Invalid(field, shortKey(line), "it has a line break or another control character; "+remedy)
	}
	words := strings.Fields(line) // options may be before the kind, a comment behind the key
	for i := range len(words) - 1 {
		if kindOfKey(words[i+1]) == words[i] {
			return nil
		}
	}
	return Invalid(field, shortKey(line), remedy)
}

// shortKey is enough to see which line is meant: it may be something else, and
// nobody's to see.
func shortKey(line string) string {
	const most = 40
	if len(line) > most {
		return strings.ToValidUTF8(line[:most], "") + "…"
	}
	return line
}

// kindOfKey is what the key itself says it is, "ssh-ed25519"; empty if it is none.
func kindOfKey(blob string) string {
	b, err := base64.StdEncoding.DecodeString(blob)
	if err != nil || len(b) < 4 {
		return ""
	}
	n := binary.BigEndian.Uint32(b)
	if rest := b[4:]; n > 0 && uint64(n) < uint64(len(rest)) {
		return string(rest[:n])
	}
	return ""
}
