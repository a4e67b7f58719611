// SPDX-License-Identifier: Apache-2.0

package catalog

import (
	"fmt"
	"strconv"
	"strings"
	"testing"

	"github.com/cockroachdb/datadriven"

	"github.com/berth-project/berth/pkg/compute"
)

// TestScenarios runs the files of testdata. Each begins with an empty catalog.
//
//	limits queues=20 name=40
//	flavor NAME VCPU=1 … [axes=a,b] [requires=T,U] [forbids=T]
//	unflavor NAME [drain] / uncapability AXIS [v …] [drain] / work QUEUE N
//	capability AXIS v[:CLASS=n|TRAIT]…
//	quota PROJECT CLASS=n …
//	group PROJECT NAME POLICY [most=N] [over=AXIS] [new] / ungroup PROJECT NAME / members PROJECT NAME N / groups PROJECT
//	queues FLAVOR / resolve FLAVOR [axis=value …] / show
func TestScenarios(t *testing.T) {
	datadriven.Walk(t, "testdata", func(t *testing.T, path string) {
		s := &scenario{
			catalog: New(DefaultLimits()), work: map[compute.QueueName]int{}, members: map[compute.GroupKey]int{},
		}
		datadriven.RunTest(t, path, func(t *testing.T, d *datadriven.TestData) string {
			out := &strings.Builder{}
			for line := range strings.Lines(d.Input) {
				s.run(out, strings.Fields(line))
			}
			for _, problem := range s.catalog.Problems() {
				fmt.Fprintln(out, "PROBLEM:", problem)
			}
			return out.String()
		})
	})
}

type scenario struct {
	catalog *Catalog
	work    map[compute.QueueName]int
	members map[compute.GroupKey]int
}

func (s *scenario) run(out *strings.Builder, words []string) {
	drain := words[len(words)-1] == "drain"
	if drain {
		words = words[:len(words)-1]
	}
	work := func(q compute.QueueName) int { return s.work[q] }
	var ch Change
	var err error
	switch command, args := words[0], words[1:]; command {
	case "limits":
		s.catalog = New(Limits{Queues: number(args[0]), QueueName: number(args[1])})
		return
	case "work":
		s.work[compute.QueueName(args[0])] = number(args[1])
		return
	case "queues":
		for _, q := range s.catalog.Permutations(compute.FlavorName(args[0])) {
			show(out, q)
		}
		return
	case "resolve":
		s.resolve(out, args)
		return
	case "flavor":
		ch, err = s.catalog.AddFlavor(flavor(args))
	case "unflavor":
		ch, err = s.catalog.RemoveFlavor(compute.FlavorName(args[0]), work, drain)
	case "capability":
		ch, err = s.catalog.AddCapability(capability(args))
	case "uncapability":
		ch, err = s.catalog.RemoveCapability(compute.AxisName(args[0]), names[compute.AxisValue](args[1:]), work, drain)
	case "quota":
		ch, err = s.catalog.SetQuota(compute.Quota{Project: compute.Project(args[0]), Limits: resources(args[1:])})
	case "members":
		s.members[groupKey(args)] = number(args[2])
		return
	case "groups":
		for _, g := range s.catalog.Groups(compute.Project(args[0])) {
			fmt.Fprintf(out, "%s: %s, %s\n", g.Name, g.Policy, g.Rule())
		}
		return
	case "group":
		ch, err = s.catalog.SetGroup(group(args))
	case "ungroup":
		ch, err = s.catalog.RemoveGroup(groupKey(args), func(key compute.GroupKey) int { return s.members[key] })
	case "force": // what a race or a foreign hand may leave in the log
		f := flavor(args)
		ch = Change{Flavor: &f}
	default:
		panic("unknown command " + command)
	}
	s.answer(out, ch, err)
}

func (s *scenario) answer(out *strings.Builder, ch Change, err error) {
	switch {
	case err != nil:
		fmt.Fprintf(out, "%s: %v\n", compute.KindOf(err), err)
	case ch.Nothing():
		fmt.Fprintf(out, "nothing to do, %d queues\n", ch.Total)
	default:
		s.catalog = s.catalog.Apply(ch)
		fmt.Fprintf(out, "ok +%d -%d = %d\n", ch.Added, ch.Removed, ch.Total)
	}
}

func (s *scenario) resolve(out *strings.Builder, args []string) {
	choices := compute.Choices{}
	for _, a := range args[1:] {
		axis, value, _ := strings.Cut(a, "=")
		choices[compute.AxisName(axis)] = compute.AxisValue(value)
	}
	q, err := s.catalog.Resolve(compute.FlavorName(args[0]), choices)
	if err != nil {
		fmt.Fprintf(out, "%s: %v\n", compute.KindOf(err), err)
		return
	}
	show(out, q)
}

func show(out *strings.Builder, q compute.Queue) {
	fmt.Fprintf(out, "%s: %s required=%v forbidden=%v\n", q.Name, q.Resources, q.Required, q.Forbidden)
}

func flavor(args []string) compute.Flavor {
	f := compute.Flavor{Name: compute.FlavorName(strings.ReplaceAll(args[0], "~", ""))}
	var rest []string
	for _, a := range args[1:] {
		key, value, _ := strings.Cut(a, "=")
		switch key {
		case "axes":
			f.Capabilities = names[compute.AxisName](strings.Split(value, ","))
		case "requires":
			f.Required = names[compute.Trait](strings.Split(value, ","))
		case "forbids":
			f.Forbidden = names[compute.Trait](strings.Split(value, ","))
		default:
			rest = append(rest, a)
		}
	}
	f.Resources = resources(rest)
	return f
}

func groupKey(args []string) compute.GroupKey {
	return compute.GroupKey{Project: compute.Project(args[0]), Name: compute.GroupName(strings.ReplaceAll(args[1], "~", ""))}
}

// group reads a group, and whether it is only to be made; ~ stands for an empty name.
func group(args []string) (g compute.Group, onlyNew bool) {
	key := groupKey(args)
	policy, err := compute.ParseGroupPolicy(args[2])
	if err != nil {
		panic(err)
	}
	g = compute.Group{Project: key.Project, Name: key.Name, Policy: policy}
	for _, a := range args[3:] {
		key, value, _ := strings.Cut(a, "=")
		switch key {
		case "most":
			g.Most = uint32(number(value))
		case "over":
			g.Over = compute.AxisName(value)
		default:
			onlyNew = true
		}
	}
	return g, onlyNew
}

func capability(args []string) compute.Capability {
	c := compute.Capability{Axis: compute.AxisName(args[0])}
	for _, a := range args[1:] {
		parts := strings.Split(a, ":")
		v := compute.CapabilityValue{Value: compute.AxisValue(parts[0])}
		for _, p := range parts[1:] {
			if strings.Contains(p, "=") {
				v.Consumes = resources([]string{p})
			} else {
				v.Requires = append(v.Requires, compute.Trait(p))
			}
		}
		c.Values = append(c.Values, v)
	}
	return c
}

func resources(args []string) compute.Resources {
	r := compute.Resources{}
	for _, a := range args {
		class, n, _ := strings.Cut(a, "=")
		r[compute.ResourceClass(class)] = int64(number(n))
	}
	return r
}

func names[T ~string](in []string) []T {
	var out []T
	for _, s := range in {
		out = append(out, T(s))
	}
	return out
}

func number(s string) int {
	if _, after, ok := strings.Cut(s, "="); ok {
		s = after
	}
	n, err := strconv.Atoi(s)
	if err != nil {
		panic(err)
	}
	return n
}
