// SPDX-License-Identifier: Apache-2.0

package hostkey

import (
	"crypto/hkdf"
	"crypto/sha256"
	"encoding/hex"
	"fmt"

	"github.com/berth-project/berth/pkg/compute"
)

// secretBytes is how long masters and keys are: as much as HMAC-SHA256 makes use of.
const secretBytes = 32

// What keys are derived for, which keeps one use from being taken for another.
const (
	forID   = "berth master id v1"
	forHost = "berth host key v1\x00"
)

// MasterID names a master without telling it.
type MasterID [4]byte

// String is the id as it stands in files and messages.
func (id MasterID) String() string { return hex.EncodeToString(id[:]) }

// Master is what the keys of hosts are derived from.
type Master struct {
	id     MasterID
	secret [secretBytes]byte
}

// ID names it.
func (m Master) ID() MasterID { return m.id }

// String is its id: a secret is never printed.
func (m Master) String() string { return "master " + m.id.String() }

// GoString is the same for %#v.
func (m Master) GoString() string { return m.String() }

// NewMaster is the master of a secret, which has to be random.
func NewMaster(secret [32]byte) Master {
	m := Master{secret: secret}
	copy(m.id[:], expand(m.secret, forID, len(m.id)))
	return m
}

// Derive is the key of a host. The same host has the same key every time.
func (m Master) Derive(h compute.HostID) Key {
	k := Key{host: h, master: m.id}
	k.secret = m.Secret(forHost + string(h))
	return k
}

// Secret is derived from the master for one use. No two uses are called alike, whatever they are for.
func (m Master) Secret(use string) [32]byte { return [32]byte(expand(m.secret, use, secretBytes)) }

// expand is n bytes of a secret for one use.
func expand(secret [secretBytes]byte, use string, n int) []byte {
	out, err := hkdf.Key(sha256.New, secret[:], nil, use, n)
	if err != nil {
		panic("hostkey: " + err.Error()) // only if more is asked for than there is
	}
	return out
}

// Key is what one host signs with.
type Key struct {
	host   compute.HostID
	master MasterID
	secret [secretBytes]byte
}

// String names its host and master: a secret is never printed.
func (k Key) String() string { return fmt.Sprintf("key of host %s under master %s", k.host, k.master) }

// GoString is the same for %#v.
func (k Key) GoString() string { return k.String() }

// Line is the key as it stands in a host's key file, and secret.
func (k Key) Line() string {
	return fmt.Sprintf("%s %s %s", k.host, k.master, hex.EncodeToString(k.secret[:]))
}
