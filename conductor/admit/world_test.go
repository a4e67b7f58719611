// SPDX-License-Identifier: Apache-2.0

package admit

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/berth-project/berth/pkg/compute"
)

// TestWorld lets random things happen to a small world of users, hosts and
// owners of the partition: messages are late, said twice or lost with the
// process that should have said them, hosts die, forget everything, give back.
// Hosts are dumb and follow the protocol. Checked from outside, after each step:
//
//	I2  no two hosts run one instance, and an attempt is granted to one claim only
//	I3  usage is the sum of the live records (in checked, with the versions, the
//	    diagram, the timers and that effects follow from records)
//	I7  the running members of a group keep its rule
//	I8  none of a set runs before each was claimed, and none is left running of which another ended and never ran
//
// and once everybody has been heard:
//
//	I1  every boot has ended in active, error or deleted, or no host may have it by the rule of its group
func TestWorld(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		w := newWorld(t)
		for range rapid.IntRange(5, 120).Draw(t, "steps") {
			w.happen()
		}
		w.settle()
	})
}

// machine is one claim at one host.
type machine struct {
	build compute.Build
	claim compute.ClaimID
	state string // claimed, running, ended; denied: undone and forgotten, so the attempt may come again
}

// agent is a dumb host: it has claims, reads its stream and writes reports, both
// in order.
type agent struct {
	id       compute.HostID
	machines []*machine
	journal  int
	fence    compute.FenceEpoch // of the last "fenced" it has acted on
	said     compute.FenceEpoch // how many records its stream ever had
	in       []compute.Command
	out      []compute.Report
}

type world struct {
	t       *rapid.T
	state   *checked
	view    View
	now     time.Time
	queue   []compute.Build // everything ever published: a queue may deliver anything again
	landed  int64           // how many were published
	sent    []Published     // where they landed, not yet heard
	agents  []*agent
	claims  int
	settled bool              // nobody dies any more
	words   []compute.Request // the operator's word, in the hosts' streams already and not here yet
	starts  bool              // somebody wants to know where the queue starts
	grants  map[string]string // instance and attempt → the host that was granted it
	asked   map[compute.InstanceID]bool
	sets    [][]compute.InstanceID      // that were asked for, and not refused as a whole
	claimed map[compute.InstanceID]bool // some host has claimed it
	ran     map[compute.InstanceID]bool // some host has run it
	deleted map[compute.InstanceID]bool // a user has asked for that
}

func newWorld(t *rapid.T) *world {
	w := &world{
		t: t, view: catalog(), now: epoch, state: fresh(t),
		grants: map[string]string{}, asked: map[compute.InstanceID]bool{}, claimed: map[compute.InstanceID]bool{},
		ran: map[compute.InstanceID]bool{}, deleted: map[compute.InstanceID]bool{},
	}
	if rapid.Bool().Draw(t, "few") {
		w.state.opts.ShareLeast, w.state.opts.GroupWindow = 1, 1
	}
	w.view.Quotas[compute.DefaultQuota] = compute.Quota{Limits: compute.Resources{compute.Instances: 4}}
	for i := range 3 {
		w.agents = append(w.agents, &agent{id: compute.HostID(fmt.Sprintf("h%d", i))})
	}
	for _, g := range []compute.Group{
		{Project: "p", Name: "apart", Policy: compute.AntiAffinity, Most: 1},
		{Project: "p", Name: "near", Policy: compute.Affinity},
		{Project: "p", Name: "rather", Policy: compute.SoftAffinity},
		{Project: "p", Name: "even", Policy: compute.SpreadOnly, Spread: "zone", Skew: 1},
		{Project: "p", Name: "both", Policy: compute.AntiAffinity, Most: 1, Spread: "zone", Skew: 1},
	} {
		w.view.Groups[g.Key()] = g
	}
	if w.view.ReadWhole = rapid.Bool().Draw(t, "sets are offered whole"); w.view.ReadWhole {
		w.view.Queues["m1.large"], _ = w.view.Resolve(compute.Boot{Flavor: "m1.large"})
	}
	for _, q := range slices.Collect(maps.Values(w.view.Queues)) {
		for _, p := range compute.Priorities() {
			tier := q.Tier(p)
			w.view.Queues[tier.Name] = tier
		}
	}
	w.hear(HostsRead{})
	return w
}

