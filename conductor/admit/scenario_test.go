// SPDX-License-Identifier: Apache-2.0

package admit

import (
	"cmp"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/cockroachdb/datadriven"

	"github.com/berth-project/berth/pkg/compute"
)

// TestScenarios runs the stories in testdata: commands in, decisions out. A
// changed decision is rewritten with -rewrite and read as a diff.
//
// A line of a story is one command; what it led to is indented below it.
//
//	boot ID [project=p] [flavor=m1.small] [gpu=a100] [zone=a] [attempts=3] [deadline=1h] [host=H] [avoid=H] [group=G] [priority=high] [fail] [at=+5s]
//		[preemptible=delete|requeue [grace=30s]]
//	boot ID reservation=R         it takes a placeholder of it
//	reserve NAME ID... [as boot] for=2h [from=+1h]   hosts hold room for as many
//	boot-set ID ID... [as boot]   boots that start all or not at all; priority=low,high, group=, zone=: of the first and the rest
//	delete|stop|start|reboot ID [project=p] [command=C] [hard]
//	change ID [project=p] [name=N] [set=KEY:VALUE|KEY:BYTES] [remove=KEY]
//	claim|started|failed|returned|gone|changed|refused ID host=H
//		[attempt=1] [claim=c1] [fence=7] [class=host] [power=stopped] [version=2] [command=C]
//		of claim: [room=2] machines taken away for it;  preempt ID host=H queue=Q: its place is wanted
//	hello host=H journal=J        beacon host=H journal=J       hosts-read
//	fence|forget host=H [fence=7]
//	sent ID offset=7|gone|failed  where its last publication landed
//	landed HOST 8                 where in the host's stream the last such command landed
//	starts QUEUE 8                the queue's share start offset
//	list|close|drop QUEUE         it is listed, closed, not listed any more; list QUEUE topic=T: as another topic
//	unmade QUEUE                  it is listed with why it could not be made yet
//	group NAME [project=p] policy=affinity [most=1] [over=gpu] [spread=zone] [skew=1], ungroup NAME [project=p]
//	anew                          all begins anew
//	read-whole                    all begins anew, where all read sets that are offered whole, and m1.large is listed
//	values zone a b c             the catalog has these values on an axis
//	quota PROJECT VCPU=2 [high:VCPU=1]
//	advice QUEUE eligible=0 full=3 never=0 depth=2
//	+30s                          time passes and timers fire as they come due
//	asleep 30s                    time passes and nobody looks
//	late 30s                      time passes and timers fire once, at the end of it
//	takeover [cursor=2]           another conductor loads what was written; records from the cursor on are sent again
//	show ID, usage PROJECT, due
func TestScenarios(t *testing.T) {
	paths, err := filepath.Glob("testdata/*.txt")
	if err != nil || len(paths) < 13 {
		t.Fatalf("%d stories: %v", len(paths), err)
	}
	for _, path := range paths {
		t.Run(filepath.Base(path), func(t *testing.T) {
			s := newStory(t)
			datadriven.RunTest(t, path, func(t *testing.T, d *datadriven.TestData) string { return s.tell(t, d.Input) })
		})
	}
}

// tell runs a story and writes below each line what it led to.
func (s *story) tell(t *testing.T, lines string) string {
	s.state.t = t
	var out strings.Builder
	for line := range strings.Lines(lines) {
		line = strings.TrimSpace(line)
		fmt.Fprintln(&out, line)
		for _, said := range s.do(t, line) {
			fmt.Fprintln(&out, "    "+said)
		}
	}
	return out.String()
}

type story struct {
	state  *checked
	view   View
	now    time.Time
	builds map[compute.InstanceID]compute.Build // the last publication of each
	told   map[compute.InstanceID]bool          // that was an offer to one host
}

var epoch = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)

func newStory(t *testing.T) *story {
	s := &story{view: catalog(), now: epoch, builds: map[compute.InstanceID]compute.Build{}, told: map[compute.InstanceID]bool{}}
	s.state = fresh(t)
	s.state.step(HostsRead{}, s.view, s.now)
	return s
}

func fresh(t interface {
	Helper()
	Fatalf(string, ...any)
}) *checked {
	return &checked{State: New(Defaults()), t: t, last: map[compute.InstanceID]*compute.Instance{}}
}

