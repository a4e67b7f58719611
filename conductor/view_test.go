// SPDX-License-Identifier: Apache-2.0

package conductor

import (
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/berth-project/berth/pkg/compute"
	"github.com/berth-project/berth/pkg/wire"
)

func beacon(host compute.HostID, journal compute.JournalID, free int64) wire.Record {
	r := compute.Resources{compute.VCPU: free, compute.MemoryMB: free}
	return wire.EncodeBeacon(compute.Beacon{
		Host: host, Journal: journal, Free: r, Inventory: compute.Inventory{Totals: r},
	})
}

func commands(t *testing.T, effects []wire.Effect) []string {
	t.Helper()
	var list []string
	for _, e := range effects {
		if strings.HasPrefix(e.Record.Topic, "host.") {
			c, err := wire.DecodeCommand(e.Record)
			if err != nil {
				t.Fatal(err)
			}
			list = append(list, e.Record.Topic+" "+c.Op.String())
		}
	}
	return list
}

// TestQueueListedLater: work for a queue that is not listed waits for it, and
// the news makes a turn come.
func TestQueueListedLater(t *testing.T) {
	k := newCell(t)
	k.c.Catalog(
		[]wire.Record{wire.EncodeFlavor(compute.Flavor{Name: "m2", Resources: compute.Resources{compute.VCPU: 2}})},
		true,
	)
	if res := k.read(k.bootOf(1, "p", "m2")); len(res.Effects) != 0 {
		t.Fatalf("published to %v", topics(res.Effects))
	}
	k.want("p", 1, compute.StateQueued, "")
	drain(k.wakes)
	k.c.Queues([]wire.Record{listed("m2")}, true)
	if len(k.wakes) != 1 {
		t.Error("nobody is woken")
	}
	if diff := cmp.Diff([]string{"build.m2/0"}, topics(k.read().Effects)); diff != "" {
		t.Error(diff)
	}
	k.c.Queues([]wire.Record{wire.Tombstone([]byte("m2")), {Key: []byte("m3"), Value: []byte("?")}}, false)
	if res := k.read(k.bootOf(2, "p", "m2")); len(res.Effects) != 0 {
		t.Errorf("published to %v", topics(res.Effects))
	}
}

func drain(c chan struct{}) {
	for len(c) > 0 {
		<-c
	}
}

// TestHostNews: beacons from before the end of the hosts topic are no signs of
// life; later a new journal, or the first word after silence, makes a turn come.
func TestHostNews(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k := newCell(t)
		k.read(k.boot(1, "p"), k.report(compute.ReportClaim, 1, "p", "h1"),
			k.report(compute.ReportStarted, 1, "p", "h1"))
		hosts := func(journal compute.JournalID, end bool, woken bool, want ...string) {
			t.Helper()
			drain(k.wakes)
			k.c.Hosts([]wire.Record{beacon("h1", journal, 1)}, end)
			if (len(k.wakes) > 0) != woken {
				t.Errorf("journal %s: woken %d times", journal, len(k.wakes))
			}
			if diff := cmp.Diff(want, commands(t, k.read().Effects)); diff != "" {
				t.Errorf("journal %s: %s", journal, diff)
			}
		}
		hosts("j0", false, false)
		hosts("j1", true, true)
		hosts("j1", true, false)
		hosts("j2", true, true, "host.h1 confirm")
		k.read(k.report(compute.ReportStarted, 1, "p", "h1"))
		k.c.Hosts([]wire.Record{wire.Tombstone([]byte("h9")), {Key: []byte("h8"), Value: []byte("?")}}, true)
		time.Sleep(61 * time.Second)
		k.pass(61 * time.Second)
		hosts("j2", true, true, "host.h1 confirm")
	})
}

// TestSilenceBeginsAnew: a partition that is gained when the hosts are known
// counts silence from then on.
func TestSilenceBeginsAnew(t *testing.T) {
	k := newCell(t)
	k.c.Hosts(nil, true)
	k.read(k.boot(1, "p"), k.report(compute.ReportClaim, 1, "p", "h1"))
	k.now = k.now.Add(time.Hour)
	p := wire.Partition("p", partitions)
	k.gain(p, 99)
	if diff := cmp.Diff([]string{"host.h1 grant"}, commands(t, k.pass(16*time.Second).Effects)); diff != "" {
		t.Error(diff)
	}
	k.pass(50 * time.Second)
	if got := commands(t, k.pass(50*time.Second).Effects); got != nil {
		t.Errorf("a silent host is told %v", got)
	}
}

// TestFreeResourcesDoNotMatter: whatever a host says it has, the same is decided.
func TestFreeResourcesDoNotMatter(t *testing.T) {
	decide := func(free int64) []wire.Effect {
		k := newCell(t)
		k.c.Hosts([]wire.Record{beacon("h1", "j1", free)}, true)
		k.read(k.boot(1, "p"))
		k.c.Hosts([]wire.Record{beacon("h1", "j1", free)}, true)
		k.read(k.report(compute.ReportClaim, 1, "p", "h1"), k.boot(2, "p"))
		k.pass(20 * time.Second)
		return k.sent
	}
	if diff := cmp.Diff(decide(1000), decide(0), cmp.AllowUnexported(publishTag{})); diff != "" {
		t.Error(diff)
	}
}

// TestNobodyReadsFreeResources: nothing in the conductor's code names what a
// beacon says of a host's resources.
func TestNobodyReadsFreeResources(t *testing.T) {
	files := 0
	err := filepath.WalkDir(".", func(path string, d os.DirEntry, err error) error {
		if err != nil || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") {
			return err
		}
		files++
		parsed, err := parser.ParseFile(token.NewFileSet(), path, nil, 0)
		if err != nil {
			return err
		}
		ast.Inspect(parsed, func(n ast.Node) bool {
			if s, ok := n.(*ast.SelectorExpr); ok {
				switch s.Sel.Name {
				case "Free", "Inventory", "Totals", "Unmanaged", "Waiting", "Machines":
					t.Errorf("%s reads %s", path, s.Sel.Name)
				}
			}
			return true
		})
		return nil
	})
	if err != nil || files < 10 {
		t.Errorf("%d files read: %v", files, err)
	}
}

// TestAdviceExplains: a request that does not want to wait gets the last advice as its reason.
func TestAdviceExplains(t *testing.T) {
	k := newCell(t)
	k.c.Advice([]wire.Record{{Value: []byte("?")},
		wire.EncodeAdvice(compute.Advice{At: epoch, About: []compute.QueueAdvice{
			{Queue: "m1.small", Hosts: compute.HostCounts{NeverFits: 3}},
		}})}, true)
	k.read(k.requested(compute.Request{
		Op: compute.OpBoot, Project: "p", Instance: id(1),
		Boot: &compute.Boot{Flavor: "m1.small", OnNoCapacity: compute.FailAtOnce},
	}))
	k.pass(10 * time.Second)
	k.want("p", 1, compute.StateError, compute.NeverFits)
}
