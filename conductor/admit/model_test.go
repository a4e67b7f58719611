// SPDX-License-Identifier: Apache-2.0

package admit

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/berth-project/berth/pkg/compute"
)

// TestArbitrationIsTheModel says anything at all to a partition: boots, deletes,
// claims and reports of any host, attempt and claim id, right or not, fences old
// and new, time, hosts heard again; and lets the process die before or after it
// has committed. After each of these the records, what each host was told, and the
// usage are those of the model below. TestWorld has hosts that follow the
// protocol; these here follow nothing.
//
// Seen to fail when a report is taken for the holder's by its host alone, or
// whatever its claim id; when a second claim is granted while the first one's
// machine starts; when a repeated claim is denied; when the claim of an older
// attempt is granted; when an old fence loses what was claimed since, or the
// claim of a fenced host is granted; when what is deleting is tried again; and
// when quota is given back twice, or a claim is granted that breaks the rule of a group.
func TestArbitrationIsTheModel(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		m := newArbiter(t)
		for range rapid.IntRange(20, 200).Draw(t, "steps") {
			m.anything()
		}
	})
}

// record is what the model keeps of an instance.
type record struct {
	project  compute.Project
	name     string
	state    compute.State
	attempt  compute.Attempt
	host     compute.HostID
	claim    compute.ClaimID
	fence    compute.FenceEpoch // of the claim
	pinned   compute.HostID
	avoid    compute.HostID
	group    compute.GroupName
	value    compute.AxisValue
	denied   map[hostsClaim]compute.Attempt // in this attempt, while it waited
	failures int
	deadline time.Time
	ended    time.Time
}

// held says whether the report is from the host that has it.
func (r *record) held(by compute.Report) bool {
	return r != nil && r.project == by.Project && r.state.OnHost() && r.host == by.Host &&
		r.attempt == by.Attempt && r.claim == by.Claim
}

// renamed says whether the report is about the very machine that the record means,
// though by another host: nobody destroys that.
func (r *record) renamed(by compute.Report) bool {
	runs := r.state == compute.StateStarting || r.state == compute.StateActive
	return runs && r.attempt == by.Attempt && r.claim == by.Claim && r.host != by.Host
}

// arbiter is the model: records, what each host was last fenced with, and which
// host was ever granted an attempt.
type arbiter struct {
	*rapid.T
	state   *checked
	view    View
	now     time.Time
	records map[compute.InstanceID]*record
	fences  map[compute.HostID]modelFence
	grants  map[string]string
}

const quotaOfAll = 2

func newArbiter(t *rapid.T) *arbiter {
	m := &arbiter{
		T: t, state: fresh(t), view: catalog(), now: epoch,
		records: map[compute.InstanceID]*record{}, fences: map[compute.HostID]modelFence{},
		grants: map[string]string{},
	}
	m.view.Quotas[compute.DefaultQuota] = compute.Quota{Limits: compute.Resources{compute.Instances: quotaOfAll}}
	for _, p := range []compute.Project{"p", "q"} {
		for _, g := range []compute.Group{
			{Project: p, Name: "apart", Policy: compute.AntiAffinity, Most: 1},
			{Project: p, Name: "near", Policy: compute.Affinity},
			{Project: p, Name: "soft", Policy: compute.SoftAffinity},
			{Project: p, Name: "even", Policy: compute.SpreadOnly, Spread: "zone", Skew: 1},
		} {
			m.view.Groups[g.Key()] = g
		}
	}
	m.hear(HostsRead{}, "")
	return m
}

var (
	someID    = rapid.Map(rapid.IntRange(1, 3), func(n int) compute.InstanceID { return long(fmt.Sprint(n)) })
	someHost  = rapid.SampledFrom([]compute.HostID{"h1", "h2", "h3"})
	someClaim = rapid.SampledFrom([]compute.ClaimID{"c1", "c2", "c3"})
	mostlyP   = rapid.SampledFrom([]compute.Project{"p", "p", "p", "p", "q"})
)

