// SPDX-License-Identifier: Apache-2.0

package wire

import (
	"fmt"
	"reflect"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"pgregory.net/rapid"

	"github.com/berth-project/berth/pkg/compute"
)

// generate fills every field there is, those added tomorrow included, with what
// may travel.
func generate[W any]() *rapid.Generator[W] {
	return rapid.MakeCustom[W](rapid.MakeConfig{Types: map[reflect.Type]*rapid.Generator[any]{
		typeOf[time.Time](): rapid.Map(rapid.Int64Range(-1<<35, 1<<37), func(s int64) time.Time {
			return time.Unix(s, s&0xffff).UTC()
		}).AsAny(),
		typeOf[compute.Trace]():   rapid.SampledFrom([]compute.Trace{"", sampleTrace}).AsAny(),
		typeOf[[]compute.Build](): rapid.Just([]compute.Build(nil)).AsAny(), // parts have no parts
		typeOf[compute.State]():   wordsOf(states[1:]),
		typeOf[compute.Resources](): rapid.Map(
			rapid.MapOfN(rapid.StringMatching(`CUSTOM_[A-Z]{1,9}`), rapid.Int64Range(1, compute.MaxAmount), 1, 4),
			resources,
		).AsAny(),
		typeOf[compute.Trait](): rapid.Map(rapid.StringMatching(`[A-Z][A-Z0-9_]{0,20}`),
			as[compute.Trait]).AsAny(),
		typeOf[compute.ClaimID]():        rapid.Map(rapid.StringN(-1, -1, MaxID), as[compute.ClaimID]).AsAny(),
		typeOf[compute.CommandID]():      rapid.Map(rapid.StringN(-1, -1, MaxID), as[compute.CommandID]).AsAny(),
		typeOf[compute.JournalID]():      rapid.Map(rapid.StringN(-1, -1, MaxID), as[compute.JournalID]).AsAny(),
		typeOf[compute.TopicID]():        rapid.Map(rapid.StringMatching(`[0-9a-f]{32}`), as[compute.TopicID]).AsAny(),
		typeOf[compute.PowerState]():     wordsOf(powerStates),
		typeOf[compute.FailureClass]():   wordsOf(failureClasses),
		typeOf[compute.NoCapacity]():     wordsOf(noCapacities),
		typeOf[compute.HostState]():      wordsOf(hostStates),
		typeOf[compute.Weigher]():        wordsOf(weighers),
		typeOf[compute.QueueState]():     wordsOf(queueStates),
		typeOf[compute.ReportOp]():       wordsOf(reportOps),
		typeOf[compute.CommandOp]():      wordsOf(commandOps),
		typeOf[compute.RequestOp]():      wordsOf(powerOps), // as in PowerCommand; a Request chooses its own
		typeOf[compute.AskID]():          rapid.Map(rapid.StringN(1, -1, MaxID), as[compute.AskID]).AsAny(),
		typeOf[compute.ConsoleRefusal](): wordsOf(consoleRefusals),
		typeOf[compute.HostID](): rapid.Map(rapid.StringMatching(`[a-z0-9][a-z0-9-]{0,20}[a-z0-9]`),
			as[compute.HostID]).AsAny(),
		typeOf[compute.Project](): rapid.Map(rapid.StringMatching(`[a-z0-9][a-z0-9-]{0,20}[a-z0-9]`),
			as[compute.Project]).AsAny(),
		typeOf[compute.FlavorName](): rapid.Map(rapid.StringMatching(`[a-z0-9]{1,20}`),
			as[compute.FlavorName]).AsAny(),
		typeOf[compute.AxisName](): rapid.Map(rapid.StringMatching(`[a-z][a-z0-9]{0,20}`),
			as[compute.AxisName]).AsAny(),
		typeOf[compute.AxisValue]():   rapid.Map(rapid.StringMatching(`[a-z0-9]{1,20}`), as[compute.AxisValue]).AsAny(),
		typeOf[compute.GroupName]():   rapid.Map(rapid.StringMatching(`[a-z0-9]{1,20}`), as[compute.GroupName]).AsAny(),
		typeOf[compute.GroupPolicy](): wordsOf(groupPolicies),
		typeOf[*compute.BuildGroup](): rapid.SampledFrom([]*compute.BuildGroup{
			nil, {Name: "web", Most: 1}, {Name: "web", Most: 2, Until: at(3), Full: []compute.HostID{"h1", "h2"}},
		}).AsAny(),
		typeOf[*compute.PlacementRules](): rapid.SampledFrom([]*compute.PlacementRules{
			nil, {Group: "web"}, {Group: "web", Spread: "zone"}, {Group: "web", Spread: "zone", Chosen: true},
			{Priority: compute.PriorityHigh}, {Group: "web", Spread: "zone", Priority: compute.PriorityLow},
			{Priority: compute.PriorityLow, Preemptible: compute.Preemptible{Then: compute.ThenRequeue, Grace: time.Minute}},
		}).AsAny(),
		typeOf[compute.Priority]():  wordsOf(priorities),
		typeOf[compute.QuotaPart](): wordsOf(quotaParts),
		typeOf[compute.InstanceID](): rapid.Map(
			rapid.StringMatching(`[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}`),
			as[compute.InstanceID],
		).AsAny(),
	}})
}