// catalog is a view with two flavors and two axes: m1.small, m1.small.gpu-a100, m1.small.zone-a and m1.small.zone-b are
// listed, m1.large is not yet.
func catalog() View {
	v := NewView()
	v.ReadReserved = true
	v.Capabilities["gpu"] = compute.Capability{Axis: "gpu", Values: []compute.CapabilityValue{
		{Value: "a100", Requires: []compute.Trait{"CUSTOM_A100"}, Consumes: compute.Resources{"CUSTOM_GPU": 1}},
	}}
	v.Flavors["m1.small"] = compute.Flavor{
		Name: "m1.small", Resources: compute.Resources{compute.VCPU: 1}, Capabilities: []compute.AxisName{"gpu", "zone"},
	}
	v.Flavors["m1.large"] = compute.Flavor{Name: "m1.large", Resources: compute.Resources{compute.VCPU: 4}}
	v.Capabilities["zone"] = compute.Capability{Axis: "zone", Values: []compute.CapabilityValue{
		{Value: "a", Requires: []compute.Trait{"ZONE_A"}}, {Value: "b", Requires: []compute.Trait{"ZONE_B"}},
	}}
	for _, with := range []compute.Choices{nil, {"gpu": "a100"}, {"zone": "a"}, {"zone": "b"}} {
		q, _ := v.Resolve(compute.Boot{Flavor: "m1.small", With: with})
		q.TopicID = "made"
		v.Queues[q.Name] = q
	}
	return v
}

func (s *story) do(t *testing.T, line string) []string {
	if line == "" || strings.HasPrefix(line, "#") {
		return nil
	}
	words := strings.Fields(line)
	a := parse(words[1:])
	switch words[0] {
	case "boot", "delete", "stop", "start", "reboot", "fence", "forget", "confirm", "change", "boot-set", "reserve":
		return s.hear(Requested{Request: s.request(t, words[0], a)})
	case "claim", "started", "failed", "returned", "gone", "changed", "refused", "hello", "preempt":
		r := report(t, words[0], a)
		if at := a.key["at"]; at != "" {
			r.At = s.now.Add(span(t, at))
		}
		return s.hear(Reported{Report: r})
	case "beacon":
		return s.hear(HostHeard{Host: compute.HostID(a.key["host"]), Voice: voice(a)})
	case "twins": // of a host with this journal and another, or the same one; of no host
		clear(s.view.Twins)
		if h := compute.HostID(a.key["host"]); h != "" {
			s.view.Twins[h] = []compute.Voice{voice(a), {Journal: compute.JournalID(cmp.Or(a.key["other"], "another"))}}
		}
		return nil
	case "hosts-read":
		return s.hear(HostsRead{})
	case "sent":
		return s.sent(a)
	case "landed":
		return s.hear(CommandWritten{Host: compute.HostID(a.bare[0]), Offset: number(t, a.bare[1])})
	case "undelivered":
		return s.hear(CommandUndelivered{Host: compute.HostID(a.bare[0])})
	case "catalog": // can be read, or not
		s.view.CatalogUnread, s.view.CatalogBehind = a.bare[0] == "unread", a.bare[0] == "unread"
		return nil
	case "starts":
		return s.hear(QueueStart{Queue: compute.QueueName(a.bare[0]), Start: number(t, a.bare[1])})
	case "list", "close", "drop", "withdraw", "unmade":
		return s.list(words[0], compute.QueueName(a.bare[0]), compute.TopicID(a.key["topic"]))
	case "group", "ungroup":
		return s.group(t, words[0], a)
	case "read-whole":
		*s = *newStory(t)
		s.view.ReadWhole = true
		large, _ := s.view.Resolve(compute.Boot{Flavor: "m1.large"})
		large.TopicID = "made"
		s.view.Queues[large.Name] = large
		return nil
	case "anew":
		*s = *newStory(t)
		return nil
	case "values":
		return s.values(a)
	case "quota", "advice":
		return s.know(t, words[0], a)
	case "asleep":
		s.now = s.now.Add(span(t, a.bare[0]))
		return nil
	case "late":
		s.now = s.now.Add(span(t, a.bare[0]))
		return s.hear(Tick{Until: s.now})
	case "takeover":
		return s.takeover(t, a)
	case "show", "usage", "due":
		return s.show(words[0], a)
	}
	if strings.HasPrefix(words[0], "+") {
		return s.pass(span(t, words[0][1:]))
	}
	t.Fatalf("no such command: %s", line)
	return nil
}

func (s *story) hear(in Input) []string { return s.say(s.state.step(in, s.view, s.now)) }

