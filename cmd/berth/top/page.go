// SPDX-License-Identifier: Apache-2.0

package top

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/berth-project/berth/pkg/cli"
	"github.com/berth-project/berth/pkg/client"
	"github.com/berth-project/berth/pkg/compute"
	"github.com/berth-project/berth/pkg/terminal"
)

// page is all that what is shown follows from.
type page struct {
	api    string
	cell   Cell
	failed error // why the last look has failed; the cell is the one before
	now    time.Time

	hosts  bool // the table of hosts instead of that of queues
	order  int  // which order of that table's
	from   int  // the first row that is shown
	screen terminal.Screen
	height int
}

// head is how many lines come before the rows of the table, and one comes behind them.
const (
	head = 8
	foot = 1
)

// rows is how many rows of the table are seen.
func (p page) rows() int { return max(p.height-head-foot, 1) }

// lines are as many as the terminal has, none wider than it.
func (p page) lines() []string {
	table := p.table()
	from := min(p.from, max(len(table.rows)-p.rows(), 0))
	shown := table.rows[from:min(from+p.rows(), len(table.rows))]
	out := append(p.top(), "", p.tabs(), p.screen.Paint(table.line(table.titles, p.screen, ""), terminal.Strong))
	for _, row := range shown {
		out = append(out, table.line(row.cells, p.screen, row.tone))
	}
	switch {
	case p.cell.At.IsZero():
		out = append(out, "Not known yet.")
	case len(table.rows) == 0:
		out = append(out, table.none)
	}
	for len(out) < p.height-foot {
		out = append(out, "")
	}
	out = append(out, p.where(from, len(shown), len(table.rows)))
	for i, line := range out {
		if !strings.Contains(line, "\x1b") { // else it was cut before it was painted
			out[i] = p.screen.Fit(line)
		}
	}
	return out[:min(len(out), p.height)]
}

// top says how the whole cell is.
func (p page) top() []string {
	states := map[string]int{}
	for _, h := range p.cell.Hosts {
		states[h.State]++
	}
	title, known := fmt.Sprintf("Berth at %s, %s", p.api, p.cell.At.Format(time.TimeOnly)), !p.cell.At.IsZero()
	switch {
	case p.failed != nil && known:
		title = p.bad(fmt.Sprintf("As of %s, for Berth at %s: %v", p.cell.At.Format(time.TimeOnly), p.api, p.failed))
	case p.failed != nil:
		title = p.bad(fmt.Sprintf("Berth at %s: %v", p.api, p.failed))
	case !known:
		title = fmt.Sprintf("Berth at %s: asking", p.api)
	}
	if !known {
		return []string{title, "Hosts      -", "Instances  -", "Waiting    -", "Used       -"}
	}
	if p.cell.Hidden {
		return []string{title, "Hosts      " + operatorsOnly, "Instances  -", p.waits(), "Used       -"}
	}
	all, free := p.cell.totals()
	return []string{
		title,
		"Hosts      " + cmp.Or(cli.ByState(states), "none"),
		"Instances  " + cmp.Or(cli.ByState(p.cell.instances()), "none on hosts"),
		p.waits(),
		"Used       " + cmp.Or(strings.TrimSuffix(used("vCPU", compute.VCPU, all, free)+
			used("memory", compute.MemoryMB, all, free)+used("disk", compute.DiskGB, all, free), gap), "-"),
	}
}

const operatorsOnly = "they are shown to operators"

func (p page) bad(text string) string {
	return p.screen.Paint(p.screen.Fit(cli.Printable(text)), terminal.Bad)
}

// waits says how much waits.
func (p page) waits() string {
	work, queues, since := p.cell.waiting()
	waiting := "Waiting    nothing"
	if work > 0 {
		waiting = fmt.Sprintf("Waiting    %d in %s", work, cli.Plural(queues, "queue"))
		if !since.IsZero() {
			waiting += ", the oldest since " + cli.Short(p.now.Sub(since))
		}
	}
	return waiting
}

const gap = "   "

// used is "vCPU ███░░ 4/8".
func used(name string, class compute.ResourceClass, all, free compute.Resources) string {
	const wide = 5
	of, taken := all[class], all[class]-free[class]
	if of <= 0 {
		return ""
	}
	full := int(max(0, min(wide, (taken*wide+of/2)/of)))
	return fmt.Sprintf("%s %s%s %s/%s"+gap, name, strings.Repeat("█", full), strings.Repeat("░", wide-full),
		cli.HumanSize(class, taken), cli.HumanSize(class, of))
}

func (p page) tabs() string {
	tab, other := "QUEUES", "hosts"
	if p.hosts {
		tab, other = "HOSTS", "queues"
	}
	orders := p.orders()
	return fmt.Sprintf("%s   tab: %s   s: by %s   arrows: scroll   q: quit", tab, other, orders[(p.order+1)%len(orders)])
}

func (p page) orders() []string {
	if p.hosts {
		return []string{"state", "free vCPU", "instances", "name"}
	}
	return []string{"waiting", "age", "name"}
}

func (p page) where(from, shown, of int) string {
	return fmt.Sprintf("%d to %d of %d, by %s", min(from+1, of), from+shown, of, p.orders()[p.order])
}

