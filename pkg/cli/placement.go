// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"go.yaml.in/yaml/v3"

	"github.com/berth-project/berth/pkg/client"
	"github.com/berth-project/berth/pkg/compute"
)

func newWhy(s *settings) *cobra.Command {
	var f bootFlags
	var mix string
	cmd := &cobra.Command{
		Use:   "why --flavor FLAVOR | --mix FILE",
		Short: "Say what would become of a boot, without booting",
		Long: `Say whether machines would start now, and if not, why and what it takes: the quota, what waits before them, and
what every host is to them, by what hosts said last. Nothing is reserved.

With --mix it is asked about several kinds at once, which may fit alone and not together. The file is a list in YAML or
JSON; each entry is a boot as POST /v1/instances takes it, with a count.`,
		Example: "  berth why --flavor m1.small --with gpu=a100 --count 3\n  berth why --flavor m1.small --host rack1\n" +
			"  echo '[{flavor: m1.small, count: 5}, {flavor: m1.large}]' | berth why --mix -",
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			c, out, err := s.open()
			if err != nil {
				return err
			}
			defer c.Close()
			asked, err := whyMix(cmd, c, f, mix)
			if err != nil {
				return err
			}
			p, err := c.Placements(cmd.Context(), asked)
			if err != nil {
				return err
			}
			return printPlacements(cmd.OutOrStdout(), out, p)
		},
	}
	flags := cmd.Flags()
	flags.StringVar(&f.flavor, "flavor", "", "size of the machine")
	flags.StringArrayVar(&f.with, "with", nil, "a choice on a capability, as in gpu=a100; repeatable")
	flags.IntVar(&f.count, "count", 1, "how many")
	flags.StringVar(&f.host, "host", "", "there and nowhere else")
	flags.StringArrayVar(&f.avoid, "avoid", nil, "never on this host; repeatable")
	flags.StringVar(&f.group, "group", "", "as a member of this group")
	flags.StringVar(&f.priority, "priority", "normal", "low, normal or high")
	flags.StringVar(&mix, "mix", "", "file of several kinds; - reads the standard input")
	for _, other := range []string{"flavor", "with", "count", "host", "avoid", "group", "priority"} {
		cmd.MarkFlagsMutuallyExclusive("mix", other)
	}
	return cmd
}

// whyMix is what the flags ask about.
func whyMix(cmd *cobra.Command, c *client.Client, f bootFlags, file string) (client.Mix, error) {
	if cmd.Flags().Changed("mix") {
		return readMix(cmd.Context(), cmd.InOrStdin(), file)
	}
	f.name, f.onNoCapacity = "it", "wait"
	b, err := f.boot(cmd)
	return client.MixOf(c.Project(), b, int64(f.count)), err
}

// readMix reads a mix in YAML, of which JSON is a part.
func readMix(ctx context.Context, stdin io.Reader, file string) (client.Mix, error) {
	text, err := []byte(nil), error(nil)
	if file == "-" {
		text, err = readInput(ctx, stdin)
	} else {
		text, err = os.ReadFile(file)
	}
	if err != nil {
		return client.Mix{}, compute.Unreadable("mix", file, err)
	}
	wrong := func(cause error) (client.Mix, error) {
		e := compute.Invalid("mix", file, "give a list of boots with counts, as in [{flavor: m1.small, count: 5}]")
		e.Message, e.Cause = "is no mix", cause
		return client.Mix{}, e
	}
	var plain []any
	if err := yaml.Unmarshal(text, &plain); err != nil {
		return wrong(err)
	}
	data, err := json.Marshal(plain)
	if err != nil {
		return wrong(err)
	}
	var mix client.Mix
	d := json.NewDecoder(bytes.NewReader(data))
	d.DisallowUnknownFields()
	if err := d.Decode(&mix.Mix); err != nil {
		return wrong(err)
	}
	if len(mix.Mix) == 0 {
		return wrong(nil)
	}
	return mix, nil
}