func (w *world) happen() {
	a := rapid.SampledFrom(w.agents).Draw(w.t, "agent")
	id := long(fmt.Sprint(rapid.IntRange(1, 7).Draw(w.t, "instance")))
	switch rapid.IntRange(0, 20).Draw(w.t, "what") {
	case 19, 20:
		w.preempt(a)
	case 18:
		w.reserve()
	case 17:
		w.bootSet()
	case 0, 1:
		w.boot(id)
	case 2:
		w.deleted[id] = true
		w.hear(Requested{Request: compute.Request{Op: compute.OpDelete, Project: "p", Instance: id, At: w.now}})
	case 3:
		w.hear(Requested{Request: compute.Request{Op: compute.OpStop, Project: "p", Instance: id, At: w.now}})
	case 4, 5:
		w.take(a)
	case 6, 7:
		w.deliverReport(a)
	case 8, 9:
		w.deliverCommand(a)
	case 10:
		w.pass(rapid.SampledFrom([]time.Duration{time.Second, 20 * time.Second, 90 * time.Second}).Draw(w.t, "pass"))
	case 11:
		w.trouble(a)
	case 12:
		w.takeover(int64(rapid.IntRange(0, len(w.state.log)).Draw(w.t, "cursor")))
	case 13:
		w.hear(HostHeard{Host: a.id, Voice: a.voice()})
	case 14:
		w.feedback(rapid.IntRange(0, 4).Draw(w.t, "undelivered") == 0)
	case 16:
		w.deliverWord()
	case 15:
		w.queueStarts(rapid.Int64Range(0, w.landed).Draw(w.t, "start"))
	}
}

// queueStarts says it of all queues: offsets are of all that was ever published.
func (w *world) queueStarts(at int64) {
	for _, q := range slices.Sorted(maps.Keys(w.view.Queues)) {
		w.hear(QueueStart{Queue: q, Start: at})
	}
}

// feedback says where the oldest publication landed.
func (w *world) feedback(undelivered bool) {
	if len(w.sent) == 0 {
		return
	}
	in := w.sent[0]
	if w.sent = w.sent[1:]; undelivered {
		in.Outcome = Undelivered
	}
	w.hear(in)
}

func (w *world) boot(id compute.InstanceID) {
	w.asked[id] = true
	b := &compute.Boot{Flavor: "m1.small", Deadline: 24 * time.Hour}
	b.Rules = compute.RulesOf(
		rapid.SampledFrom([]compute.GroupName{"", "apart", "near", "rather", "even", "both"}).Draw(w.t, "group"),
		compute.Set{}, rapid.SampledFrom(compute.Priorities()).Draw(w.t, "class"),
	)
	if b.Priority() == compute.PriorityLow {
		b.Preempt(compute.Preemptible{
			Then:  rapid.SampledFrom([]compute.Afterwards{compute.ThenDelete, compute.ThenRequeue}).Draw(w.t, "then"),
			Grace: rapid.SampledFrom([]time.Duration{0, 30 * time.Second}).Draw(w.t, "grace"),
		})
	}
	if value := rapid.SampledFrom([]compute.AxisValue{"", "", "a", "b"}).Draw(w.t, "zone"); value != "" {
		*b = b.Having("zone", value)
	}
	if rapid.IntRange(0, 4).Draw(w.t, "pinned") == 0 {
		b.Host = w.agents[0].id
	}
	if rapid.IntRange(0, 2).Draw(w.t, "takes a placeholder") == 0 {
		b = &compute.Boot{Flavor: "m1.small", Deadline: 24 * time.Hour}
		b.Reserving("r")
	}
	w.hear(Requested{Request: compute.Request{Op: compute.OpBoot, Project: "p", Instance: id, Boot: b, At: w.now}})
}

// preempt has an agent take something and hear and say all that there is, so that something runs more often, and ask
// for the place of what it runs, preemptible or not.
func (w *world) preempt(a *agent) {
	w.take(a)
	for range 6 {
		w.deliverReport(a)
		w.deliverCommand(a)
	}
	queues := rapid.SampledFrom([]compute.QueueName{"m1.small", "m1.small", "m1.small.priority-low"})
	for _, m := range a.machines {
		if m.state == "running" {
			a.say(m, compute.ReportPreempt)
			a.out[len(a.out)-1].Queue = queues.Draw(w.t, "for")
		}
	}
}