func typeOf[T any]() reflect.Type { return reflect.TypeFor[T]() }

func as[S ~string](s string) S { return S(s) }

func wordsOf[W ~uint8, S ~int32](t table[W, S]) *rapid.Generator[any] {
	return rapid.Map(rapid.SampledFrom(t), func(r row[W, S]) W { return r.word }).AsAny()
}

// roundTrip wants back what is encoded, empty and absent being one, and the same
// bytes from both.
func roundTrip[W any](
	t *testing.T, generator *rapid.Generator[W], encode func(W) Record, decode func(Record) (W, error),
) {
	t.Run(fmt.Sprintf("%T", *new(W)), rapid.MakeCheck(func(t *rapid.T) {
		want := generator.Draw(t, "value")
		rec := encode(want)
		got, err := decode(rec)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(want, got, cmpopts.EquateEmpty()); diff != "" {
			t.Fatalf("-encoded +decoded:\n%s", diff)
		}
		if diff := cmp.Diff(rec, encode(got)); diff != "" {
			t.Fatalf("encoded again it differs (-once +twice):\n%s", diff)
		}
	}))
}

func TestRoundTrip(t *testing.T) {
	roundTrip(t, requests(), EncodeRequest, DecodeRequest)
	roundTrip(t, reports(), EncodeReport, DecodeReport)
	roundTrip(t, rapid.Map(generate[compute.Instance](), func(i compute.Instance) compute.Instance {
		if !i.State.Ended() { // a refused boot may have named anything
			i.Queue = compute.QueueName(cut(string(i.Queue), maxQueueName))
		}
		if i.Boot.Spread().Spread == "" {
			i.Boot.Rules = compute.InGroup(i.Boot.Group())
		}
		if i.Attempt%2 == 0 {
			i.Boot.InSet(compute.Set{ID: i.ID, Size: 2 + uint32(i.Attempt)%(compute.MaxSet-1), Granted: i.Attempt%4 == 0})
		}
		return i
	}), EncodeInstance, DecodeInstance)
	roundTrip(t, generate[compute.Rejected](), EncodeRejected, DecodeRejected)
	roundTrip(t, wholes(), EncodeBuild, DecodeBuild)
	roundTrip(t, commands(), EncodeCommand, DecodeCommand)
	roundTrip(t, rapid.Map(generate[compute.Beacon](), func(b compute.Beacon) compute.Beacon {
		b.Mistrusts = b.Mistrusts[:min(len(b.Mistrusts), compute.MaxMistrusts)]
		for q := range b.Taking {
			if len(b.Taking) > compute.MaxTaking || len(q) > maxQueueName {
				delete(b.Taking, q)
			}
		}
		delete(b.Labels, "")
		for name := range b.Labels {
			if len(b.Labels) > compute.MaxHostLabels {
				delete(b.Labels, name)
			}
		}
		return b
	}), EncodeBeacon, DecodeBeacon)
	roundTrip(t, rapid.Map(generate[compute.Queue](), func(q compute.Queue) compute.Queue {
		for axis := range q.Choices {
			q.Choices = compute.Choices{axis: q.Choices[axis]} // more would be too long a name
			break
		}
		q.Name, q.Group = compute.NameQueue(q.Flavor, q.Choices), cut(q.Group, maxQueueName)
		return q
	}), EncodeQueue, DecodeQueue)
	roundTrip(t, rapid.Map(generate[compute.Console](), func(c compute.Console) compute.Console {
		c.Offset &= 1<<60 - 1
		c.End = c.Offset + int64(len(c.Data))
		return c
	}), EncodeConsole, DecodeConsole)
	roundTrip(t, tokens(), EncodeToken, func(rec Record) (compute.Token, error) {
		entry, err := DecodeToken(rec)
		return *entry.Token, err
	})
	roundTrip(t, rapid.Map(generate[compute.AuditEntry](), func(e compute.AuditEntry) compute.AuditEntry {
		e.Operation, e.Status = "boot", 202
		e.Request, e.How, e.Kind = cut(e.Request, MaxID), cut(e.How, MaxID), cut(e.Kind, MaxID)
		return e
	}), EncodeAudit, DecodeAudit)
	roundTrip(t, generate[compute.Advice](), EncodeAdvice, DecodeAdvice)
	roundTrip(t, rapid.Map(generate[compute.Flavor](), func(f compute.Flavor) compute.Flavor {
		f.Capabilities = f.Capabilities[:min(len(f.Capabilities), compute.MaxChoices)]
		return f
	}), EncodeFlavor, func(rec Record) (compute.Flavor, error) {
		entry, err := DecodeCatalog(rec)
		return *entry.Flavor, err
	})
	roundTrip(t, generate[compute.Capability](), EncodeCapability, func(rec Record) (compute.Capability, error) {
		entry, err := DecodeCatalog(rec)
		return *entry.Capability, err
	})
	roundTrip(t, rapid.Map(generate[compute.Group](), func(g compute.Group) compute.Group {
		if g.Most = g.Most%compute.MaxMost + 1; !g.Policy.Apart() {
			g.Most = 0
		}
		if g.Policy.Soft() || g.Policy == compute.SpreadOnly {
			g.Over = ""
		}
		if g.Skew %= compute.MaxSkew; g.Policy == compute.SpreadOnly && g.Spread == "" {
			g.Spread = "zone"
		}
		if g.Spread == g.Over || g.Spread == "" {
			g.Spread, g.Skew = "", 0
		}
		return g
	}), EncodeGroup, func(rec Record) (compute.Group, error) {
		entry, err := DecodeCatalog(rec)
		return *entry.Group, err
	})
	roundTrip(t, rapid.Map(generate[compute.Quota](), func(q compute.Quota) compute.Quota {
		q.Weight %= compute.MaxWeight + 1
		return q
	}), EncodeQuota, func(rec Record) (compute.Quota, error) {
		entry, err := DecodeCatalog(rec)
		return *entry.Quota, err
	})
}