func (m *arbiter) anything() {
	switch rapid.IntRange(0, 17).Draw(m.T, "what") {
	case 16:
		m.dies()
	case 17:
		m.rename(
			someID.Draw(m.T, "id"),
			mostlyP.Draw(m.T, "project"),
			rapid.SampledFrom([]string{"", "a", "b"}).Draw(m.T, "name"),
		)
	case 0, 1, 2:
		m.boot(someID.Draw(m.T, "id"), mostlyP.Draw(m.T, "project"))
	case 3:
		m.delete(someID.Draw(m.T, "id"), mostlyP.Draw(m.T, "project"))
	case 4, 5, 6, 7:
		m.claim(m.report(compute.ReportClaim))
	case 8, 9, 10, 11:
		m.says(m.report(rapid.SampledFrom([]compute.ReportOp{
			compute.ReportStarted, compute.ReportFailed, compute.ReportReturned, compute.ReportGone,
			compute.ReportPinned,
		}).Draw(m.T, "says")))
	case 12:
		m.fence(someHost.Draw(m.T, "host"),
			rapid.SampledFrom([]compute.RequestOp{compute.OpFence, compute.OpForget}).Draw(m.T, "op"),
			compute.FenceEpoch(rapid.IntRange(0, 3).Draw(m.T, "epoch")))
	case 13:
		m.pass(rapid.SampledFrom([]time.Duration{
			time.Second, 20 * time.Second, 90 * time.Second, 90 * time.Second, 90 * time.Second, 2 * time.Hour,
			16 * 24 * time.Hour,
		}).Draw(m.T, "time"))
	case 14:
		m.restore()
	case 15:
		by := compute.Voice{Journal: compute.JournalID(someClaim.Draw(m.T, "journal"))}
		m.hear(HostHeard{Host: someHost.Draw(m.T, "host"), Voice: by}, "")
	}
}

// report is of the holder, or nearly, or of anybody.
func (m *arbiter) report(op compute.ReportOp) compute.Report {
	r := compute.Report{
		Op: op, Instance: someID.Draw(m.T, "id"), Project: mostlyP.Draw(m.T, "project"),
		Host: someHost.Draw(m.T, "host"), Claim: someClaim.Draw(m.T, "claim"),
		Attempt: compute.Attempt(rapid.IntRange(1, 4).Draw(m.T, "attempt")),
		Fence:   compute.FenceEpoch(rapid.IntRange(0, 3).Draw(m.T, "fence")),
		Class: rapid.SampledFrom([]compute.FailureClass{
			compute.FailureUnknown, compute.FailureHost, compute.FailureTimeout, compute.FailureUnknownHere,
			compute.FailureRequest,
		}).Draw(m.T, "class"),
	}
	if rec := m.records[r.Instance]; rec != nil && rapid.IntRange(0, 4).Draw(m.T, "stranger") > 0 {
		r.Project, r.Attempt = rec.project, max(1, rec.attempt)
		if rec.state.OnHost() {
			r.Host, r.Claim = rec.host, rec.claim
		}
		switch rapid.IntRange(0, 7).Draw(m.T, "but") { // one thing may be wrong
		case 0:
			r.Attempt++
		case 1:
			r.Host = someHost.Draw(m.T, "another host")
		case 2:
			r.Claim = someClaim.Draw(m.T, "another claim")
		case 3:
			r.Attempt = max(1, r.Attempt-1)
		}
	}
	return r
}

// The model. Each of these says what becomes of the record and what the host
// that spoke must hear.