// bootSet asks for two or three at once, of ids that nobody has asked for: what becomes of others is told by stories.
func (w *world) bootSet() {
	r := compute.Request{Op: compute.OpBootSet, Project: "p", At: w.now}
	rules := compute.InGroup(rapid.SampledFrom([]compute.GroupName{"", "apart", "near",
		"rather"}).Draw(w.t, "group of a set"))
	size := rapid.IntRange(2, 3).Draw(w.t, "size")
	var ids []compute.InstanceID
	for n := 1; n <= 5 && len(ids) < size; n++ {
		if id := long(fmt.Sprint(n)); !w.asked[id] && !w.deleted[id] {
			ids = append(ids, id)
			r.Set = append(r.Set, compute.SetBoot{
				Instance: id, Boot: compute.Boot{Flavor: "m1.small", Deadline: 20 * time.Minute, Rules: rules},
			})
		}
	}
	if len(ids) < 2 {
		return
	}
	for _, id := range ids {
		w.asked[id] = true
	}
	w.sets = append(w.sets, ids)
	r.Instance = ids[0]
	w.hear(Requested{Request: r})
}

// reserve asks for two placeholders, of ids that may be known already.
func (w *world) reserve() {
	v := &compute.Reserve{Name: "r", Boot: compute.Boot{Flavor: "m1.small"},
		Instances: []compute.InstanceID{long("6"), long("7")}}
	v.From = w.now.Add(time.Duration(rapid.IntRange(0, 1).Draw(w.t, "from")) * 12 * time.Minute)
	v.Until = v.From.Add(rapid.SampledFrom([]time.Duration{2 * time.Minute, 24 * time.Hour}).Draw(w.t, "for"))
	v.Boot.Rules = compute.RulesOf("", compute.Set{}, rapid.SampledFrom(compute.Priorities()).Draw(w.t, "class"))
	for _, id := range v.Instances {
		w.asked[id] = true
	}
	w.hear(Requested{Request: compute.Request{
		Op: compute.OpReserve, Project: "p", Instance: v.Instances[0], Reserve: v, At: w.now,
	}})
}

// takes has an agent claim what was offered to it alone, unless it has not the room for which it is.
func (w *world) takes(a *agent, b compute.Build) {
	holds := slices.ContainsFunc(a.machines, func(m *machine) bool {
		return m.build.Instance == b.In.ID && m.build.Attempt == b.In.Attempt && m.state == "running"
	})
	if b.In.ID == "" || holds && (w.settled || rapid.IntRange(0, 5).Draw(w.t, "refused") > 0) {
		w.claim(a, b)
		return
	}
	a.say(&machine{build: b}, compute.ReportPinned)
}

// verifySets is I8, judged by what was asked and what hosts have done.
func (w *world) verifySets() {
	for _, set := range w.sets {
		for _, id := range set {
			for _, other := range set {
				if w.ran[id] && !w.claimed[other] {
					w.t.Fatalf("%s has run, and nobody has claimed %s of its set", short(id), short(other))
				}
			}
		}
	}
}

// hear commits what was decided and then, unless the process dies right there,
// says what follows.
func (w *world) hear(in Input) {
	before := len(w.state.log)
	out := w.state.step(in, w.view, w.now)
	if !w.settled && len(out.Effects) > 0 && rapid.IntRange(0, 19).Draw(w.t, "dies") == 0 {
		w.takeover(int64(before))
	} else {
		w.carry(out)
	}
	w.verify()
}

func (w *world) takeover(cursor int64) {
	written := w.state.log
	w.sent = nil
	opts := w.state.opts
	if rapid.Bool().Draw(w.t, "queues were listed lately") {
		since := rapid.SampledFrom([]time.Duration{0, heardListed / 2, heardListed}).Draw(w.t, "since")
		for q := range w.view.Queues {
			w.view.Listed[q] = w.now.Add(-since)
		}
	}
	view := w.view
	if view.CatalogBehind = rapid.Bool().Draw(w.t, "the catalog is behind"); view.CatalogBehind {
		view.Groups = nil
	}
	w.state = loaded(w.t, written, view, w.now)
	w.state.opts = opts
	w.carry(w.state.allLoaded(view, w.now))
	groups := slices.SortedFunc(maps.Keys(w.view.Groups), func(a, b compute.GroupKey) int {
		return cmp.Compare(a.Name, b.Name)
	})
	w.carry(w.state.step(GroupsChanged{Groups: groups}, w.view, w.now))
	w.carry(w.state.step(HostsRead{}, w.view, w.now)) // groups may publish what they hold, and rooms be given
	for i, inst := range written {
		if int64(i) >= cursor && w.state.Instance(inst.ID) == inst {
			w.carry(w.state.Resend(inst.ID, w.view, w.now))
		}
	}
	w.verifyGuesses()
}

