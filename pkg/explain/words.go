// SPDX-License-Identifier: Apache-2.0

package explain

import (
	"fmt"
	"strings"
	"time"

	"github.com/berth-project/berth/pkg/compute"
)

// Says is what a host is, behind "it ".
func (v Verdict) Says() string { return v.says(false) }

// says is what a host is, behind "which ". What the host itself says of it is for operators: it may be about others.
func (v Verdict) says(amounts bool) string {
	switch v.Standing {
	case OtherHost:
		return "is another one"
	case Avoided:
		return "is one that the request avoids"
	case LacksTrait:
		return "has the wrong traits for it: " + list(v.Traits)
	case TooSmall:
		if !amounts {
			return "is too small even when empty"
		}
		return "is too small even when empty, by " + Amounts(v.Short)
	case KeptOut:
		return "is one that the rule of its group keeps it from"
	case LacksKey:
		return "has no key that opens its user data"
	case Silent:
		return "is silent"
	case Twin:
		return "has two agents of its name"
	case Disabled, Draining, Quarantined:
		return "is " + v.Standing.String()
	case Full:
		if !amounts {
			return "has too little room"
		}
		return "has too little room: " + Amounts(v.Short) + " short"
	case Mistrusts:
		return "takes it though its image has failed there lately, if no other does"
	case FailedThere:
		return "takes it though an attempt failed there, if no other does"
	}
	return "can take it now"
}

// operators is what an operator can do so that a host takes it.
func (v Verdict) operators() []string {
	do := ""
	switch v.Standing {
	case LacksKey:
		do = fmt.Sprintf("put the key into the file of user_data.keys of host %s, and restart its agent", v.Host)
	case Silent:
		do = fmt.Sprintf("look at the agent of host %s and at its way to Kafka", v.Host)
	case Twin:
		do = fmt.Sprintf("stop one of the agents that have the name of host %s", v.Host)
	case Disabled, Draining:
		do = fmt.Sprintf("host %s is %s%s; berth host enable %[1]s ends that", v.Host, v.Standing, colon(v.Reason))
	case Quarantined:
		do = fmt.Sprintf("host %s is quarantined%s; berth host enable %[1]s ends that if it is for starts that failed",
			v.Host, colon(v.Reason))
	case Mistrusts:
		do = fmt.Sprintf("mend its image on host %s; berth host enable %[1]s lets it be tried there at once", v.Host)
	case Full:
		return []string{fmt.Sprintf("free %s on host %s", Amounts(v.Short), v.Host)}
	case LacksTrait:
		return []string{fmt.Sprintf("look at the traits of host %s: berth host show %s", v.Host, v.Host)}
	default:
		return nil
	}
	if len(v.Short) > 0 {
		do += ", and free " + Amounts(v.Short) + " there"
	}
	return []string{do}
}

// laters say what would have to change and on how many hosts, the most promising first. Without sums they do not say
// what the nearest is short of: where a request names hosts, there may be one that does.
func (a Answer) laters(sums bool) (out []string) {
	for s := Full; s >= KeptOut; s-- {
		n := a.Counts[s]
		if n == 0 {
			continue
		}
		switch s {
		case Full:
			if !sums {
				out = append(out, fmt.Sprintf("%d full", n))
				continue
			}
			out = append(out, fmt.Sprintf("%d full (the nearest is short of %s)", n, Amounts(a.first[Full].Short)))
		case KeptOut:
			out = append(out, fmt.Sprintf("%d that the rule of its group keeps it from", n))
		case LacksKey:
			out = append(out, fmt.Sprintf("%d without the key of its user data", n))
		case Twin:
			out = append(out, fmt.Sprintf("%d with two agents of one name", n))
		default:
			out = append(out, fmt.Sprintf("%d %s", n, s))
		}
	}
	return out
}

// reluctant says why hosts that can take it leave it to others first, if all that can do.
func (a Answer) reluctant() string {
	failed, mistrust := a.Counts[FailedThere], a.Counts[Mistrusts]
	switch {
	case a.Now() == 0 || a.Counts[Fits] > 0:
		return ""
	case mistrust == 0:
		return "; attempts of it failed there, so it is left to others at first"
	case failed == 0:
		return "; its image has failed there lately, so it is left to others at first"
	}
	return "; attempts of it, or others with its image, failed there, so it is left to others at first"
}

