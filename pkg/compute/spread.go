// SPDX-License-Identifier: Apache-2.0

package compute

import (
	"bytes"
	"crypto/sha256"
	"fmt"
	"maps"
	"math"
)

// MaxSkew is the largest Skew of a group.
const MaxSkew = 10_000

// checkSpread refuses a spread that can never be right.
func (g Group) checkSpread() error {
	if g.Spread != "" {
		if err := g.Spread.Check(); err != nil {
			return err
		}
	}
	none := g.Policy == SpreadOnly
	switch {
	case none && g.Spread == "":
		return Invalid("policy", g.Policy.String(), "give a spread too, or another policy: else the group has no rule")
	case none && g.Most != 0:
		return Invalid("max_per_host", fmt.Sprint(g.Most),
			"leave it out with none, or give anti-affinity: none keeps nothing apart")
	case none && g.Over != "":
		return Invalid("over", string(g.Over), "leave it out with none, or give anti-affinity or affinity over it")
	case g.Skew != 0 && g.Spread == "":
		return Invalid("max_skew", fmt.Sprint(g.Skew), "say over which capability members are spread, or leave it out")
	case g.Skew > MaxSkew:
		return Invalid("max_skew", fmt.Sprint(g.Skew), fmt.Sprintf("give 1 to %d, or leave it out", MaxSkew))
	case g.Spread == OverHosts:
		return Invalid("spread", string(g.Spread), "give a capability; anti-affinity keeps members on different hosts")
	case g.Spread != "" && g.Spread == g.Over && g.Policy.Together():
		return Invalid("spread", string(g.Spread),
			"give another capability, or another policy: "+g.Policy.String()+" has all members on one "+string(g.Over))
	}
	return nil
}

// spreads is the group's spread in words; empty: it has none.
func (g Group) spreads() []string {
	switch {
	case g.Spread == "":
		return nil
	case g.Skew == 0:
		return []string{"spread over " + string(g.Spread)}
	}
	return []string{fmt.Sprintf("spread over %s with a skew of at most %d", g.Spread, g.Skew)}
}

// Chooses says whether the conductor chooses a boot's value on the axis over which the group spreads its members.
func (g Group) Chooses(b Boot) bool { return g.Spread != "" && b.With[g.Spread] == "" }

// Fewest is the one of some values of which the group has fewest members. Of several it is the one that a hash puts
// first, which differs between groups: so they do not all begin at the same value. Empty: there are no values.
func (g Group) Fewest(values []AxisValue, members func(AxisValue) uint32) AxisValue {
	var best AxisValue
	var least uint32
	var first [sha256.Size]byte
	for _, v := range values {
		n := members(v)
		if best != "" && n > least {
			continue
		}
		hash := sha256.Sum256(fmt.Appendf(nil, "%s/%s/%s", g.Project, g.Name, v)) // no name has a slash
		if best == "" || n < least || bytes.Compare(hash[:], first[:]) < 0 {
			best, least, first = v, n, hash
		}
	}
	return best
}

// Having is the boot with one choice more. What it is made of stays as it is.
func (b Boot) Having(axis AxisName, value AxisValue) Boot {
	with := Choices{axis: value}
	for a, v := range b.With {
		if a != axis {
			with[a] = v
		}
	}
	b.With = with
	return b
}

// Spread is what the conductor noted of an instance's group when it admitted it; nothing if that spread no members.
func (b *Boot) Spread() (r PlacementRules) {
	if b.Rules != nil {
		r = *b.Rules
	}
	return r
}

// Asked is the boot of an instance as it was asked for: without the choice that the conductor made.
func (b Boot) Asked() Boot {
	r := b.Rules
	if r == nil {
		return b
	}
	if r.Reservation != "" { // its class is that of its placeholder
		b.Rules = nil
		b.Reserving(r.Reservation)
		return b
	}
	if b.Rules = b.AskedRules(); r.Chosen {
		b.With = maps.Clone(b.With)
		if delete(b.With, r.Spread); len(b.With) == 0 {
			b.With = nil
		}
	}
	return b
}

// Even is how members are spread over the values of an axis that there are: what a skew is of.
type Even struct {
	Skew   uint32
	Values []AxisValue
	There  func(AxisValue) uint32 // members of a value that may be on hosts
	Stay   func(AxisValue) uint32 // of them: those that are not being deleted
}

// With is that with so many members more that stay and have a value.
func (e Even) With(value AxisValue, n uint32) Even {
	if e.Skew == 0 {
		return e
	}
	more := func(was func(AxisValue) uint32) func(AxisValue) uint32 {
		return func(v AxisValue) uint32 {
			if v == value {
				return was(v) + n
			}
			return was(v)
		}
	}
	e.There, e.Stay = more(e.There), more(e.Stay)
	return e
}

// Left is how many members more may come to a value now: so many that it then has no more than Skew above any other.
// Members that are being deleted may still run, so they count there, and in the others they do not. least is the value
// that has fewest; empty: there is no other, and any number may come.
func (e Even) Left(value AxisValue) (left uint32, least AxisValue) {
	if e.Skew == 0 || value == "" {
		return math.MaxUint32, ""
	}
	for _, v := range e.Values {
		if v != value && (least == "" || e.Stay(v) < e.Stay(least)) {
			least = v
		}
	}
	if least == "" {
		return math.MaxUint32, ""
	}
	most := e.Skew + e.Stay(least)
	return most - min(most, e.There(value)), least
}