func (w *world) carry(out Output) {
	for _, effect := range out.Effects {
		switch effect := effect.(type) {
		case Publish:
			b := effect.Build
			w.queue = append(w.queue, b)
			w.sent = append(w.sent, Published{Instance: b.Instance, Attempt: b.Attempt, At: b.At, Offset: w.landed})
			w.landed++
		case AskStart:
			w.starts = true
		case Tell:
			w.granted(effect)
			for _, a := range w.agents {
				if a.id == effect.Host {
					a.in = append(a.in, effect.Command)
					a.said++
				}
			}
		}
	}
}

func (w *world) granted(e Tell) {
	if c := e.Command; c.Op == compute.CommandGrant {
		key, who := fmt.Sprintf("%s attempt %d", c.Instance, c.Attempt), fmt.Sprintf("%s by %s", e.Host, c.Claim)
		if was := w.grants[key]; was != "" && was != who {
			w.t.Fatalf("%s is granted to %s and to %s", key, was, who)
		}
		w.grants[key] = who
	}
}

// verify is I2 and I7, seen from outside.
func (w *world) verify() {
	where := map[compute.InstanceID]compute.HostID{}
	for _, a := range w.agents {
		for _, m := range a.machines {
			if m.state != "running" {
				continue
			}
			if other := where[m.build.Instance]; other != "" {
				w.t.Fatalf("%s runs on %s and on %s", m.build.Instance, other, a.id)
			}
			where[m.build.Instance] = a.id
		}
	}
	for id := range where {
		w.ran[id] = true
	}
	w.verifyRules(where)
	w.verifySets()
}

// verifyRules judges by what was asked.
func (w *world) verifyRules(where map[compute.InstanceID]compute.HostID) {
	hosts := map[compute.HostID]bool{}
	for id, host := range where {
		switch group := w.group(id); group {
		case "apart", "both":
			for other, there := range where {
				if other != id && there == host && w.group(other) == group {
					w.t.Fatalf("%s and %s of group %s run on %s", short(id), short(other), group, host)
				}
			}
		case "near":
			hosts[host] = true
		}
	}
	if len(hosts) > 1 {
		w.t.Fatalf("members of group near run on %v", hosts)
	}
}

func (w *world) group(id compute.InstanceID) compute.GroupName {
	if inst := w.state.Instance(id); inst != nil {
		return inst.Boot.Group()
	}
	return ""
}

// ruled says whether no host may have what waits, by the rule of its group.
func (w *world) ruled(inst *compute.Instance) bool {
	if inst.State != compute.StateQueued {
		return false
	}
	if rule := w.view.Groups[compute.GroupKey{Project: "p", Name: inst.Boot.Group()}]; rule.Skew > 0 {
		if there, others := w.state.spread(inst, rule, true); there+1 > rule.Skew+others {
			return true
		}
	}
	for _, a := range w.agents {
		if inst.Boot.Host != "" && inst.Boot.Host != a.id {
			continue
		}
		broken := false
		for _, other := range w.state.instances {
			if other.inst.ID == inst.ID || other.inst.Boot.Group() != inst.Boot.Group() || !other.inst.State.OnHost() {
				continue
			}
			same := other.inst.Host == a.id
			broken = broken || same && w.view.Groups[compute.GroupKey{Project: "p", Name: inst.Boot.Group()}].Most == 1 ||
				!same && inst.Boot.Group() == "near"
		}
		if !broken {
			return false
		}
	}
	return true
}

func (w *world) pass(d time.Duration) {
	w.now = w.now.Add(d)
	w.hear(Tick{Until: w.now})
}

// take delivers any record of the queue, old ones too.
func (w *world) take(a *agent) {
	if len(w.queue) == 0 {
		return
	}
	w.claim(a, w.queue[rapid.IntRange(0, len(w.queue)-1).Draw(w.t, "record")])
}

// claim has an agent claim a build, each part of one that is of a set; if it dies over that, only some of them.
func (w *world) claim(a *agent, b compute.Build) {
	for _, part := range b.Each() {
		if len(b.Parts) == 0 || w.settled || rapid.IntRange(0, 5).Draw(w.t, "part is lost") > 0 {
			w.claimOne(a, part)
		}
	}
}

