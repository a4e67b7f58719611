// SPDX-License-Identifier: Apache-2.0

package publishkey

import (
	"bytes"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"hash"
	"strings"
	"sync"

	"github.com/berth-project/berth/pkg/compute"
	"github.com/berth-project/berth/pkg/hostkey"
	"github.com/berth-project/berth/pkg/wire"
)

// Verifier checks MACs. Its answer depends on nothing but the record and the masters; it keeps the keys of publishers
// that were right, so as not to derive them each time. It is safe for concurrent use.
type Verifier struct {
	trust     hostkey.Trust
	masters   map[hostkey.MasterID]hostkey.Master
	withdrawn hostkey.Withdrawn

	mu    sync.Mutex
	known map[string]known // by signer
}

// known is a publisher whose MAC was right once.
type known struct {
	key Key
	mac hash.Hash
}

// mostKnown bounds what is kept: then all are derived anew.
const mostKnown = 10_000

// NewVerifier takes what these masters stand for.
func NewVerifier(trust hostkey.Trust, masters []hostkey.Master) *Verifier {
	v := &Verifier{trust: trust, masters: map[hostkey.MasterID]hostkey.Master{}, known: map[string]known{}}
	for _, m := range masters {
		v.masters[m.ID()] = m
	}
	return v
}

// Without finds fault with what is signed by these keys. It is called before any Check.
func (v *Verifier) Without(w hostkey.Withdrawn) *Verifier {
	v.withdrawn = w
	return v
}

// Refuses says whether what Check finds fault with is refused. Otherwise it counts all the same.
func (v *Verifier) Refuses() bool { return v.trust == hostkey.TrustKeys }

// Check says why a request is not one of a publisher that may write for the project; nil: it is. A request about a
// host has no project.
func (v *Verifier) Check(rec wire.Record, project compute.Project) *compute.Reason {
	header := rec.Header(wire.HeaderPublisher)
	if header == nil {
		return because(compute.Unsigned, "it is not signed: give its publisher a key (berth publisher enroll)")
	}
	at := bytes.LastIndexByte(header, ' ')
	if at < 0 {
		return notRead()
	}
	v.mu.Lock()
	defer v.mu.Unlock()
	is, before := v.known[string(header[:at])]
	if !before {
		var reason *compute.Reason
		if is, reason = v.derive(string(header[:at])); reason != nil {
			return reason
		}
	}
	is.mac.Reset()
	writeSum(is.mac, rec, string(header[:at]))
	var sum [sha256.Size]byte
	var digits [2 * sha256.Size]byte
	hex.Encode(digits[:], is.mac.Sum(sum[:0]))
	if !hmac.Equal(digits[:], header[at+1:]) {
		return because(compute.Forged, fmt.Sprintf("its MAC is not that of publisher %s", is.key.name))
	}
	if !before { // a stranger's names fill nothing
		if len(v.known) >= mostKnown {
			clear(v.known)
		}
		v.known[string(header[:at])] = is
	}
	if !is.key.projects.Allow(project) {
		return foreign(is.key, project)
	}
	return nil
}

// derive is a publisher that was not seen before.
func (v *Verifier) derive(signer string) (known, *compute.Reason) {
	parts := strings.Split(signer, " ")
	if len(parts) != 4 || parts[0] != version {
		return known{}, notRead()
	}
	k, ok := parseSigner(parts[1], parts[2], parts[3])
	if !ok {
		return known{}, notRead()
	}
	master, ok := v.masters[k.master]
	if !ok { // without the header it would count, or not, just the same
		return known{}, because(compute.Unsigned,
			fmt.Sprintf("it is signed under master %s, which is not among publish.masters here", k.master))
	}
	if v.withdrawn.Has(string(k.name), k.master) { // whether its MAC is right or wrong
		return known{}, because(compute.Forged, fmt.Sprintf(
			"the key of publisher %s under master %s was withdrawn (publish.withdrawn)", k.name, k.master))
	}
	k = Derive(master, k.name, k.projects)
	return known{k, hmac.New(sha256.New, k.secret[:])}, nil
}

func notRead() *compute.Reason {
	return because(compute.Forged, "the header "+wire.HeaderPublisher+" is none that this version knows")
}

func foreign(k Key, project compute.Project) *compute.Reason {
	what := "project " + string(project)
	if project == "" {
		what = "what is about hosts, which is for publishers of all projects (*)"
	}
	projects := string(k.projects)
	if len(projects) > 80 {
		projects = projects[:80] + "…"
	}
	return because(compute.ForeignProject, fmt.Sprintf(
		"publisher %s has a key for %s and not for %s: berth publisher enroll %[1]s --projects …",
		k.name, projects, what))
}

func because(code compute.ReasonCode, why string) *compute.Reason {
	return &compute.Reason{Code: code, Detail: why}
}
