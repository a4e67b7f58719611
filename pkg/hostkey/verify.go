// SPDX-License-Identifier: Apache-2.0

package hostkey

import (
	"crypto/hmac"
	"crypto/sha256"
	"fmt"
	"hash"
	"sync"

	"github.com/berth-project/berth/pkg/compute"
	"github.com/berth-project/berth/pkg/wire"
)

// Trust says which records count.
type Trust string

// The two there are.
const (
	TrustAll  Trust = "all"  // unsigned ones count, too; one with a wrong MAC does not
	TrustKeys Trust = "keys" // only what has its host's MAC
)

// Proved is what a record's MAC has proved.
type Proved struct {
	Signed  bool   // false: it has none that could be checked, and was taken all the same
	Counter uint64 // where it stands in what its process said
}

// Verifier checks MACs. Its answer depends on nothing but the record and the masters; it keeps
// the keys of hosts that were right, so as not to derive them each time. A nil one takes
// everything. It is safe for concurrent use.
type Verifier struct {
	trust     Trust
	masters   map[MasterID]Master
	withdrawn Withdrawn

	mu   sync.Mutex
	keys map[keyOf]hash.Hash
}

type keyOf struct {
	host   compute.HostID
	master MasterID
}

// mostKeys bounds what is kept: then all are derived anew.
const mostKeys = 100_000

// NewVerifier takes what these masters stand for.
func NewVerifier(trust Trust, masters []Master) *Verifier {
	v := &Verifier{trust: trust, masters: map[MasterID]Master{}, keys: map[keyOf]hash.Hash{}}
	for _, m := range masters {
		v.masters[m.id] = m
	}
	return v
}

// Without takes no more what is signed by these keys. It is called before any Check.
func (v *Verifier) Without(w Withdrawn) *Verifier {
	v.withdrawn = w
	return v
}

// Check says why a record is not of the host that it names; nil: it is, or counts unsigned.
func (v *Verifier) Check(rec wire.Record, host compute.HostID) (Proved, *compute.Reason) {
	if v == nil {
		return Proved{}, nil
	}
	header := rec.Header(wire.HeaderMAC)
	if header == nil {
		return v.unproved(host, "it has no MAC: give the agent of this host a key (berth host enroll)")
	}
	s, err := decodeSeal(header)
	if err != nil {
		return Proved{}, &compute.Reason{Code: compute.Forged, Host: host, Detail: err.Error()}
	}
	master, known := v.masters[s.master]
	if !known {
		// Without the header it would count, or not, just the same.
		return v.unproved(host, fmt.Sprintf("its MAC is under master %s, which is not among hosts.masters here", s.master))
	}
	if v.withdrawn.Has(string(host), s.master) { // whether its MAC is right or wrong
		return Proved{}, &compute.Reason{
			Code: compute.Forged, Host: host,
			Detail: fmt.Sprintf("the key of this host under master %s was withdrawn (hosts.withdrawn)", s.master),
		}
	}
	if !v.fits(rec, s, master, host) {
		return Proved{}, &compute.Reason{
			Code: compute.Forged, Host: host, Detail: "its MAC is not that of the host which it says it is of",
		}
	}
	return Proved{Signed: true, Counter: s.counter}, nil
}

func (v *Verifier) unproved(host compute.HostID, why string) (Proved, *compute.Reason) {
	if v.trust != TrustKeys {
		return Proved{}, nil
	}
	return Proved{}, &compute.Reason{Code: compute.Unsigned, Host: host, Detail: why}
}

func (v *Verifier) fits(rec wire.Record, s seal, master Master, host compute.HostID) bool {
	v.mu.Lock()
	defer v.mu.Unlock()
	at := keyOf{host, s.master}
	mac, known := v.keys[at]
	if !known {
		key := master.Derive(host)
		mac = hmac.New(sha256.New, key.secret[:])
	}
	mac.Reset()
	writeSum(mac, rec, s.counter)
	var sum [sha256.Size]byte
	ok := hmac.Equal(mac.Sum(sum[:0]), s.mac[:])
	if ok && !known { // a stranger's names of hosts fill nothing
		if len(v.keys) >= mostKeys {
			clear(v.keys)
		}
		v.keys[at] = mac
	}
	return ok
}

// Result is what became of a record, in a word for metrics.
func Result(c Proved, reason *compute.Reason) string {
	switch {
	case reason != nil:
		return string(reason.Code)
	case c.Signed:
		return "signed"
	}
	return "unsigned"
}