func (w *world) claimOne(a *agent, b compute.Build) {
	if w.now.After(b.Deadline) || slices.ContainsFunc(a.machines, func(m *machine) bool {
		return m.build.Instance == b.Instance && m.state != "denied" && (m.state != "ended" || m.build.Attempt >= b.Attempt)
	}) {
		return
	}
	w.claims++
	w.claimed[b.Instance] = true
	m := &machine{build: b, claim: compute.ClaimID(fmt.Sprintf("c%d", w.claims)), state: "claimed"}
	a.machines = append(a.machines, m)
	a.say(m, compute.ReportClaim)
}

func (a *agent) voice() compute.Voice { return compute.Voice{Journal: a.name()} }

func (a *agent) name() compute.JournalID {
	return compute.JournalID(fmt.Sprintf("%s-%d", a.id, a.journal))
}

func (a *agent) say(m *machine, op compute.ReportOp) {
	a.out = append(a.out, compute.Report{
		Op: op, Host: a.id, Project: "p", Instance: m.build.Instance, Attempt: m.build.Attempt, Claim: m.claim,
		Fence:   a.fence,
		Journal: a.name(),
	})
}

// deliverWord lets the partition hear what the operator said, long ago perhaps.
func (w *world) deliverWord() {
	if len(w.words) == 0 {
		return
	}
	r := w.words[0]
	w.words = w.words[1:]
	w.hear(Requested{Request: r})
	if rapid.IntRange(0, 3).Draw(w.t, "word comes again") == 0 {
		w.words = append(w.words, r)
	}
}

func (w *world) deliverReport(a *agent) {
	if len(a.out) == 0 {
		return
	}
	r := a.out[0]
	a.out = a.out[1:]
	w.hear(Reported{Report: r})
}

func (w *world) deliverCommand(a *agent) {
	if len(a.in) == 0 {
		return
	}
	c := a.in[0]
	a.in = a.in[1:]
	i := slices.IndexFunc(a.machines, func(m *machine) bool {
		return m.build.Instance == c.Instance && m.build.Attempt == c.Attempt && m.claim == c.Claim
	})
	switch {
	case c.Op == compute.CommandBuild:
		w.takes(a, *c.Build)
	case i >= 0:
		w.obey(a, a.machines[i], c)
	case c.Op == compute.CommandDelete:
		a.unknown(c, compute.ReportGone)
	case c.Op == compute.CommandGrant || c.Op == compute.CommandConfirm:
		a.unknown(c, compute.ReportFailed)
	}
	w.verify()
}

func (a *agent) unknown(c compute.Command, op compute.ReportOp) {
	a.out = append(a.out, compute.Report{
		Op: op, Host: a.id, Project: "p", Instance: c.Instance, Attempt: c.Attempt, Claim: c.Claim,
		Class:   compute.FailureUnknownHere,
		Journal: a.name(),
	})
}

// obey does what an agent's journal, driver and the protocol make of a command.
func (w *world) obey(a *agent, m *machine, c compute.Command) {
	switch {
	case c.Op == compute.CommandDelete:
		m.state = "ended"
		a.say(m, compute.ReportGone)
	case c.Op == compute.CommandDeny && (m.state == "claimed" || m.state == "ended"): // given back meanwhile
		m.state = "denied"
	case c.Op == compute.CommandGrant && m.state == "claimed":
		m.state = "running"
		if rapid.IntRange(0, 3).Draw(w.t, "launch fails") == 0 {
			m.state = "ended"
			a.say(m, compute.ReportFailed)
			return
		}
		a.say(m, compute.ReportStarted)
	case m.state == "running" && (c.Op == compute.CommandGrant || c.Op == compute.CommandConfirm):
		a.say(m, compute.ReportStarted)
	case (m.state == "ended" || m.state == "denied") && (c.Op == compute.CommandGrant || c.Op == compute.CommandConfirm):
		a.say(m, compute.ReportFailed)
	case m.state == "running" && c.Op == compute.CommandPower:
		a.say(m, compute.ReportChanged)
		a.out[len(a.out)-1].Version, a.out[len(a.out)-1].Power = c.Power.Version, compute.PowerStopped
	}
}

