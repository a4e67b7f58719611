// SPDX-License-Identifier: Apache-2.0

package explain

import (
	"fmt"
	"time"

	"github.com/berth-project/berth/pkg/compute"
)

// early is a placeholder of which the time has not come.
func (f Facts) early() Told {
	i := f.Instance
	p := i.Boot.Placeholder()
	return Told{
		Summary: fmt.Sprintf("hosts begin to hold room for it in %s, shortly before reservation %s begins", span(i.PublishAt.Sub(f.Now)), p.Of),
		Next:    []Event{{At: i.PublishAt, What: "it is put into its queue"}, {At: p.From, What: "the reservation begins"}},
	}
}

// WaitsForItsTime is that the reservation of a placeholder does not begin soon.
func WaitsForItsTime(i *compute.Instance) string {
	return fmt.Sprintf("hosts begin to hold room for it at %s, shortly before reservation %s begins",
		i.PublishAt.UTC().Format(time.RFC3339), i.Boot.Placeholder().Of)
}

// WaitsForAgents is that hosts have agents of an older version.
func WaitsForAgents(n int) string {
	have := "hosts have agents"
	if n == 1 {
		have = "host has an agent"
	}
	return fmt.Sprintf("%d %s of an older version, and no host holds room for reservations before all know of them", n, have)
}

// older is a placeholder that no host is offered, since some would not know what it is.
func (f Facts) older() Told {
	out := Told{
		Summary: WaitsForAgents(len(f.Older)),
		Next:    []Event{{What: "it is put into its queue once the agents of all hosts know of reservations"}},
	}
	for _, h := range f.Older[:min(len(f.Older), 3)] {
		out.Operators = append(out.Operators, fmt.Sprintf(
			"upgrade the agent of host %s; if that host is gone for good: berth host forget %s --fenced", h, h))
	}
	return out
}

// notTaken is how what is queued ends without a host, in words.
func (f Facts) notTaken() string {
	if f.Placeholder != nil {
		return "the host of its placeholder has not taken it by then"
	}
	return "no host has taken it"
}

// endsWithout is when what takes no host in time ends (on_no_capacity: fail). For what is to be in a reservation that
// counts from its beginning on.
func (f Facts) endsWithout() time.Time {
	since := f.Instance.UnclaimedSince()
	if p := f.Placeholder; p != nil && p.Boot.Placeholder().From.After(since) {
		since = p.Boot.Placeholder().From
	}
	return since.Add(compute.NoCapacityAfter)
}

// taking is an instance that waits for the room of a placeholder.
func (f Facts) taking() Told {
	p := f.Placeholder
	of := p.Boot.Placeholder()
	out := Told{
		Summary: "it waits for its room: " + compute.WaitsIn(p, f.Now),
		Asker: []string{
			fmt.Sprintf("see what hosts hold: berth reservation show %s, berth explain %s", of.Of, p.ID),
			"boot another one without the reservation, and delete this one",
		},
	}
	if of.From.After(f.Now) {
		out.Next = append(out.Next, Event{At: of.From, What: "the reservation begins"})
	}
	out.Next = append(out.Next, Event{What: "the host of its placeholder makes it, as soon as there is one"},
		Event{At: of.Until, What: "the reservation ends, and with it what waits for its room"})
	return out
}

// kept is a placeholder for which no host is asked.
func (f Facts) kept() Told {
	of := f.Instance.Boot.Placeholder()
	return Told{
		Summary: "it waits in no queue, for " + compute.KeptFor(f.Instance),
		Next:    []Event{{At: of.Until, What: "the reservation ends"}},
		Asker:   []string{fmt.Sprintf("see what has taken it: berth explain %s", of.Taker)},
	}
}

// holding is a placeholder that a host holds.
func (f Facts) holding(p compute.Placeholder) Told {
	who := "nobody has taken it"
	if p.Taker != "" {
		who = fmt.Sprintf("instance %s has it", p.Taker)
	}
	return Told{
		Summary: fmt.Sprintf("host %s holds room for reservation %s; %s", f.host(f.Instance.Host), p.Of, who),
		Next:    []Event{{At: p.Until, What: "the reservation ends, and its room is free again unless it is taken"}},
		Asker:   []string{fmt.Sprintf("boot into it: berth boot --reservation %s --name NAME", p.Of)},
	}
}