func (s *story) say(out Output) []string {
	var said []string
	for _, inst := range out.Changed {
		said = append(said, describe(inst))
	}
	for _, inst := range out.Removed {
		said = append(said, short(inst.ID)+" is forgotten")
	}
	for _, effect := range out.Effects {
		said = append(said, "-> "+s.effect(effect))
	}
	if out.Rejected != nil {
		said = append(said,
			"rejected: "+strings.ReplaceAll(out.Rejected.String(), "00000000-0000-0000-0000-00000000000", ""))
	}
	if len(said) == 0 {
		return []string{"(nothing)"}
	}
	return said
}

func describe(inst *compute.Instance) string {
	text := fmt.Sprintf("%s v%d %s attempt %d", short(inst.ID), inst.Version, inst.State, inst.Attempt)
	if inst.Host != "" {
		text += fmt.Sprintf(" on %s by %s", inst.Host, inst.Claim)
		if inst.Fence != 0 {
			text += fmt.Sprintf(" fence %d", inst.Fence)
		}
	}
	if r := inst.Boot.Spread(); r.Spread != "" && inst.Version == 1 {
		text += fmt.Sprintf(" with %s=%s", r.Spread, inst.Boot.With[r.Spread])
		if r.Chosen {
			text += ", chosen"
		}
	}
	if inst.BootedAs != 0 {
		text += fmt.Sprintf(" called %q", inst.Boot.Name)
		for _, k := range slices.Sorted(maps.Keys(inst.Boot.Metadata)) {
			if v := inst.Boot.Metadata[k]; len(v) > 20 {
				text += fmt.Sprintf(" %s:%d bytes", k, len(v))
			} else {
				text += " " + k + ":" + v
			}
		}
	}
	if inst.Power != compute.PowerUnknown {
		text += " power " + inst.Power.String()
		if inst.Stopped != nil {
			text += " by " + string(inst.Stopped.Code)
		}
	}
	if inst.Command != nil {
		text += fmt.Sprintf(" wants %s %s", inst.Command.Op, brief(inst.Command.Command))
	}
	if a := inst.Answer; a != nil {
		text += fmt.Sprintf(" answered %s", brief(a.Command))
		if a.Failed != "" {
			text += " failed: " + a.Failed
		}
	}
	if id := inst.Boot.Set().ID; id != "" {
		text += fmt.Sprintf(" of set %s", short(id))
		if q := inst.Whole(); q != "" {
			text += ", whole in " + string(q)
		}
	}
	if p := inst.Boot.Placeholder(); p.Of != "" {
		if text += " for " + string(p.Of); p.Taker != "" {
			text += ", taken by " + short(p.Taker)
		}
		if p.Kept {
			text += ", kept"
		}
	}
	if in := inst.Boot.In(); in.ID != "" {
		if text += " in " + short(in.ID); in.Attempt > 0 {
			text += fmt.Sprintf(" attempt %d", in.Attempt)
		}
	}
	if inst.Confirm {
		text += " to be confirmed"
	}
	if n := inst.Notice(); n != nil {
		text += fmt.Sprintf(" noticed by %s for %s in %s until +%s", n.Host, n.Class, n.Queue, n.Until.Sub(n.At))
		if n.Going {
			text += ", going"
		}
	}
	if n := inst.MadeRoom(); n > 0 {
		text += fmt.Sprintf(" for which %d went", n)
	}
	if !inst.PublishAt.IsZero() {
		text += " due in " + inst.PublishAt.Sub(inst.ChangedAt).String()
	}
	if inst.Reason != nil {
		text += ": " + inst.Reason.String()
	}
	return text
}