func (m *arbiter) boot(id compute.InstanceID, p compute.Project) {
	b := &compute.Boot{Flavor: "m1.small"}
	rec := &record{project: p, state: compute.StateQueued, attempt: 1, deadline: m.now.Add(time.Hour)}
	rec.group = rapid.SampledFrom([]compute.GroupName{"", "apart", "near", "soft", "even"}).Draw(m.T, "group")
	b.Rules = compute.InGroup(rec.group)
	if rec.value = rapid.SampledFrom([]compute.AxisValue{"", "", "a", "b"}).Draw(m.T, "zone"); rec.value != "" {
		*b = b.Having("zone", rec.value)
	}
	switch rapid.IntRange(0, 5).Draw(m.T, "wants") {
	case 0:
		b.Host, rec.pinned = "h1", "h1"
	case 1:
		b.Avoid, rec.avoid = []compute.HostID{"h2"}, "h2"
	}
	chosen := rec.group == "even" && rec.value == "" // where, checked looks at
	if m.live(p) >= quotaOfAll || chosen && rec.pinned != "" {
		*rec = record{project: p, state: compute.StateError, ended: m.now}
	}
	isNew := m.records[id] == nil
	if isNew {
		m.records[id] = rec
	}
	m.hear(Requested{Request: compute.Request{Op: compute.OpBoot, Project: p, Instance: id, Boot: b, At: m.now}}, "")
	if inst := m.state.Instance(id); isNew && chosen {
		rec.value = inst.Boot.With["zone"]
	}
}

func (m *arbiter) delete(id compute.InstanceID, p compute.Project) {
	switch rec := m.records[id]; {
	case rec == nil:
		m.records[id] = &record{project: p, state: compute.StateDeleted, ended: m.now}
	case rec.project != p:
	case rec.state == compute.StateQueued, rec.state == compute.StateError:
		rec.state, rec.ended = compute.StateDeleted, m.now
	case rec.state == compute.StateStarting, rec.state == compute.StateActive:
		rec.state = compute.StateDeleting
	}
	m.hear(Requested{Request: compute.Request{Op: compute.OpDelete, Project: p, Instance: id, At: m.now}}, "")
}

// rename changes nothing but the name, and nobody is told.
func (m *arbiter) rename(id compute.InstanceID, p compute.Project, name string) {
	if rec := m.records[id]; rec != nil && rec.project == p && rec.state != compute.StateDeleted {
		rec.name = name
	}
	c := &compute.Change{Name: &name}
	out := m.hear(
		Requested{Request: compute.Request{Op: compute.OpChange, Project: p, Instance: id, Change: c, At: m.now}},
		"",
	)
	if len(out.Effects) > 0 {
		m.Fatalf("a new name led to %v", out.Effects)
	}
}

func (m *arbiter) claim(r compute.Report) {
	rec, answer := m.records[r.Instance], compute.CommandDeny
	switch {
	case rec == nil || rec.project != r.Project:
	case rec.state == compute.StateQueued && rec.attempt == r.Attempt:
		if rec.denied[hostsClaim{r.Host, r.Claim}] == r.Attempt {
			break
		}
		if r.Fence < m.fenced(r.Host) || rec.pinned != "" && rec.pinned != r.Host || rec.avoid == r.Host ||
			!m.groupAllows(rec, r.Host) {
			if rec.denied == nil {
				rec.denied = map[hostsClaim]compute.Attempt{}
			}
			rec.denied[hostsClaim{r.Host, r.Claim}] = r.Attempt
			break
		}
		rec.state, rec.host, rec.claim, rec.fence = compute.StateStarting, r.Host, r.Claim, r.Fence
		answer = compute.CommandGrant
	case rec.held(r) && rec.state != compute.StateDeleting:
		answer = compute.CommandGrant
	}
	m.hear(Reported{Report: r}, told(answer, r))
}

// groupAllows says whether a host may have a record, beside the others of its group.
func (m *arbiter) groupAllows(rec *record, h compute.HostID) bool {
	there, others := 0, 0
	for _, other := range m.records {
		if other == rec || other.project != rec.project || other.group != rec.group || !other.state.OnHost() {
			continue
		}
		if other.value == rec.value {
			there++
		} else if other.state != compute.StateDeleting && other.value != "" {
			others++
		}
		if rec.group == "apart" && other.host == h || rec.group == "near" && other.host != h {
			return false
		}
	}
	return rec.group != "even" || there <= others // the skew is 1, and there are two zones
}

