// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/cockroachdb/datadriven"
	"pgregory.net/rapid"

	"github.com/berth-project/berth/pkg/compute"
)

// TestScenarios runs the files of testdata/scenarios; the world lives on within one file.
//
//	wanted NAME[:VCPUS] …      what the catalog asks for, all of it
//	topic NAME [ours]          somebody makes a topic (anew)
//	gone NAME                  somebody deletes a topic
//	init NAME GROUP            its share state is initialised
//	listed NAME GROUP [STATE] [ERROR]   as of its present topic
//	placeholder NAME ERROR
//	work NAME N / fresh NAME / settled BOOL
//	plan                       shows the next steps
//	do [N]                     plans and does the first N steps, or all
//	run                        until quiet; shows every layer
//	show
func TestScenarios(t *testing.T) {
	datadriven.Walk(t, "testdata/scenarios", func(t *testing.T, path string) {
		w := newWorld(10)
		datadriven.RunTest(t, path, func(t *testing.T, d *datadriven.TestData) string {
			out := &strings.Builder{}
			for line := range strings.Lines(d.Input) {
				command(w, out, strings.Fields(line))
			}
			for _, b := range w.breaches {
				fmt.Fprintln(out, "BREACH:", b)
			}
			return out.String()
		})
	})
}

func command(w *world, out *strings.Builder, words []string) {
	arg := func(i int) string {
		if i < len(words) {
			return words[i]
		}
		return ""
	}
	name := compute.QueueName(arg(1))
	switch words[0] {
	case "wanted":
		w.wanted = nil
		for _, a := range words[1:] {
			w.wanted = append(w.wanted, queue(a))
		}
	case "wantedN":
		w.wanted = nil
		for i := range atoi(arg(1)) {
			w.wanted = append(w.wanted, queue(fmt.Sprintf("q%02d", i)))
		}
	case "topic":
		w.seen.Topics[name] = Topic{ID: w.newID(), Ours: arg(2) == "ours"}
	case "gone":
		delete(w.seen.Topics, name)
	case "init":
		w.init(compute.Queue{Name: name, Group: arg(2), TopicID: w.seen.Topics[name].ID})
	case "listed":
		q := queue(arg(1))
		q.Group, q.TopicID, q.Error = arg(2), w.seen.Topics[q.Name].ID, arg(4)
		if arg(3) == "closed" {
			q.State = compute.QueueClosed
		}
		w.seen.Listed[q.Name] = q
	case "placeholder":
		q := queue(arg(1))
		q.State, q.Error = compute.QueueClosed, arg(2)
		w.seen.Listed[q.Name] = q
	case "work":
		w.seen.Work[name] = atoi(arg(2))
	case "fresh":
		w.seen.Fresh[name] = arg(2) != "false"
	case "settled":
		w.seen.Settled = arg(1) == "true"
	case "show":
		out.WriteString(w.show())
	default:
		w.act(out, words[0], arg(1))
	}
}

func (w *world) act(out *strings.Builder, verb, arg string) {
	for layer := 0; ; layer++ {
		steps := w.plan()
		if layer == 20 {
			fmt.Fprintln(out, "NEVER QUIET")
			return
		}
		for i, s := range steps {
			fmt.Fprintf(out, "%s %s", s.Op, s.Queue.Name)
			if s.Op == InitShare || s.Op == List {
				fmt.Fprintf(out, " group=%s id=%s", s.Queue.Group, s.Queue.TopicID)
			}
			fmt.Fprintf(out, ": %s\n", s.Why)
			if verb != "plan" && (arg == "" || i < atoi(arg)) {
				w.do(s)
			}
		}
		if len(steps) == 0 {
			fmt.Fprintln(out, "quiet")
			return
		}
		if verb != "run" {
			return
		}
	}
}

func queue(s string) compute.Queue {
	name, vcpus, ok := strings.Cut(s, ":")
	if !ok {
		vcpus = "1"
	}
	return compute.Queue{
		Name: compute.QueueName(name), Flavor: compute.FlavorName(name),
		Resources: compute.Resources{compute.VCPU: int64(atoi(vcpus))},
	}
}

func atoi(s string) int {
	n := 0
	if _, err := fmt.Sscan(s, &n); err != nil {
		panic("not a number: " + s)
	}
	return n
}

// From any state, planning and doing again and again reaches what is wanted and
// is then quiet, whatever is interrupted on the way; no step breaks a rule.
func TestAnyStateBecomesWhatIsWanted(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		w := newWorld(rapid.IntRange(1, 4).Draw(t, "per group"))
		randomState(t, w)
		for layer := range 40 {
			steps := w.plan()
			stop := len(steps)
			if layer < 10 && rapid.Bool().Draw(t, "interrupted") {
				stop = rapid.IntRange(0, len(steps)).Draw(t, "after")
			}
			for _, s := range steps[:stop] {
				w.do(s)
			}
			if layer < 10 {
				disturb(t, w)
			}
			if layer == 12 {
				w.seen.Settled = true
			}
			if layer > 12 && len(steps) == 0 {
				break
			}
			if layer == 39 {
				t.Fatalf("still not quiet: %v", steps)
			}
		}
		if len(w.breaches) > 0 {
			t.Fatal(strings.Join(w.breaches, "\n"))
		}
		if missing := w.reached(); len(missing) > 0 {
			t.Fatalf("quiet too early:\n%s", strings.Join(missing, "\n"))
		}
	})
}

