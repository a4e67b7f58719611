// SPDX-License-Identifier: Apache-2.0

package sealed

import (
	"crypto/aes"
	"crypto/cipher"
	"crypto/rand"
	"fmt"
	"slices"

	"github.com/berth-project/berth/pkg/compute"
	"github.com/berth-project/berth/pkg/hostkey"
)

// Keys seal and open user data in one cell. A nil one has no key. They are safe for concurrent use.
type Keys struct {
	cell string           // the prefix of its topics
	all  []hostkey.Master // the newest last; at least one
}

// Load reads keys from a file, or from all files of a folder in the order of their names, as hostkey.LoadMasters does.
// field is the setting that names it, and cell the prefix of the cell's topics. Without a path there are none.
func Load(field, path, cell string) (*Keys, error) {
	if path == "" {
		return nil, nil
	}
	all, err := hostkey.LoadMasters(field, path)
	if err != nil {
		return nil, err
	}
	return New(cell, all...), nil
}

// New makes keys of what they are derived from: at least one, the newest last.
func New(cell string, all ...hostkey.Master) *Keys { return &Keys{cell, all} }

// String names the keys: a secret is never printed.
func (k *Keys) String() string { return fmt.Sprintf("keys %v", k.IDs()) }

// GoString is the same for %#v.
func (k *Keys) GoString() string { return k.String() }

// IDs names what these open, in order; the last is what they seal under.
func (k *Keys) IDs() []compute.KeyID {
	if k == nil {
		return nil
	}
	var ids []compute.KeyID
	for _, m := range k.all {
		ids = append(ids, compute.KeyID(m.ID().String()))
	}
	return ids
}

// Owner is the instance that user data is sealed for.
type Owner struct {
	Project  compute.Project
	Instance compute.InstanceID
}

// forUserData is what keys of instances are derived for. None of what follows has a zero byte in it.
const forUserData = "berth user data v1\x00"

// cipher is what seals and opens under one key for one instance.
func (k *Keys) cipher(m hostkey.Master, of Owner) (cipher.AEAD, error) {
	secret := m.Secret(forUserData + k.cell + "\x00" + string(of.Project) + "\x00" + string(of.Instance))
	block, err := aes.NewCipher(secret[:])
	if err != nil {
		return nil, err
	}
	return cipher.NewGCM(block)
}

// Sealed user data consists of a version, the id of the key, a nonce, and the output of AES-GCM, which is the data
// encrypted and a tag. Version and id are its additional data.
const (
	version    = 1
	idBytes    = len(hostkey.MasterID{})
	nonceBytes = 12
	tagBytes   = 16
	headBytes  = 1 + idBytes

	// Overhead is by how much what is sealed is longer than the data.
	Overhead = headBytes + nonceBytes + tagBytes
)

// Seal makes of an instance's user data what only keys like these open, and only for this instance. It is other bytes
// each time. No data stays none. k is not nil.
func (k *Keys) Seal(of Owner, data []byte) (compute.Sealed, error) {
	if len(data) == 0 {
		return "", nil
	}
	m := k.all[len(k.all)-1]
	aead, err := k.cipher(m, of)
	if err != nil {
		return "", err
	}
	id := m.ID()
	out := make([]byte, 0, Overhead+len(data))
	out = append(append(out, version), id[:]...)
	out = out[:headBytes+nonceBytes]
	rand.Read(out[headBytes:]) // never fails
	return compute.Sealed(aead.Seal(out, out[headBytes:], data, out[:headBytes])), nil
}

// Open gives back what was sealed for this instance. The error is KindUnavailable where its key is not among these, and
// KindInvalid where it is not what was sealed for this instance; it never has any of the data in it.
func (k *Keys) Open(of Owner, s compute.Sealed) ([]byte, error) {
	if len(s) == 0 {
		return nil, nil
	}
	p, err := parse(s)
	if err != nil {
		return nil, err
	}
	m, err := k.find(p.id)
	if err != nil {
		return nil, err
	}
	aead, err := k.cipher(m, of)
	if err != nil {
		return nil, err
	}
	data, err := aead.Open(nil, p.nonce, p.text, []byte(s[:headBytes]))
	if err != nil {
		return nil, broken("does not open under key " + p.id.String() +
			": it was sealed for another instance, project or cell, or is damaged")
	}
	return data, nil
}

// Check says why s cannot be opened here at all: its key is not among these (KindUnavailable), or it is nothing that
// this version reads (KindInvalid). nil: it may open.
func (k *Keys) Check(s compute.Sealed) error {
	if len(s) == 0 {
		return nil
	}
	p, err := parse(s)
	if err == nil {
		_, err = k.find(p.id)
	}
	return err
}

// KeyOf names the key under which s is sealed, without opening it; false: it is nothing that this version reads.
func KeyOf(s compute.Sealed) (compute.KeyID, bool) {
	p, err := parse(s)
	if err != nil {
		return "", false
	}
	return compute.KeyID(p.id.String()), true
}

func (k *Keys) find(id hostkey.MasterID) (hostkey.Master, error) {
	if k != nil {
		if i := slices.IndexFunc(k.all, func(m hostkey.Master) bool { return m.ID() == id }); i >= 0 {
			return k.all[i], nil
		}
	}
	return hostkey.Master{}, &compute.Error{
		Kind:    compute.KindUnavailable,
		Message: "the user data is sealed under key " + id.String() + ", which is not here",
		Remedy:  "put that key into the file of user_data.keys, and restart",
	}
}

type parts struct {
	id          hostkey.MasterID
	nonce, text []byte
}

func parse(s compute.Sealed) (p parts, err error) {
	if len(s) < Overhead || s[0] != version {
		return parts{}, broken("is sealed in no way that this version knows")
	}
	copy(p.id[:], s[1:headBytes])
	p.nonce, p.text = []byte(s[headBytes:headBytes+nonceBytes]), []byte(s[headBytes+nonceBytes:])
	return p, nil
}

func broken(why string) error {
	return &compute.Error{
		Kind: compute.KindInvalid, Message: "the user data " + why, Remedy: "boot it again under a new id",
	}
}
