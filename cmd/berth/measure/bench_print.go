// SPDX-License-Identifier: Apache-2.0

package measure

import (
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"

	"github.com/berth-project/berth/pkg/cli"
	"github.com/berth-project/berth/pkg/lab"
	"github.com/berth-project/berth/pkg/lab/bench"
)

// printBench shows a result to a person.
func printBench(w io.Writer, r bench.Result) error {
	if r.Ramp != nil {
		if err := printRamp(w, *r.Ramp); err != nil {
			return err
		}
	}
	load := fmt.Sprintf("at %v/s", r.Settings.Rate)
	if r.Ramp != nil && r.Ramp.Knee != nil {
		load = fmt.Sprintf("at %v/s", r.Ramp.Knee.Rate)
	}
	if n := r.Settings.Closed; n > 0 {
		load = fmt.Sprintf("%d in flight", n)
	}
	fmt.Fprintf(w, "\n%d boots %s via %s on %d hosts, %d queues\n\n", r.Boots, load, r.Via, r.Hosts, r.Queues)
	g := cli.Grid{Right: []bool{false, true, true, true, true}}
	g.Rows = append(g.Rows, []string{"MILLISECONDS", "P50", "P90", "P99", "MAX", ""})
	row := func(name string, q bench.Quantiles, what string) {
		g.Rows = append(g.Rows, []string{name, ms(q.P50), ms(q.P90), ms(q.P99), ms(q.Max), what})
	}
	row("accept", r.AcceptMS, "from when it was due until the 202")
	row("queued", r.QueuedMS, "until seen queued")
	row("granted", r.GrantedMS, "until seen starting")
	row("active", r.ActiveMS, "until seen active")
	row("accepted→granted", r.AcceptedGrantedMS, "from the 202 until seen starting")
	if r.Floor != nil {
		row("  the floor's", r.Floor.AcceptedGrantedMS, "the same record work and nothing else")
	}
	if err := g.Print(w); err != nil {
		return err
	}
	if r.CPU.Roles != nil {
		fmt.Fprintln(w)
		if err := benchRoles(r).Print(w); err != nil {
			return err
		}
	}
	fmt.Fprintln(w)
	return benchFacts(r).Print(w)
}

// printRamp shows a row for each rate, and where the knee is.
func printRamp(w io.Writer, r bench.Ramp) error {
	g := cli.Grid{Right: []bool{true, true, true, true, true, true, true, true, true}}
	g.Rows = append(
		g.Rows,
		[]string{"RATE/S", "BOOTS", "ACTIVE/S", "GRANTED P50", "P99", "ACTIVE P50", "P99", "RETRIES", "CPU MS A BOOT"},
	)
	for _, s := range r.Steps {
		g.Rows = append(g.Rows, []string{
			fmt.Sprintf(
				"%.1f",
				s.Rate,
			),
			fmt.Sprint(s.Boots), fmt.Sprintf("%.1f", s.BootsPerS), ms(s.AcceptedGrantedMS.P50),
			ms(s.AcceptedGrantedMS.P99),
			ms(s.ActiveMS.P50), ms(s.ActiveMS.P99), fmt.Sprint(s.Retries), ms(cpuOfABoot(s.CPU.Share, s.Boots)),
		})
	}
	fmt.Fprintln(w)
	if err := g.Print(w); err != nil {
		return err
	}
	knee := "below the first rate"
	if r.Knee != nil {
		knee = fmt.Sprintf("%v/s", r.Knee.Rate)
	}
	_, err := fmt.Fprintf(w, "\nknee: %s: %s\n", knee, r.Ended)
	return err
}