func (s *story) effect(effect Effect) string {
	switch effect := effect.(type) {
	case Publish:
		s.builds[effect.Build.Instance], s.told[effect.Build.Instance] = effect.Build, false
		text := fmt.Sprintf("publish to %s: %s attempt %d",
			effect.Queue, short(effect.Build.Instance), effect.Build.Attempt)
		for _, part := range effect.Build.Parts {
			text += fmt.Sprintf(", part %s attempt %d", short(part.Instance), part.Attempt)
		}
		if n := effect.Build.TimesTaken; n > 0 {
			text += fmt.Sprintf(" taken before: %d", n)
		}
		if len(effect.Build.Failed) > 0 {
			text += fmt.Sprintf(" failed on %s", effect.Build.Failed)
		}
		if len(effect.Build.Avoid) > 0 {
			text += fmt.Sprintf(" never on %s", effect.Build.Avoid)
		}
		if g := effect.Build.Group; g != nil && g.Most > 0 {
			text += fmt.Sprintf(" of group %s, at most %d a host, full are %s", g.Name, g.Most, g.Full)
			if !g.Until.IsZero() {
				text += fmt.Sprintf(" for %s", g.Until.Sub(s.now))
			}
		}
		return text
	case Tell:
		c := effect.Command
		text := fmt.Sprintf("tell %s: %s %s attempt %d", effect.Host, c.Op, short(c.Instance), c.Attempt)
		if c.Claim != "" {
			text += " claim " + string(c.Claim)
		}
		if c.Journal != "" {
			text += " of journal " + string(c.Journal)
		}
		if c.Group != "" {
			text += fmt.Sprintf(" of queue %s and group %s", c.Queue, c.Group)
		}
		if c.Preemptible {
			text += " preemptible"
		}
		if c.Noticed {
			text += ", noticed"
		}
		if c.TimesTaken > 0 {
			text += fmt.Sprintf(", taken before: %d", c.TimesTaken)
		}
		if c.Power != nil {
			text += fmt.Sprintf(" %s %s version %d", c.Power.Op, brief(c.Power.Command), c.Power.Version)
			if c.Power.Journal != "" {
				text += " asked of journal " + string(c.Power.Journal)
			}
			if c.Power.Grace > 0 {
				text += fmt.Sprintf(" grace %s", c.Power.Grace)
			}
		}
		if effect.WantOffset {
			text += ", where?"
		}
		if c.Build != nil {
			s.builds[c.Instance], s.told[c.Instance] = *c.Build, true
			if in := c.Build.In; in.ID != "" {
				text += fmt.Sprintf(" in %s attempt %d", short(in.ID), in.Attempt)
			}
			if !c.Build.WaitUntil.IsZero() {
				text += fmt.Sprintf(" waits for %s", c.Build.WaitUntil.Sub(s.now))
			}
		}
		if c.Reason != nil {
			text += ": " + c.Reason.String()
		}
		return text
	case AskStart:
		return "ask where " + string(effect.Queue) + " starts"
	}
	return fmt.Sprintf("%#v", effect)
}

// pass lets time go by, stopping wherever a timer is due.
func (s *story) pass(d time.Duration) []string {
	var said []string
	start, end := s.now, s.now.Add(d)
	for {
		due := s.state.NextDue()
		if due.IsZero() || due.After(end) {
			break
		}
		if due.After(s.now) {
			s.now = due
		}
		for _, line := range s.hear(Tick{Until: s.now}) {
			if line != "(nothing)" {
				said = append(said, fmt.Sprintf("+%s %s", s.now.Sub(start), line))
			}
		}
	}
	if s.now = end; len(said) == 0 {
		return []string{"(nothing)"}
	}
	return said
}

func (s *story) sent(a args) []string {
	build := s.builds[long(a.bare[0])]
	in := Published{Instance: build.Instance, Attempt: build.Attempt, At: build.At, Told: s.told[build.Instance]}
	switch {
	case a.has("gone"):
		in.Outcome = TopicGone
	case a.has("failed"):
		in.Outcome = Undelivered
	default:
		in.Offset, _ = strconv.ParseInt(a.key["offset"], 10, 64)
	}
	return s.hear(in)
}

func (s *story) list(what string, name compute.QueueName, topic compute.TopicID) []string {
	base, p := compute.SplitTier(name)
	q, known := s.view.Queues[name]
	if q.Name = name; !known && p != compute.PriorityNormal {
		q = s.view.Queues[base].Tier(p)
	}
	switch what {
	case "list":
		q.State, q.TopicID = compute.QueueOpen, cmp.Or(topic, q.TopicID, "made")
	case "close":
		q.State = compute.QueueClosed
	case "unmade":
		q.State, q.TopicID = compute.QueueClosed, ""
	}
	if s.view.Queues[name], s.view.Listed[name] = q, s.now; what == "drop" || what == "withdraw" {
		delete(s.view.Queues, name)
		delete(s.view.Listed, name)
	}
	if what == "withdraw" { // its flavor too
		delete(s.view.Flavors, compute.FlavorName(name))
	}
	return s.hear(QueuesChanged{Queues: []compute.QueueName{name}})
}

