// SPDX-License-Identifier: Apache-2.0

package judge

import (
	"go/ast"
	"go/parser"
	"go/token"
	"path/filepath"
	"reflect"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/berth-project/berth/compute-agent/hypervisor"
	"github.com/berth-project/berth/compute-agent/hypervisor/fake"
	"github.com/berth-project/berth/pkg/compute"
	"github.com/berth-project/berth/pkg/lab/sim/schedule"
)

var began = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)

// moment is a time in the schedule's seconds.
func moment(s schedule.Seconds) time.Time { return began.Add(s.Duration()) }

const madeID compute.InstanceID = "0b6e7a52-3c57-5b2e-9f5e-1c1f6a3f0a01"

// made is a recording in which nothing is wrong: vm-1 is booted, runs on host-1 from 4 s
// on, and the world is calm at 60 s.
func made() *Recording {
	boot := compute.Boot{
		Flavor: "m1.small", Image: "debian", Metadata: map[string]string{"a": "b"},
		UserData: "#!", SSHKeys: []string{"key"},
		Attempts: 3, Deadline: time.Minute, Avoid: []compute.HostID{"host-2"},
	}
	f, four := schedule.Flavor("m1.small", 1), schedule.Flavor("", 4).Resources
	s := schedule.Schedule{
		World: schedule.World{
			Hosts:      []schedule.Host{{ID: "host-1", Totals: four}, {ID: "host-2", Totals: four}},
			Flavors:    []compute.Flavor{f},
			Conductors: 1, Managers: 1, Nodes: 1, Partitions: 1,
		},
		Load: []schedule.Load{{At: 1, Op: schedule.LoadBoot, Name: "vm-1", Project: "red", Boot: &boot}},
	}
	r := NewRecording(s)
	r.Start, r.Calm, r.Up, r.Settled, r.Placed = moment(0), moment(60), moment(0), moment(120), moment(100)
	r.Asks = []Ask{{Load: s.Load[0], ID: madeID, Began: moment(1), Answered: moment(1.1), OK: true, Tries: 1}}
	i := compute.Instance{
		ID: madeID, Project: "red", State: compute.StateQueued, Attempt: 1,
		Boot: boot, Queue: "m1.small", Resources: f.Resources,
		AcceptedAt: moment(1.05), QueuedAt: moment(2), ChangedAt: moment(2), Deadline: moment(61.05),
	}
	i.Boot.Name = "vm-1"
	r.logged(2, i)
	spec := hypervisor.Spec{
		Instance: madeID, Project: "red", Attempt: 1, Claim: "c1", Name: "vm-1", Resources: f.Resources,
		Image: boot.Image, Metadata: boot.Metadata, UserData: []byte(boot.UserData), SSHKeys: boot.SSHKeys,
	}
	r.Builds = []Published{{moment(2), compute.Build{
		Instance: madeID, Project: "red", Name: "vm-1", Attempt: 1, Queue: "m1.small", Resources: f.Resources,
		Image: boot.Image, Metadata: boot.Metadata, UserData: []byte(boot.UserData), SSHKeys: boot.SSHKeys,
		Avoid: boot.Avoid, Deadline: i.Deadline, At: moment(2),
	}}}
	r.Given = []Given{{moment(2.5), "host-1", spec}}
	r.Works = []Worked{
		{"host-1", madeID, "Prepare", moment(2.5), moment(2.7)},
		{"host-1", madeID, "Launch", moment(3.5), moment(4)},
	}
	r.Machines = []fake.Event{{At: moment(4), Kind: fake.Launched, Host: "host-1", Instance: madeID, Attempt: 1}}
	r.Launches = []Launch{{moment(3.5), "host-1", madeID, 1, "c1"}}
	i.State, i.Host, i.Claim, i.StartingAt = compute.StateStarting, "host-1", "c1", moment(3)
	r.logged(3, i)
	i.State, i.Power, i.ActiveAt = compute.StateActive, compute.PowerRunning, moment(4)
	r.logged(4, i)
	return r
}

// logged adds the next version of a record.
func (r *Recording) logged(at schedule.Seconds, i compute.Instance) {
	n := len(r.Log)
	i.Version, i.ChangedAt = compute.Version(n+1), moment(at)
	r.Log = append(r.Log, Written{Offset: int64(n), Seen: moment(at), Instance: i})
}

// sees holds that a check says nothing of a recording that is right, and of each that is
// spoilt what is wanted.
func sees(t *testing.T, check func(*Recording) []Violation, spoilt map[string]func(*Recording)) {
	t.Helper()
	if wrong := check(made()); len(wrong) > 0 {
		t.Errorf("of what is right: %v", wrong)
	}
	for want, spoil := range spoilt {
		r := made()
		spoil(r)
		switch wrong := check(r); {
		case want == "" || strings.HasPrefix(want, "right"):
			if len(wrong) > 0 {
				t.Errorf("%s: says %v", want, wrong)
			}
		case len(wrong) == 0:
			t.Errorf("does not see %q", want)
		case !strings.Contains(wrong[0].String(), want):
			t.Errorf("says %q, want %q in it", wrong[0], want)
		}
	}
}

// The recording that the tests of checks spoil is right by all of them.
func TestMadeIsRight(t *testing.T) {
	for _, v := range made().Judge() {
		t.Error(v)
	}
}

// A check that sees nothing looks like a world in which nothing is wrong: some test has to name each of them.
func TestEachCheckHasATest(t *testing.T) {
	files, err := filepath.Glob("*_test.go")
	if err != nil {
		t.Fatal(err)
	}
	named := map[string]bool{}
	for _, file := range files {
		f, err := parser.ParseFile(token.NewFileSet(), file, nil, parser.SkipObjectResolution)
		if err != nil {
			t.Fatal(err)
		}
		ast.Inspect(f, func(n ast.Node) bool {
			if id, ok := n.(*ast.Ident); ok {
				named[id.Name] = true
			}
			return true
		})
	}
	for _, check := range checks() {
		name := runtime.FuncForPC(reflect.ValueOf(check).Pointer()).Name()
		if name = name[strings.LastIndex(name, ".")+1:]; !named[name] {
			t.Errorf("no test names %s: write one with sees, for each violation that it finds and for what is right", name)
		}
	}
}