func (m *arbiter) says(r compute.Report) {
	rec, answer := m.records[r.Instance], ""
	over := r.Op == compute.ReportFailed || r.Op == compute.ReportGone || r.Op == compute.ReportReturned
	switch {
	case r.Op == compute.ReportPinned:
		if rec != nil && rec.project == r.Project && rec.state == compute.StateQueued && rec.pinned == r.Host &&
			rec.attempt == r.Attempt {
			rec.state, rec.ended = compute.StateError, m.now
		}
	case !rec.held(r):
		if r.Op == compute.ReportStarted && rec != nil && rec.project == r.Project && !rec.renamed(r) {
			answer = told(compute.CommandDelete, r)
		}
	case over && rec.state == compute.StateDeleting:
		rec.state, rec.ended = compute.StateDeleted, m.now
	case over && rec.state == compute.StateStarting:
		if rec.failures++; rec.failures == 3 || r.Class == compute.FailureRequest {
			rec.state, rec.ended = compute.StateError, m.now
		} else {
			rec.state, rec.attempt = compute.StateQueued, rec.attempt+1
		}
	case over:
		rec.state, rec.ended = compute.StateError, m.now
	case r.Op == compute.ReportStarted && rec.state == compute.StateStarting:
		rec.state = compute.StateActive
	}
	m.hear(Reported{Report: r}, answer)
}

func (m *arbiter) fence(h compute.HostID, op compute.RequestOp, epoch compute.FenceEpoch) {
	m.fences[h] = modelFence{max(m.fences[h].epoch, epoch), m.now}
	for _, rec := range m.records {
		there := rec.state.OnHost() && rec.host == h && (epoch == 0 || rec.fence < epoch)
		forget := op == compute.OpForget
		switch {
		case rec.state == compute.StateQueued && rec.pinned == h && forget:
			rec.state, rec.ended = compute.StateError, m.now
		case !there:
		case rec.state == compute.StateDeleting:
			rec.state, rec.ended = compute.StateDeleted, m.now
		case rec.state == compute.StateActive && rec.pinned != "", forget && rec.pinned != "", forget &&
			rec.state == compute.StateActive:
			rec.state, rec.ended = compute.StateError, m.now
		default:
			if rec.state == compute.StateActive {
				rec.failures = 0
			}
			rec.state, rec.attempt, rec.deadline = compute.StateQueued, rec.attempt+1, m.now.Add(time.Hour)
		}
	}
	m.hear(Requested{Request: compute.Request{Op: op, Host: h, Fence: epoch, At: m.now}}, "")
}

// modelFence is the highest epoch of a host and when it was last fenced; after a week that counts no more.
type modelFence struct {
	epoch compute.FenceEpoch
	at    time.Time
}

func (m *arbiter) fenced(h compute.HostID) compute.FenceEpoch {
	if f := m.fences[h]; m.now.Before(f.at.Add(7 * 24 * time.Hour)) {
		return f.epoch
	}
	return 0
}

func (m *arbiter) pass(d time.Duration) {
	m.now = m.now.Add(d)
	for id, rec := range m.records {
		switch {
		case rec.state == compute.StateQueued && !rec.deadline.After(m.now):
			rec.state, rec.ended = compute.StateError, m.now
		case rec.state.Ended() && !rec.ended.Add(15*24*time.Hour).After(m.now):
			delete(m.records, id)
		}
	}
	m.hear(Tick{Until: m.now}, "")
}

// restore is another process that reads the log. What hosts were fenced with it
// does not know.
func (m *arbiter) restore() {
	m.state = loaded(m.T, m.state.log, m.view, m.now)
	clear(m.fences)
	for _, rec := range m.records {
		rec.denied = nil
	}
	m.state.Step(HostsRead{}, m.view, m.now)
	m.same()
}

func (m *arbiter) live(p compute.Project) (n int64) {
	for _, rec := range m.records {
		if rec.project == p && slices.Contains(
			[]compute.State{compute.StateQueued, compute.StateStarting, compute.StateActive, compute.StateDeleting},
			rec.state,
		) {
			n++
		}
	}
	return n
}

// dies is a process that has decided something and ends before it is committed.
func (m *arbiter) dies() {
	r := m.report(rapid.SampledFrom([]compute.ReportOp{
		compute.ReportClaim, compute.ReportStarted, compute.ReportFailed, compute.ReportGone,
	}).Draw(m.T, "lost"))
	m.state.Step(Reported{Report: r}, m.view, m.now)
	m.restore()
}