// group has the catalog say something new of a group.
func (s *story) group(t *testing.T, what string, a args) []string {
	key := compute.GroupKey{Project: compute.Project(a.or("project", "p")), Name: compute.GroupName(a.bare[0])}
	if delete(s.view.Groups, key); what == "group" {
		policy, err := compute.ParseGroupPolicy(a.or("policy", "none"))
		g := compute.Group{
			Project: key.Project, Name: key.Name, Policy: policy, Most: uint32(number(t, a.or("most", "0"))),
			Over: compute.AxisName(a.key["over"]), Spread: compute.AxisName(a.key["spread"]),
			Skew: uint32(number(t, a.or("skew", "0"))),
		}
		if err := cmp.Or(err, g.Check()); err != nil {
			t.Fatal(err)
		}
		s.view.Groups[key] = g
	}
	return s.hear(GroupsChanged{Groups: []compute.GroupKey{key}})
}

// values has the catalog say something new of an axis. No step hears of that.
func (s *story) values(a args) []string {
	c := compute.Capability{Axis: compute.AxisName(a.bare[0])}
	for _, v := range a.bare[1:] {
		c.Values = append(c.Values, compute.CapabilityValue{Value: compute.AxisValue(v)})
	}
	s.view.Capabilities[c.Axis] = c
	return nil
}

func (s *story) know(t *testing.T, what string, a args) []string {
	if what == "quota" {
		q := compute.Quota{Limits: compute.Resources{}, Classes: compute.ClassLimits{}}
		for class, n := range a.key { // as in high:VCPU=2
			of := q.Limits
			if priority, resource, is := strings.Cut(class, ":"); is {
				p, err := compute.ParsePriority(priority)
				if err != nil {
					t.Fatal(err)
				}
				if class, of = resource, q.Classes[p]; of == nil {
					of = compute.Resources{}
					q.Classes[p] = of
				}
			}
			of[compute.ResourceClass(class)] = number(t, n)
		}
		s.view.Quotas[compute.Project(a.bare[0])] = q
		return nil
	}
	n := func(key string) uint32 {
		if a.key[key] == "" {
			return 0
		}
		return uint32(number(t, a.key[key]))
	}
	q := compute.QueueName(a.bare[0])
	s.view.Advice[q] = compute.QueueAdvice{
		Queue: q, Eligible: n("eligible"), Depth: uint64(n("depth")),
		Hosts: compute.HostCounts{Eligible: n("eligible"), Full: n("full"), NeverFits: n("never")},
	}
	return nil
}

// takeover is what the next owner does: it loads the newest version of every
// record and sends again what follows from those behind the cursor.
func (s *story) takeover(t *testing.T, a args) []string {
	written := s.state.log
	s.state = loaded(t, written, s.view, s.now)
	said := []string{}
	for _, out := range []Output{s.state.allLoaded(s.view, s.now), s.state.step(HostsRead{}, s.view, s.now)} {
		if len(out.Effects) > 0 {
			said = append(said, s.say(out)...)
		}
	}
	if a.key["cursor"] == "" {
		return said
	}
	for i, inst := range written {
		if int64(i) >= number(t, a.key["cursor"]) && s.state.Instance(inst.ID) == inst {
			said = append(said, s.say(s.state.Resend(inst.ID, s.view, s.now))...)
		}
	}
	return said
}

// loaded is the state that follows from what was written.
func loaded(t interface {
	Helper()
	Fatalf(string, ...any)
}, written []*compute.Instance, view View, now time.Time) *checked {
	c := fresh(t)
	c.log = written
	for _, inst := range written {
		c.last[inst.ID] = inst
	}
	for _, inst := range written {
		if c.last[inst.ID] == inst {
			c.Load(inst, view, now)
		}
	}
	return c
}

func (s *story) show(what string, a args) []string {
	switch what {
	case "usage":
		if used := s.state.Used(compute.Project(a.bare[0])); !used.IsZero() {
			return []string{used.String()}
		}
		return []string{"none"}
	case "due":
		if s.state.NextDue().IsZero() {
			return []string{"never"}
		}
		return []string{"in " + s.state.NextDue().Sub(s.now).String()}
	}
	inst := s.state.Instance(long(a.bare[0]))
	if inst == nil {
		return []string{"unknown"}
	}
	said := []string{describe(inst)}
	for _, f := range inst.Failures {
		said = append(said, fmt.Sprintf("attempt %d failed on %s: %s, %s", f.Attempt, f.Host, f.Class, f.Message))
	}
	return said
}
