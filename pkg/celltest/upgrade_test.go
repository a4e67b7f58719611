// SPDX-License-Identifier: Apache-2.0

package celltest

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/berth-project/berth/compute-agent/hypervisor/fake"
	"github.com/berth-project/berth/pkg/kafkatest"
)

// before is the commit that this version is played beside.
const before = "4aabcbc96907b3de0c42e2a7fbd5fbcb136bee8b"

// older builds the version before, which needs the history of the repository.
func older(t *testing.T) (binary string) {
	t.Helper()
	if os.Getenv("BERTH_TEST_LONG") == "" {
		t.Skip("skipped: it takes minutes; set BERTH_TEST_LONG=1")
	}
	root, err := exec.Command("git", "rev-parse", "--show-toplevel").Output()
	if err != nil {
		t.Skipf("skipped: no git repository here, so the version before cannot be built: %v", err)
	}
	git := func(args ...string) *exec.Cmd {
		cmd := exec.Command("git", args...)
		cmd.Dir = strings.TrimSpace(string(root))
		return cmd
	}
	if err := git("cat-file", "-e", before+"^{commit}").Run(); err != nil {
		t.Skipf(
			"skipped: the history has no commit %.7s (a shallow clone?), so the version before cannot be built",
			before,
		)
	}
	dir := t.TempDir()
	archive := filepath.Join(dir, "before.tar")
	source, binary := filepath.Join(dir, "before"), filepath.Join(dir, "berth-before")
	build := exec.Command("go", "build", "-o", binary, "./cmd/berth")
	build.Dir = source
	build.Env = append(os.Environ(), "GOWORK=off", "GOFLAGS=-buildvcs=false")
	for _, cmd := range []*exec.Cmd{
		git("archive", "--output", archive, before),
		exec.Command("mkdir", source),
		exec.Command("tar", "-xf", archive, "-C", source),
		build,
	} {
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("%s: %v: %s", strings.Join(cmd.Args, " "), err, bytes.TrimSpace(out))
		}
	}
	return binary
}

// upgrade is a cell under load of which one process after the other is replaced by
// one of another version.
type upgrade struct {
	*chaos
	older string // its binary
}

// upgradeForm is two racks of five hosts and 10 boots a second.
var upgradeForm = form{name: "upgrade", agents: 10, rack: 5, rate: 10, full: 50, some: 20}

// parts are all processes of the cell, in the order in which a cell is upgraded.
var parts = []string{"api-a", "api-b", "queues-a", "queues-b", "rack-a", "rack-b", "conductor-a", "conductor-b"}

// TestUpgradeAndBack: the version before and this one stand side by side in one cell on
// real Kafka, under load of boots and deletes. All of the cell is old; then one process
// after the other is replaced by a new one, and then by an old one again. In the same order,
// so that every part is once the newer one and once the older one of any two.
// Of each pair one is told to stop and the other is killed. What was accepted becomes just
// what was asked for, runs on one host once, and uses just its quota.
func TestUpgradeAndBack(t *testing.T) {
	u := &upgrade{older: older(t)}
	r := newRig(t, kafkatest.Kafka(t))
	u.chaos = &chaos{rig: r, form: upgradeForm, running: map[string]*process{}, makes: map[string]func() *process{}}
	world, err := fake.OpenWorld(filepath.Join(r.data, "world"))
	r.must(err)
	r.world = world
	apis := u.add()
	r.api = apis[0]
	r.binary = u.older
	for _, name := range parts {
		u.run(name)
	}
	u.poll("all hosts are known", func() bool {
		hosts, err := u.as("default").Hosts(t.Context())
		r.must(err)
		return len(hosts) == u.agents
	})
	u.offers()
	u.load = u.streams(apis)
	u.load.begin()
	u.goesOn("while all is old")
	for _, to := range []struct{ what, binary string }{{"new", ""}, {"old again", u.older}} {
		r.binary = to.binary
		for _, name := range parts {
			u.replace(name, to.what)
		}
	}
	u.load.end()
	u.settled()
}

// add says how all processes are started; it answers where the API nodes are.
func (u *upgrade) add() (apis []string) {
	for _, x := range []string{"a", "b"} {
		apis = append(apis, u.addAPI("api-"+x))
		u.chaos.add("queues-"+x, "queues", map[string]any{})
		u.chaos.add("conductor-"+x, "conductor", map[string]any{"name": "conductor-" + x})
		u.addRack("rack-" + x)
	}
	return apis
}

// replace ends a process and starts another in its place.
func (u *upgrade) replace(name, what string) {
	u.t.Helper()
	row := u.load.row(fault{name: fmt.Sprintf("%s becomes %s", name, what)})
	u.rows = append(u.rows, row)
	if strings.HasSuffix(name, "a") {
		row.target = "killed"
		u.kill(name)
	} else {
		row.target = "told to stop"
		u.running[name].terminate()
	}
	u.run(name)
	u.goesOn("after " + row.fault)
	u.load.ends(row)
	row.healed = row.to
	row.judge(u.seen, u.load)
	u.t.Log(row.line())
}