// trouble is what happens to hosts.
func (w *world) trouble(a *agent) {
	switch rapid.IntRange(0, 4).Draw(w.t, "trouble") {
	case 0: // unanswered for too long: given back, so the attempt may come again
		for _, m := range a.machines {
			if m.state == "claimed" {
				m.state = "denied"
				a.say(m, compute.ReportReturned)
			}
		}
	case 1: // its disk is new: machines and journal are gone
		a.machines, a.in, a.fence = nil, nil, a.said
		a.journal++
		a.out = append(a.out, compute.Report{Op: compute.ReportHello, Host: a.id, Journal: a.name()})
	case 2, 3:
		// Dead for certain, by the operator's word; it comes back, reads that, and is empty before the
		// partition hears of it.
		a.machines = nil
		a.said++
		a.fence = a.said
		op := rapid.SampledFrom([]compute.RequestOp{compute.OpFence, compute.OpForget}).Draw(w.t, "op")
		w.words = append(w.words, compute.Request{Op: op, Host: a.id, Fence: a.fence, At: w.now})
	case 4:
		a.repeat()
	}
}

// repeat says every unanswered claim again.
func (a *agent) repeat() {
	for _, m := range a.machines {
		if m.state == "claimed" {
			a.say(m, compute.ReportClaim)
		}
	}
}

// settle lets everybody be heard, with hosts that take all they are offered,
// until nothing is open any more: I1. All that is in the queue is lost first.
func (w *world) settle() {
	w.queue, w.settled = nil, true
	for range 200 {
		for len(w.sent) > 0 {
			w.feedback(false)
		}
		if w.starts {
			w.starts = false
			w.queueStarts(w.landed - int64(len(w.queue)))
		}
		for len(w.words) > 0 {
			w.hear(Requested{Request: w.words[0]})
			w.words = w.words[1:]
		}
		for range 20 {
			for _, a := range w.agents {
				w.deliverCommand(a)
				w.deliverReport(a)
			}
		}
		for _, b := range w.queue { // what is claimed is accepted, and leaves the queue
			for _, a := range w.agents {
				if b.Group == nil || !slices.Contains(b.Group.Full, a.id) {
					w.claim(a, b)
				}
			}
		}
		w.queue = nil
		if w.quiet() {
			return
		}
		for _, a := range w.agents {
			w.hear(HostHeard{Host: a.id, Voice: a.voice()})
			a.repeat()
		}
		w.pass(20 * time.Second)
	}
	for id := range w.asked {
		w.t.Logf("%s group %q pub %+v", describe(w.state.Instance(id)), w.group(id), w.state.instances[id].pub)
	}
	for _, a := range w.agents {
		for _, m := range a.machines {
			w.t.Logf("%s has %s attempt %d %s %s", a.id, short(m.build.Instance), m.build.Attempt, m.claim, m.state)
		}
	}
	w.t.Fatalf("something is never decided")
}

// asksAgain says whether the partition has heard that a host has an instance no more, too early after a takeover to
// believe it.
func (w *world) asksAgain(id compute.InstanceID) bool {
	e := w.state.instances[id]
	h := w.state.hosts[hostOf(e.inst)]
	return h != nil && !h.askAgainAt[e].IsZero()
}

func (w *world) quiet() bool {
	for _, a := range w.agents {
		if len(a.in)+len(a.out) > 0 {
			return false
		}
	}
	for _, id := range slices.Sorted(maps.Keys(w.asked)) {
		inst := w.state.Instance(id)
		if inst == nil {
			w.t.Fatalf("%s is forgotten", id)
		}
		open := inst.Command != nil || inst.Confirm || inst.Notice() != nil
		if open || inst.State != compute.StateActive && !inst.State.Ended() && !w.ruled(inst) &&
			!inst.Boot.Placeholder().Kept { // it waits for the end of its taker
			return false
		}
		if inst.State == compute.StateActive && !w.runs(inst) {
			if w.asksAgain(id) {
				return false
			}
			w.t.Fatalf("%s is active on %s and does not run there", id, inst.Host)
		}
	}
	w.verifyWhole()
	return true
}

// verifyWhole is the other half of I8, once nothing is open.
func (w *world) verifyWhole() {
	for _, set := range w.sets {
		for _, id := range set {
			for _, other := range set {
				over := w.state.Instance(other).State.Ended() && !w.ran[other] && !w.deleted[other]
				if over && w.state.Instance(id).State == compute.StateActive {
					w.t.Fatalf("%s of a set is active, and %s has ended and never run", short(id), short(other))
				}
			}
		}
	}
}

func (w *world) runs(inst *compute.Instance) bool {
	for _, a := range w.agents {
		for _, m := range a.machines {
			if a.id == inst.Host && m.build.Instance == inst.ID && m.claim == inst.Claim && m.state == "running" {
				return true
			}
		}
	}
	return false
}