// benchFacts are the numbers that are no latencies.
func benchFacts(r bench.Result) cli.Grid {
	var g cli.Grid
	add := func(name, format string, args ...any) {
		g.Rows = append(g.Rows, []string{name, fmt.Sprintf(format, args...)})
	}
	add(
		"outcome:",
		"%d active, %d error, %d refused, %d lost, %d doubled",
		r.Active,
		r.Error,
		r.Refused,
		r.Lost,
		r.Doubled,
	)
	add("throughput:", "%.1f boots/s", r.BootsPerS)
	if r.Floor != nil {
		add(
			"over the floor:",
			"p50 ×%.2f, p99 ×%.2f, CPU ×%.2f (floor %.1f boots/s, %s)",
			r.FloorRatio.P50,
			r.FloorRatio.P99,
			r.FloorRatio.CPU,
			r.Floor.BootsPerS,
			cpu(r.Floor.CPU.Share, r.Floor.Boots),
		)
	}
	add(
		"retries:",
		"%d: %d denied, %d released, %d attempts above 1; %d machines prepared in vain",
		r.Retries,
		r.Denied,
		r.Released,
		r.Attempts,
		r.Wasted,
	)
	add("fill:", "%.1f %% of the hosts' processors taken in the end", 100*r.Fill)
	add("requests:", "%s", requests(r.Requests))
	if r.Floor != nil {
		add("  the floor's:", "%s", requests(r.Floor.Requests))
	}
	add("traffic:", "%s", traffic(r.Bytes))
	if r.Floor != nil {
		add("  the floor's:", "%s", traffic(r.Floor.Bytes))
	}
	if s := r.Served; s != nil {
		add("brokers:", "%s", served(*s, "a boot"))
	}
	if i := r.Idle; i != nil {
		add("idle:", "%.3f requests/s of a host, in %.0f s", i.HostRequests, i.Seconds)
		if s := i.Served; s != nil {
			add("  brokers:", "%s", served(*s, "a second"))
		}
	}
	add("CPU:", "%s", cpu(r.CPU.Share, r.Boots))
	if o, s := r.CPU.Others, r.CPU.Stolen; o != nil && s != nil && *o+*s > r.CPU.Berth/4 {
		add(
			"",
			"and %.1f s by other processes, %.1f s not given to this virtual machine: "+
				"in quiet the latencies would be lower",
			*o,
			*s,
		)
	}
	memory := cli.InUnits(r.RSS.Berth>>20) + " Berth and bench"
	if r.RSS.Broker != nil {
		memory += ", " + cli.InUnits(*r.RSS.Broker>>20) + " broker"
	}
	add("memory:", "%s", memory)
	add("agents:", "%d connections in all, %d fsyncs (%s)", r.Connections, r.Fsyncs, r.Settings.JournalsOn)
	for _, said := range slices.Sorted(maps.Keys(r.Warnings)) {
		add("warned:", "%d × %s", r.Warnings[said], said)
	}
	add(
		"machine:",
		"%d × %s, %s, Linux %s",
		r.Machine.Cores,
		r.Machine.CPU,
		cli.InUnits(r.Machine.Memory>>20),
		r.Machine.Kernel,
	)
	add(
		"versions:",
		"berth %s, %s, Kafka %s (%s), franz-go %s",
		r.Versions.Berth,
		r.Versions.Go,
		r.Versions.Kafka,
		r.Settings.Kafka,
		r.Versions.FranzGo,
	)
	return g
}

// cpu says how much processor time went where, and to each boot.
func cpu(s bench.Share[float64], boots int) string {
	parts := []string{fmt.Sprintf("%.1f s Berth and bench", s.Berth)}
	if s.Broker != nil {
		parts = append(parts, fmt.Sprintf("%.1f s broker", *s.Broker))
	}
	return fmt.Sprintf("%s: %.1f ms a boot", strings.Join(parts, ", "), cpuOfABoot(s, boots))
}

// cpuOfABoot is how many milliseconds of processor time a boot takes, all told.
func cpuOfABoot(s bench.Share[float64], boots int) float64 {
	all := s.Berth
	if s.Broker != nil {
		all += *s.Broker
	}
	return 1000 * all / float64(max(boots, 1))
}

// requests says how many requests a boot costs the brokers, and which roles make them.
func requests(r map[lab.Role]map[string]bench.Requests) string {
	sum := 0.0
	var parts []string
	for _, part := range slices.Sorted(maps.Keys(r)) {
		if part == lab.RoleLoad {
			continue
		}
		n := 0.0
		for _, api := range r[part] {
			n += api.PerBoot
		}
		sum += n
		parts = append(parts, fmt.Sprintf("%.1f %s", n, part))
	}
	return fmt.Sprintf("%.1f a boot: %s", sum, strings.Join(parts, ", "))
}

// traffic says how many bytes of a boot go to the brokers and come from them, and
// whose they are.
func traffic(b map[lab.Role]bench.Bytes) string {
	var sum bench.Bytes
	var parts []string
	for _, part := range slices.Sorted(maps.Keys(b)) {
		if part == lab.RoleLoad {
			continue
		}
		sum.Sent += b[part].Sent
		sum.Received += b[part].Received
		parts = append(parts, fmt.Sprintf("%.1f + %.1f %s", b[part].Sent/1000, b[part].Received/1000, part))
	}
	return fmt.Sprintf(
		"%.1f kB sent and %.1f kB received a boot: %s",
		sum.Sent/1000,
		sum.Received/1000,
		strings.Join(parts, ", "),
	)
}

func ms(x float64) string {
	if x >= 100 {
		return fmt.Sprintf("%.0f", x)
	}
	return fmt.Sprintf("%.1f", x)
}