// table is what the rows of a page are taken from.
type table struct {
	titles []string
	right  []bool
	rows   []row
	none   string
	widths []int
}

type row struct {
	cells []string
	tone  terminal.Tone
}

func (p page) table() table {
	var t table
	if p.hosts {
		t = p.ofHosts()
	} else {
		t = p.ofQueues()
	}
	t.widths = terminal.Widen(nil, t.titles)
	for _, r := range t.rows {
		t.widths = terminal.Widen(t.widths, r.cells)
	}
	rest := 0
	for _, width := range t.widths[1:] {
		rest += width + len(terminal.Gap)
	}
	if p.screen.Width > 0 {
		t.widths[0] = min(t.widths[0], max(p.screen.Width-rest, leastName)) // names may be longer than all else
	}
	return t
}

// leastName is what stays of a name however narrow the terminal is.
const leastName = 10

// line is a row in one tone.
func (t table) line(cells []string, s terminal.Screen, tone terminal.Tone) string {
	plain := func(_ int, cell string) string { return cell }
	return s.Paint(s.Fit(terminal.Align(cells, t.widths, t.right, plain)), tone)
}

func (p page) ofQueues() table {
	t := table{
		titles: []string{"QUEUE", "STATE", "WAITING", "OLDEST", "HOSTS NOW", "FULL", "NEVER", "ROOM"},
		right:  []bool{false, false, true, true, true, true, true, true},
		none:   "No queues. berth flavor add makes some.",
	}
	queues := slices.Clone(p.cell.Queues)
	slices.SortStableFunc(queues, func(a, b client.Queue) int {
		byName := cmp.Compare(a.Name, b.Name)
		switch p.orders()[p.order] {
		case "waiting":
			return cmp.Or(cmp.Compare(b.Queued, a.Queued), byName)
		case "age":
			return cmp.Or(older(oldest(a), oldest(b)), byName)
		}
		return byName
	})
	for _, q := range queues {
		now, full, never, room, tone := "-", "-", "-", "-", terminal.Plain
		if h := q.Hosts; h != nil {
			now, full, never = fmt.Sprint(h.Eligible), fmt.Sprint(h.Full), fmt.Sprint(h.NeverFits)
			if q.Queued > 0 && h.Eligible == 0 {
				tone = terminal.Busy
			}
		}
		if q.Capacity != nil {
			room = strconv.FormatInt(q.Capacity.Room, 10)
		}
		if q.Error != "" {
			tone = terminal.Bad
		}
		age := "-"
		if at := oldest(q); !at.IsZero() {
			age = cli.Short(p.now.Sub(at))
		}
		t.rows = append(t.rows, row{
			[]string{string(q.Name), q.State, strconv.Itoa(q.Queued), age, now, full, never, room}, tone,
		})
	}
	return t
}

// older puts what waits longer first, and what does not wait last.
func older(a, b time.Time) int {
	if a.IsZero() != b.IsZero() {
		if a.IsZero() {
			return 1
		}
		return -1
	}
	return a.Compare(b)
}

func (p page) ofHosts() table {
	t := table{
		titles: []string{"HOST", "STATE", "VCPUS FREE", "MEMORY FREE", "INSTANCES", "BUILDING", "HEARD"},
		right:  []bool{false, false, true, true, true, true, true},
		none:   "No hosts. An agent announces its host by itself.",
	}
	if p.cell.Hidden {
		t.none = "Hosts: " + operatorsOnly + "."
	}
	hosts := slices.Clone(p.cell.Hosts)
	slices.SortStableFunc(hosts, func(a, b client.Host) int {
		byName := cmp.Compare(a.Host, b.Host)
		switch p.orders()[p.order] {
		case "state":
			return cmp.Or(-cmp.Compare(urgency(a), urgency(b)), byName)
		case "free vCPU":
			return cmp.Or(cmp.Compare(b.Free[compute.VCPU], a.Free[compute.VCPU]), byName)
		case "instances":
			return cmp.Or(cmp.Compare(sum(b.Instances), sum(a.Instances)), byName)
		}
		return byName
	})
	for _, h := range hosts {
		of := func(class compute.ResourceClass) string {
			return cli.HumanSize(class, h.Free[class]) + "/" + cli.HumanSize(class, h.Totals[class])
		}
		t.rows = append(t.rows, row{[]string{
			string(h.Host), h.State, of(compute.VCPU), of(compute.MemoryMB), strconv.Itoa(sum(h.Instances)),
			strconv.Itoa(int(h.Building)), cli.Short(time.Duration(h.HeardFor)),
		}, hostTone(h)})
	}
	return t
}

// urgency puts hosts first that an operator may have to look at.
func urgency(h client.Host) int {
	return slices.Index([]string{"enabled", "disabled", "draining", "quarantined", "silent"}, h.State)
}

// hostTone stands out where all is not well.
func hostTone(h client.Host) terminal.Tone {
	if tone := cli.ToneOf(h.State); tone != terminal.Good {
		return tone
	}
	return terminal.Plain
}

func sum(of map[string]int) (n int) {
	for _, k := range of {
		n += k
	}
	return n
}