// wholes are builds, some of them of a set that is offered whole.
func wholes() *rapid.Generator[compute.Build] {
	one := rapid.Map(generate[compute.Build](), held)
	return rapid.Custom(func(t *rapid.T) compute.Build {
		b := one.Draw(t, "build")
		for range rapid.IntRange(0, 3).Draw(t, "parts") {
			part := one.Draw(t, "part")
			part.Trace = b.Trace // the record has one
			b.Parts = append(b.Parts, part)
		}
		return b
	})
}

// held has a build hold room for as long as one may.
func held(b compute.Build) compute.Build {
	b.Hold = (b.Hold & (1<<62 - 1)) % mostHold
	return b
}

// tokens have a role, and a project where it wants one.
func tokens() *rapid.Generator[compute.Token] {
	return rapid.Map(generate[compute.Token](), func(token compute.Token) compute.Token {
		token.ID, token.Name = "abcdefghij234567", "ci-bot"
		token.Role = compute.Roles()[len(token.Project)%4]
		if token.Role.OfCell() {
			token.Project = ""
		}
		return token
	})
}

// requests have the fields of their operation and pass Check.
func requests() *rapid.Generator[compute.Request] {
	all := generate[compute.Request]()
	return rapid.Custom(func(t *rapid.T) compute.Request {
		q := all.Draw(t, "all")
		q.Op = compute.RequestOp(rapid.IntRange(int(compute.OpBoot), int(compute.OpReserve)).Draw(t, "op"))
		if q.Op == compute.OpBoot {
			boot := boots(false).Draw(t, "boot")
			q.Boot = &boot
		} else {
			q.Boot = nil
		}
		if q.Set = nil; q.Op == compute.OpBootSet {
			for i := range rapid.IntRange(2, 4).Draw(t, "set") {
				id := compute.InstanceID(fmt.Sprintf("00000000-0000-0000-0000-%012d", i))
				q.Set = append(q.Set, compute.SetBoot{Instance: id, Boot: boots(true).Draw(t, "boot of a set")})
			}
			q.Instance = q.Set[0].Instance
		}
		if q.Reserve = nil; q.Op == compute.OpReserve {
			q.Reserve = reserves().Draw(t, "reserve")
			q.Instance = q.Reserve.Instances[0]
		}
		if q.Change = nil; q.Op == compute.OpChange {
			q.Change = changes().Draw(t, "change")
		}
		if q.Op.OfHost() {
			q.Project, q.Instance = "", ""
			if q.Op == compute.OpConfirm {
				q.Fence = 0
			}
		} else {
			q.Host, q.Fence = "", 0
		}
		q.Hard = q.Hard && (q.Op == compute.OpStop || q.Op == compute.OpReboot)
		q.Command = compute.CommandID(cut(string(q.Command), MaxID))
		return q
	})
}

