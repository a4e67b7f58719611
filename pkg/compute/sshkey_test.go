// SPDX-License-Identifier: Apache-2.0

package compute

import (
	"encoding/base64"
	"slices"
	"strings"
	"testing"
)

const goodKey = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIAABAgMEBQYHCAkKCwwNDg8QERITFBUWFxgZGhscHR4f web@example"

func TestSSHKeys(t *testing.T) {
	blob := strings.Fields(goodKey)[1]
	for _, good := range [][]string{
		nil,
		{goodKey, "ssh-ed25519 " + blob, "ssh-ed25519\t" + blob},
		{`command="/bin/echo a b",no-pty ssh-ed25519 ` + blob + " with a comment of words"},
		slices.Repeat([]string{goodKey}, MaxSSHKeys),
	} {
		if err := (Boot{Flavor: "f", SSHKeys: good}).Check(); err != nil {
			t.Errorf("%.200q: %v", good, err)
		}
	}
	for says, bad := range map[string][]string{
		`ssh_keys[1] "" is not valid; give a public key in one line`: {goodKey, ""},
		`ssh_keys[0] "me"`:                          {"me"},
		`ssh_keys[0] "ssh-ed25519 AAAA me"`:         {"ssh-ed25519 AAAA me"},
		`ssh_keys[0] "ssh-rsa AAAAC3NzaC1lZ`:        {"ssh-rsa " + blob},
		`ssh_keys[0] "ssh-ed25519 AAAAC3NzaC1lZA`:   {"ssh-ed25519 AAAAC3NzaC1lZA=="},
		`it has a line break`:                       {goodKey + "\n" + goodKey},
		`\x7f" is not valid; it has a line break`:   {"ssh-ed25519\x7f"},
		`NTE5AAAAIAAB…" is not valid`:               {"ssh-ed25519 " + blob + "!"}, // base64 in front of what is none
		strings.Repeat("x", 40) + `" is not valid`:  {strings.Repeat("x", 40)},
		strings.Repeat("y", 40) + `…" is not valid`: {strings.Repeat("y", 41)},
		`ssh_keys[0] "a private key" is not valid;`: {"-----BEGIN OPENSSH PRIVATE KEY----- secret"},
		`ssh_keys "65 keys"`:                        slices.Repeat([]string{goodKey}, MaxSSHKeys+1),
		`ssh_keys "40012 bytes"`:                    {"ssh-ed25519 " + strings.Repeat("A", 40000)},
	} {
		err := (Boot{Flavor: "f", SSHKeys: bad}).Check()
		if err == nil || !strings.Contains(err.Error(), says) || KindOf(err) != KindInvalid ||
			strings.Contains(err.Error(), "secret") {
			t.Errorf("%.100q: %v, want %q", bad, err, says)
		}
	}
}

// A key says of what kind it is, and has something behind that.
func TestKindOfKey(t *testing.T) {
	for bytes, want := range map[string]string{
		"\x00\x00\x00\x01xy": "x", "\x00\x00\x00\x01x": "", "\x00\x00\x00\x00x": "", "\x00\x00\x00": "",
		"\xff\xff\xff\xffx": "",
	} {
		if got := kindOfKey(base64.StdEncoding.EncodeToString([]byte(bytes))); got != want {
			t.Errorf("%q: %q, want %q", bytes, got, want)
		}
	}
}