// dryRun says what would become of a boot, and ends as the boot would if that is known.
func (f bootFlags) dryRun(cmd *cobra.Command, c *client.Client, out Format, b compute.Boot) error {
	p, err := f.wouldBoot(cmd.Context(), c, b)
	if err != nil {
		return err
	}
	if err := printPlacements(cmd.OutOrStdout(), out, p); err != nil {
		return err
	}
	return wouldEnd(p, b)
}

// wouldEnd is the error that a boot would end with; nil: none that is known.
func wouldEnd(p client.Placements, b compute.Boot) error {
	switch {
	case !p.MayBoot:
		return &compute.Error{
			Kind:    compute.KindForbidden,
			Message: "it would be refused: to boot needs the role member of project " + string(p.Project),
			Remedy:  "berth whoami shows your roles",
		}
	case p.Refused != nil:
		return &compute.Error{
			Kind: compute.KindQuota, Message: "it would end in error: " + p.Refused.Message, Reason: p.Refused.Compute(),
		}
	case p.Fits < p.Count && b.OnNoCapacity == compute.FailAtOnce:
		return &compute.Error{Kind: compute.KindNoCapacity, Message: "it would end in error: " + p.Summary}
	}
	return nil
}

// wouldBoot asks what would become of the machines of a boot.
func (f bootFlags) wouldBoot(ctx context.Context, c *client.Client, b compute.Boot) (client.Placements, error) {
	if f.key != "" {
		return f.wouldBootUnder(ctx, c, b)
	}
	b.Name = f.nameOf(b.Name, f.count)
	mix := client.MixOf(c.Project(), b, int64(f.count))
	mix.ID, mix.Atomic = compute.InstanceID(f.id), f.atomic
	return c.Placements(ctx, mix)
}

// wouldBootUnder asks about each key, and then about those together that were not used before.
func (f bootFlags) wouldBootUnder(ctx context.Context, c *client.Client, b compute.Boot) (out client.Placements, err error) {
	if f.count > compute.MaxKinds {
		return out, compute.Invalid("count", fmt.Sprint(f.count),
			fmt.Sprintf("with --key a dry run asks about %d machines at most", compute.MaxKinds))
	}
	there := 0
	for n, key := range f.keys() {
		one := b
		one.Name = f.nameOf(b.Name, n+1)
		if out, err = c.PlacementUnder(ctx, key, one); err != nil {
			return out, err
		}
		if out.Kinds[0].Exists != nil {
			there++
		}
	}
	switch {
	case f.count == 1:
		return out, nil
	case there == f.count:
		out.Summary = fmt.Sprintf("all %d are there already: nothing new would be booted", there)
		return out, nil
	case there > 0 && f.atomic:
		return out, compute.Conflict("key", f.key, fmt.Sprintf("was used for %d of the %d alone", there, f.count),
			"repeat that request as it was, or give a new key")
	}
	b.Name = f.nameOf(b.Name, f.count)
	mix := client.MixOf(c.Project(), b, int64(f.count-there))
	mix.Atomic = f.atomic
	if out, err = c.Placements(ctx, mix); err == nil && there > 0 {
		out.Summary = fmt.Sprintf("of %d there are %d already; %s", f.count, there, out.Summary)
	}
	return out, err
}

func printPlacements(w io.Writer, f Format, p client.Placements) error {
	now := time.Now()
	sheet := Sheet[client.Placements]{Name: func(p client.Placements) string {
		var queues []string
		for _, k := range p.Kinds {
			queues = append(queues, string(k.Queue))
		}
		return strings.Join(queues, "\n")
	}}
	return sheet.one(w, f, p, func(p client.Placements) []detail { return placements(p, now) })
}