func name(t *rapid.T) string {
	return rapid.SampledFrom([]string{"a", "b", "c", "d", "e"}).Draw(t, "queue")
}

func randomState(t *rapid.T, w *world) {
	w.seen.Settled = rapid.Bool().Draw(t, "settled")
	for _, n := range []string{"a", "b", "c", "d", "e"} {
		if rapid.IntRange(0, 3).Draw(t, "wanted") > 0 {
			w.wanted = append(w.wanted, queue(n))
		}
		if rapid.Bool().Draw(t, "topic") {
			command(w, nil, []string{"topic", n, rapid.SampledFrom([]string{"", "ours"}).Draw(t, "whose")})
			if rapid.Bool().Draw(t, "init") {
				command(w, nil, []string{"init", n, w.groupWithRoom()})
			}
		}
		if rapid.Bool().Draw(t, "listed") {
			group := w.groupWithRoom()
			if s := w.seen.Shares[compute.QueueName(n)]; len(s) > 0 {
				group = s[0].Group
			} else if w.seen.Topics[compute.QueueName(n)].ID != "" {
				command(w, nil, []string{"init", n, group}) // as of every topic that is listed
			}
			command(w, nil, []string{
				"listed", n, group, rapid.SampledFrom([]string{"open", "closed"}).Draw(t, "state"),
			})
		}
	}
	disturb(t, w)
	w.breaches = nil
}

// groupWithRoom keeps random states legal: no group is over full before we begin.
func (w *world) groupWithRoom() string {
	g := newGroups(w.seen, w.rules)
	return g.take()
}

// disturb is what users, operators and conductors do meanwhile. Work appears
// only where the protocol lets it: in a queue that is open, or closed just now.
func disturb(t *rapid.T, w *world) {
	n := name(t)
	q := compute.QueueName(n)
	switch rapid.IntRange(0, 6).Draw(t, "disturbance") {
	case 0:
		if l, ok := w.seen.Listed[q]; ok && (l.State == compute.QueueOpen || w.seen.Fresh[q]) {
			w.seen.Work[q] = 1
		}
	case 1:
		clear(w.seen.Work)
	case 2:
		w.wanted = slices.DeleteFunc(w.wanted, func(old compute.Queue) bool { return old.Name == q })
		w.wanted = append(w.wanted, queue(n))
	case 3:
		w.wanted = slices.DeleteFunc(w.wanted, func(old compute.Queue) bool { return old.Name == q })
	case 4:
		w.wanted = slices.DeleteFunc(w.wanted, func(old compute.Queue) bool { return old.Name == q })
		w.wanted = append(w.wanted, queue(n+":2"))
	case 5:
		if w.seen.Work[q] == 0 {
			delete(w.seen.Topics, q)
		}
	case 6:
		if w.seen.Topics[q].ID != "" && w.seen.Work[q] == 0 {
			w.seen.Topics[q] = Topic{ID: w.newID()}
		}
	}
}

// What single steps hang by that lead to the same end anyway.
func TestNext(t *testing.T) {
	rules := Rules{PerGroup: 1, Group: func(n int) string { return fmt.Sprintf("g%d", n) }}
	q := func(name string) compute.Queue { return compute.Queue{Name: compute.QueueName(name)} }
	topics := map[compute.QueueName]Topic{"a": {ID: "new", Ours: true}, "b": {ID: "new", Ours: true}}
	open := compute.Queue{Name: "a", Group: "g7", TopicID: "old", State: compute.QueueOpen}
	failed := open
	failed.Error = "no leader"
	for name, c := range map[string]struct {
		wanted []compute.Queue
		seen   Seen
		want   string
	}{
		"wanted twice, and not in order": {
			[]compute.Queue{q("b"), q("a"), q("b")}, Seen{Topics: topics}, "init share a g0, init share b g1",
		},
		"share state in another group than the queue's": {
			[]compute.Queue{open}, Seen{
				Listed: map[compute.QueueName]compute.Queue{"a": open}, Topics: topics,
				Shares: map[compute.QueueName][]Share{"a": {{Group: "g1", TopicID: "new"}}},
			}, "init share a g7, delete topic b",
		},
		"share state of the topic before": {
			[]compute.Queue{q("a")}, Seen{
				Topics: topics, Shares: map[compute.QueueName][]Share{"a": {{Group: "g0", TopicID: "old"}}},
			}, "init share a g0, delete topic b",
		},
		"closed with an error": {
			nil, Seen{Listed: map[compute.QueueName]compute.Queue{"a": failed}}, "close a g7",
		},
	} {
		var got []string
		for _, s := range Next(c.wanted, c.seen, rules) {
			got = append(got, strings.TrimSpace(fmt.Sprint(s.Op, " ", s.Queue.Name, " ", s.Queue.Group, " ", s.Queue.Error)))
		}
		slices.Sort(got)
		want := strings.Split(c.want, ", ")
		if slices.Sort(want); !slices.Equal(got, want) {
			t.Errorf("%s: %q, want %q", name, got, want)
		}
	}
}

func BenchmarkNext20000(b *testing.B) {
	w := newWorld(14_000)
	for i := range 20_000 {
		w.wanted = append(w.wanted, queue(fmt.Sprintf("q%05d", i)))
	}
	for _, s := range w.plan() {
		w.do(s)
	}
	for b.Loop() {
		if len(w.plan()) != 20_000 {
			b.Fatal("not what was expected")
		}
	}
}
