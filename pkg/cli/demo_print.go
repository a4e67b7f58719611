// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"maps"
	"os"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/berth-project/berth/pkg/client"
	"github.com/berth-project/berth/pkg/compute"
)

// progress is one line that changes in place on a terminal, and is printed once,
// when it is final, elsewhere.
type progress struct {
	out  io.Writer
	live bool
	line string
}

func newProgress(out io.Writer) *progress { return &progress{out: out, live: isTerminal(out)} }

func (p *progress) show(line string) {
	if p.live && line != p.line {
		fmt.Fprintf(p.out, "\r\x1b[K%s", line)
	}
	p.line = line
}

func (p *progress) keep() {
	if p.live {
		fmt.Fprintln(p.out)
		return
	}
	fmt.Fprintln(p.out, p.line)
}

func isTerminal(w io.Writer) bool {
	f, ok := w.(*os.File)
	if !ok {
		return false
	}
	info, err := f.Stat()
	return err == nil && info.Mode()&os.ModeCharDevice != 0
}

// bar is a line of 20 blocks.
func bar(n, of int) string {
	const width = 20
	full := min(width, n*width/max(of, 1))
	return strings.Repeat("█", full) + strings.Repeat("░", width-full)
}

func countStates(all []client.Instance) map[string]int {
	n := map[string]int{}
	for _, i := range all {
		n[string(i.State)]++
	}
	return n
}

// describe is an instance and its reason in one line.
func describe(i client.Instance) string {
	line := fmt.Sprintf("%s: %s", i.Name, i.State)
	for _, r := range []*client.Reason{i.Reason, i.Waiting} {
		if r != nil {
			line += fmt.Sprintf(", %s: %s", r.Code, r.Message)
		}
	}
	return line
}

// printPlaces shows for each queue how many machines there are, on which hosts,
// and how long the decision took.
func printPlaces(out io.Writer, all []client.Instance) error {
	queues := map[compute.QueueName][]client.Instance{}
	for _, i := range all {
		queues[i.Queue] = append(queues[i.Queue], i)
	}
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "  FLAVOR\tQUEUE\tBOOTS\tACCEPTED→GRANTED p50\tp99\tHOSTS")
	for _, q := range slices.Sorted(maps.Keys(queues)) {
		some := queues[q]
		p50, p99 := decisionTimes(some)
		fmt.Fprintf(w, "  %s\t%s\t%d\t%s\t%s\t%s\n", some[0].Flavor, q, len(some), p50, p99, places(some))
	}
	p50, p99 := decisionTimes(all)
	fmt.Fprintf(w, "  all\t\t%d\t%s\t%s\n", len(all), p50, p99)
	return w.Flush()
}

// decisionTimes are the median and the 99th percentile from the accepted request
// to the grant.
func decisionTimes(some []client.Instance) (p50, p99 string) {
	var took []time.Duration
	for _, i := range some {
		if !i.StartingAt.IsZero() {
			took = append(took, i.StartingAt.Sub(i.AcceptedAt))
		}
	}
	if len(took) == 0 {
		return "-", "-"
	}
	slices.Sort(took)
	at := func(percent int) string {
		return fmt.Sprintf("%d ms", took[(len(took)-1)*percent/100].Milliseconds())
	}
	return at(50), at(99)
}

// places lists the hosts with the most machines first, and sums up the rest.
func places(some []client.Instance) string {
	const most = 4
	n := map[compute.HostID]int{}
	for _, i := range some {
		if i.Host != "" {
			n[i.Host]++
		}
	}
	hosts := slices.SortedFunc(maps.Keys(n), func(a, b compute.HostID) int {
		return cmp.Or(cmp.Compare(n[b], n[a]), cmp.Compare(a, b))
	})
	var parts []string
	for _, h := range hosts[:min(most, len(hosts))] {
		parts = append(parts, fmt.Sprintf("%s×%d", h, n[h]))
	}
	if rest := len(hosts) - most; rest > 0 {
		parts = append(parts, fmt.Sprintf("and %d more", rest))
	}
	return strings.Join(parts, " ")
}

// showUsage prints what the project uses of its quota.
func (d *demo) showUsage(ctx context.Context, c *client.Client, when string) error {
	q, err := c.Quota(ctx, c.Project())
	if err != nil {
		return err
	}
	var parts []string
	for _, r := range q.Resources {
		if r.Limit != nil {
			parts = append(parts, fmt.Sprintf("%s %d of %d", r.Class, r.Used, *r.Limit))
		}
	}
	fmt.Fprintf(d.out, "  quota %-6s %s\n", when+":", strings.Join(parts, ", "))
	return nil
}

func valueNames(c compute.Capability) string {
	var names []string
	for _, v := range c.Values {
		names = append(names, string(v.Value))
	}
	return strings.Join(names, ", ")
}