func placements(p client.Placements, now time.Time) []detail {
	starts := "no"
	switch {
	case p.Starts && !p.MayBoot:
		starts = fmt.Sprintf("yes, if a member of project %s boots: you may not", p.Project)
	case p.Starts:
		starts = "yes"
	case !p.MayBoot:
		starts = fmt.Sprintf("no, and booting in project %s is for its members: you may not", p.Project)
	}
	out := []detail{{"Starts now", starts}, {"Why", p.Summary}}
	if p.Count > 1 {
		out = append(out, detail{"Room for", fmt.Sprintf("%d of %d", p.Fits, p.Count)})
	}
	if p.Set != nil {
		out = append(out, detail{"As a set", p.Set.Says})
	}
	out = append(out, detail{"Quota", quotaSteps(p.Quota)})
	if len(p.Kinds) == 1 {
		line := p.Kinds[0].Queue
		if p.Set != nil { // which waits elsewhere if it is offered whole
			line = cmp.Or(p.Set.Whole, line)
		}
		out = append(out, kindDetails(p.Kinds[0], line, now)...)
	} else {
		for _, k := range p.Kinds {
			out = append(out, detail{string(k.Queue), kindLine(k)})
		}
	}
	return append(out, detail{"As of", fmt.Sprintf("what hosts said within the last %s", span(p.Oldest))},
		detail{"You can", strings.Join(p.YouCan, "\n")}, detail{"Operators can", strings.Join(p.OperatorsCan, "\n")})
}

// span is at least a second: what was said just now is not older.
func span(seconds float64) string {
	return max(time.Second, time.Duration(seconds*float64(time.Second)).Round(time.Second)).String()
}

// quotaSteps says of each class that is limited what would be used: "VCPU: 8 now, 14 with these, of 10: too much".
func quotaSteps(all []client.QuotaStep) string {
	lines := []string{}
	for _, q := range all {
		if q.Limit == nil {
			continue
		}
		of := string(q.Class)
		if q.Priority != "" {
			of += " of priority " + q.Priority
		}
		line := fmt.Sprintf("%s: %s now, %s with these, of %s", of, HumanSize(q.Class, q.Used),
			HumanSize(q.Class, q.Would), HumanSize(q.Class, *q.Limit))
		if q.Over {
			line += ": too much"
		}
		lines = append(lines, line)
	}
	if len(lines) == 0 && len(all) > 0 {
		return "unlimited"
	}
	return strings.Join(lines, "\n")
}

// kindDetails are those of the one kind that is asked about, which waits in a line.
func kindDetails(k client.Placement, line compute.QueueName, now time.Time) []detail {
	out := []detail{{"Uses", humanResources(k.Resources)}}
	if k.Count > 1 {
		out[0].value += " each"
	}
	if l := k.Place; l != nil && l.Depth > 0 {
		out = append(out, detail{"In line", fmt.Sprintf("behind %d in queue %s, the first since %s",
			l.Position, line, Short(now.Sub(l.Oldest)))})
	}
	out = append(out, standings(k.Hosts)...)
	return append(out, detail{"To go", toGo(k)})
}

// kindLine is one kind of a mix.
func kindLine(k client.Placement) string {
	line := fmt.Sprintf("room for %d of %d, each %s", k.Fits, k.Count, humanResources(k.Resources))
	if k.Exists != nil {
		return "is there already, and is " + string(k.Exists.State)
	}
	if l := k.Place; l != nil && l.Depth > 0 {
		line += fmt.Sprintf(", behind %d that wait", l.Depth)
	}
	if text := toGo(k); text != "" {
		line += "\n" + text
	}
	return line
}

// toGo says which machines would have to go so that one more fits.
func toGo(k client.Placement) string {
	g := k.ToGo
	if g == nil {
		return ""
	}
	what := fmt.Sprintf("%d machines", g.Machines)
	if g.Machines == 1 {
		what = "1 machine"
	}
	if len(g.Resources) > 0 {
		what += " (" + humanResources(g.Resources) + ")"
	}
	line := "one more fits without " + what + " of the host that lacks least"
	if g.Host != "" {
		var names []string
		for _, i := range g.Instances {
			names = append(names, fmt.Sprintf("%s of %s", cmp.Or(Printable(i.Name), string(i.ID)), i.Project))
		}
		line += fmt.Sprintf(", %s: %s", g.Host, strings.Join(names, ", "))
	}
	return line
}