// nevers say why hosts can never take it.
func (a Answer) nevers() (out []string) {
	for s := OtherHost; s.Never(); s++ {
		n := a.Counts[s]
		switch {
		case n == 0:
		case s == OtherHost:
			out = append(out, fmt.Sprintf("%d not the one that it is for", n))
		case s == Avoided:
			out = append(out, fmt.Sprintf("%d that it avoids", n))
		case s == LacksTrait:
			var names []compute.Trait
			for _, u := range a.Traits {
				names = append(names, u.Trait)
			}
			out = append(out, fmt.Sprintf("%d with the wrong traits (%s)", n, list(names)))
		case s == TooSmall:
			out = append(out, fmt.Sprintf("%d too small even when empty", n))
		}
	}
	return out
}

// asker is what who waits can do, the most promising first.
func (f Facts) asker() (out []string) {
	a := f.Hosts
	if g := f.Group; g != nil && a.Counts[KeptOut] > 0 {
		out = append(out, g.asker()...)
	}
	if n := a.Counts[Full]; n > 0 {
		out = append(out, "delete machines that are not needed, or boot a smaller flavor")
	}
	if a.Counts[Avoided] > 0 {
		out = append(out, "boot it without some of the hosts that it avoids")
	}
	if a.Counts[LacksTrait] > 0 && len(f.wanted().With) > 0 {
		out = append(out, "boot it without one of its capabilities")
	}
	if a.Counts[TooSmall] > 0 && a.Later() == 0 {
		out = append(out, "boot a smaller flavor")
	}
	return out
}

func (f Facts) wanted() compute.Boot {
	if f.Instance == nil {
		return compute.Boot{}
	}
	return f.Instance.Boot
}

// operators is what operators can do: of each way in which hosts do not take it, for the one that is nearest.
func (a Answer) operators() (out []string) {
	for standing := Full; standing >= LacksTrait; standing-- {
		if v := a.first[standing]; v.Host != "" {
			out = append(out, v.operators()...)
		}
	}
	if len(out) == 0 {
		out = append(out, "add a host that is large enough and has the traits")
	}
	return out
}

// Amounts are resources for people: "16 processors and 2 GiB of memory".
func Amounts(r compute.Resources) string {
	var parts []string
	for _, c := range r.Classes() {
		switch n := r[c]; c {
		case compute.VCPU:
			parts = append(parts, count(n, "processor"))
		case compute.MemoryMB:
			parts = append(parts, memory(n)+" of memory")
		case compute.DiskGB:
			parts = append(parts, fmt.Sprintf("%d GiB of disk", n))
		default:
			parts = append(parts, fmt.Sprintf("%d %s", n, c))
		}
	}
	if len(parts) > 1 {
		parts = []string{strings.Join(parts[:len(parts)-1], ", ") + " and " + parts[len(parts)-1]}
	}
	return strings.Join(parts, "")
}

func memory(mib int64) string {
	if mib%1024 == 0 {
		return fmt.Sprintf("%d GiB", mib/1024)
	}
	return fmt.Sprintf("%d MiB", mib)
}

func list(traits []compute.Trait) string {
	var names []string
	for _, t := range traits {
		names = append(names, string(t))
	}
	return strings.Join(names, ", ")
}

func count[N int64 | uint32](n N, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return fmt.Sprintf("%d %ss", n, what)
}

func are(n uint64) string {
	if n == 1 {
		return "1 is"
	}
	return fmt.Sprintf("%d are", n)
}

// span is a time for people: "12s", "5m", "3h10m".
func span(d time.Duration) string {
	switch d = max(d, 0); {
	case d < time.Minute:
		return d.Round(time.Second).String()
	case d < time.Hour:
		return fmt.Sprintf("%dm", int(d.Round(time.Minute).Minutes()))
	}
	d = d.Round(time.Minute)
	return fmt.Sprintf("%dh%dm", int(d.Hours()), int(d.Minutes())%60)
}