// reserves pass Check.
func reserves() *rapid.Generator[*compute.Reserve] {
	return rapid.Custom(func(t *rapid.T) *compute.Reserve {
		b := boots(false).Draw(t, "what is reserved")
		v := &compute.Reserve{
			Name: "nightly", From: at(rapid.IntRange(0, 9).Draw(t, "from")),
			Boot: compute.Boot{Flavor: b.Flavor, With: b.With},
		}
		v.Until = v.From.Add(compute.LeastReserveTime + time.Duration(rapid.IntRange(0, 99).Draw(t, "for"))*time.Second)
		for i := range rapid.IntRange(1, 4).Draw(t, "count") {
			v.Instances = append(v.Instances, compute.InstanceID(fmt.Sprintf("00000000-0000-0000-0000-%012d", i)))
		}
		return v
	})
}

// boots pass Check, in a set or by themselves.
func boots(set bool) *rapid.Generator[compute.Boot] {
	return rapid.Map(generate[compute.Boot](), func(boot compute.Boot) compute.Boot {
		if boot.Rules = boot.AskedRules(); boot.Preemptible().CheckNoSet() != nil && set {
			boot.Rules = nil
		}
		if p := boot.Preemptible(); p.Then == compute.ThenRequeue && boot.OnNoCapacity == compute.FailAtOnce {
			p.Then = compute.ThenDelete
			boot.Preempt(p)
		}
		boot.Attempts %= compute.MaxAttempts + 1
		boot.Deadline = (boot.Deadline & (1<<62 - 1)) % compute.MaxDeadline
		boot.Name = cut(boot.Name, compute.MaxNameLength)
		boot.Image = cut(boot.Image, compute.MaxNameLength)
		boot.Host, boot.Avoid = "", boot.Avoid[:min(len(boot.Avoid), compute.MaxAvoid)]
		if len(boot.With) > compute.MaxChoices {
			boot.With = nil
		}
		for i := range boot.SSHKeys {
			boot.SSHKeys[i] = sampleKey
		}
		boot.SSHKeys = boot.SSHKeys[:min(len(boot.SSHKeys), compute.MaxSSHKeys)]
		if len(boot.Metadata) > compute.MaxMetadata {
			boot.Metadata = nil
		}
		if len(boot.Sealed) > 0 {
			boot.UserData = ""
		}
		return boot
	})
}