// told is the command that answers a report.
func told(op compute.CommandOp, r compute.Report) string {
	return fmt.Sprintf("%s %s attempt %d %s to %s", op, short(r.Instance), r.Attempt, r.Claim, r.Host)
}

// hear lets the partition hear it, and compares.
func (m *arbiter) hear(in Input, answer string) Output {
	out := m.state.step(in, m.view, m.now)
	for _, gone := range out.Removed {
		m.state.log = slices.DeleteFunc(slices.Clone(m.state.log), func(i *compute.Instance) bool {
			return i.ID == gone.ID
		})
	}
	heard := answer == ""
	for _, effect := range out.Effects {
		if tell, ok := effect.(Tell); ok {
			c := tell.Command
			word := told(c.Op, compute.Report{
				Host: tell.Host, Instance: c.Instance, Attempt: c.Attempt, Claim: c.Claim,
			})
			m.allowed(tell, word == answer)
			heard = heard || word == answer
		}
	}
	if !heard {
		m.Fatalf("it was not told: %s; but %v", answer, out.Effects)
	}
	m.same()
	return out
}

// allowed judges a word by the record it is about, as it is now.
func (m *arbiter) allowed(tell Tell, asked bool) {
	c := tell.Command
	rec := m.records[c.Instance]
	holder := rec.held(compute.Report{Project: c.Project, Host: tell.Host, Attempt: c.Attempt, Claim: c.Claim})
	switch c.Op {
	case compute.CommandGrant:
		life, who := fmt.Sprintf("%p attempt %d", rec, c.Attempt), fmt.Sprint(tell.Host, " by ", c.Claim)
		// A host that was silent is told again, also if what it says first ends the attempt.
		if was := m.grants[life]; was != who && (was != "" || !holder || rec.state == compute.StateDeleting) {
			m.Fatalf("granted to %s attempt %d, but it is %+v; granted before to %q", who, c.Attempt, rec, was)
		}
		m.grants[life] = who
	case compute.CommandDeny:
		if !asked || holder && rec.state != compute.StateDeleting {
			m.Fatalf("%s is denied attempt %d by %s, but it is %+v", tell.Host, c.Attempt, c.Claim, rec)
		}
	case compute.CommandDelete:
		renamed := rec != nil && rec.renamed(compute.Report{Host: tell.Host, Attempt: c.Attempt, Claim: c.Claim})
		if holder && rec.state != compute.StateDeleting || renamed {
			m.Fatalf("%s is to destroy attempt %d by %s, but it is %+v", tell.Host, c.Attempt, c.Claim, rec)
		}
	}
}

// same compares records and usage.
func (m *arbiter) same() {
	for n := range 3 {
		id := long(fmt.Sprint(n + 1))
		inst, rec := m.state.Instance(id), m.records[id]
		if got, want := shown(inst), rec.shown(); got != want {
			m.Fatalf("%s is %s; the model says %s", short(id), got, want)
		}
	}
	for _, p := range []compute.Project{"p", "q"} {
		if used := m.state.Used(p); used[compute.Instances] != m.live(p) || used[compute.VCPU] != m.live(p) {
			m.Fatalf("%s uses %v; the model says %d", p, used, m.live(p))
		}
	}
}

func (r *record) shown() string {
	switch {
	case r == nil:
		return "nothing"
	case r.state.OnHost():
		return fmt.Sprintf(
			"%s of %s attempt %d on %s by %s called %q",
			r.state,
			r.project,
			r.attempt,
			r.host,
			r.claim,
			r.name,
		)
	}
	return fmt.Sprintf("%s of %s attempt %d called %q", r.state, r.project, r.attempt, r.name)
}

func shown(i *compute.Instance) string {
	if i == nil {
		return "nothing"
	}
	return (&record{project: i.Project, name: i.Boot.Name, state: i.State, attempt: i.Attempt, host: i.Host,
		claim: i.Claim}).shown()
}