// changes pass Check.
func changes() *rapid.Generator[*compute.Change] {
	all := generate[compute.Change]()
	return rapid.Custom(func(t *rapid.T) *compute.Change {
		c := all.Draw(t, "all")
		delete(c.Set, "")
		if c.Name != nil {
			*c.Name = cut(*c.Name, compute.MaxNameLength)
		}
		c.Remove = slices.DeleteFunc(c.Remove[:min(len(c.Remove), compute.MaxMetadata)], func(name string) bool {
			_, set := c.Set[name]
			return set
		})
		if len(c.Remove) == 0 {
			c.Remove = nil
		}
		if c.Check() != nil {
			c = compute.Change{Remove: []string{"team"}}
		}
		return &c
	})
}

func reports() *rapid.Generator[compute.Report] {
	all := generate[compute.Report]()
	return rapid.Custom(func(t *rapid.T) compute.Report {
		p := all.Draw(t, "all")
		return p
	})
}

// commands carry what their operation needs, and one trace.
func commands() *rapid.Generator[compute.Command] {
	all := generate[compute.Command]()
	return rapid.Custom(func(t *rapid.T) compute.Command {
		c := all.Draw(t, "all")
		if c.Op == compute.CommandBuild && c.Build == nil {
			c.Build = &compute.Build{}
		}
		if c.Build != nil {
			*c.Build = held(*c.Build)
			c.Build.Instance, c.Build.Project = c.Instance, c.Project
		}
		if c.Op == compute.CommandPower && c.Power == nil {
			c.Power = &compute.PowerCommand{Op: compute.OpStop}
		}
		if c.Op == compute.CommandHost && c.Desired == nil {
			c.Desired = &compute.HostDesired{}
		}
		if c.Op == compute.CommandConsole && c.Console == nil {
			c.Console = &compute.ConsoleAsk{ID: "ask"}
		}
		if c.Op == compute.CommandLook && c.Look == nil {
			c.Look = &compute.Look{Queue: "small"}
		}
		c.Voices = c.Voices[:min(len(c.Voices), maxVoices)]
		for c.Op == compute.CommandTwins && len(c.Voices) < 2 {
			c.Voices = append(c.Voices, compute.Voice{Journal: "j", Started: at(len(c.Voices))})
		}
		if c.Op == compute.CommandBegun || c.Op == compute.CommandAlone {
			c.Voices = []compute.Voice{{Journal: "j", Started: at(1)}}
		}
		if l := c.Look; l != nil {
			l.Queue, l.Hold = "q"+l.Queue, max(0, l.Hold)%compute.MaxHold
			l.Save = max(0, l.Save) % compute.MaxSave
		}
		if a := c.Console; a != nil {
			a.Limit, a.Deadline = 1+a.Limit%compute.MaxConsole, at(1)
		}
		if c.Build != nil {
			c.Build.Trace = c.Trace
		}
		return c
	})
}
