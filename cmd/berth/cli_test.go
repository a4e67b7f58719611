// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/berth-project/berth/flavors"
	"github.com/berth-project/berth/pkg/api"
	"github.com/berth-project/berth/pkg/auth"
	"github.com/berth-project/berth/pkg/cell"
	"github.com/berth-project/berth/pkg/compute"
	"github.com/berth-project/berth/pkg/statusserver"
	"github.com/berth-project/berth/pkg/wire"
)

// TestScripts runs what a user could type against a real API node. Those in
// testdata/script need nothing special behind the node and hold for any Berth;
// those in testdata/script/far need the far end of this file, and callers of those in
// testdata/script/access have to sign in.
func TestScripts(t *testing.T) {
	for _, dir := range []string{"testdata/script", "testdata/script/far", "testdata/script/access"} {
		testscript.Run(t, testscript.Params{
			Dir:   dir,
			Setup: func(e *testscript.Env) error { return setUp(e, strings.HasSuffix(dir, "access")) },
			Condition: func(name string) (bool, error) {
				if name != "bash-completion" {
					return false, fmt.Errorf("there is no condition %s", name)
				}
				return hasBashCompletion(t), nil
			},
			Cmds: map[string]func(ts *testscript.TestScript, neg bool, args []string){
				"berth": func(ts *testscript.TestScript, neg bool, args []string) {
					if code := runBerth(ts, args); (code == 0) == neg {
						ts.Fatalf("berth %s: exit code %d", strings.Join(args, " "), code)
					}
				},
				// exits CODE ARGS… runs berth and wants that exit code.
				"exits": func(ts *testscript.TestScript, _ bool, args []string) {
					want, err := strconv.Atoi(args[0])
					ts.Check(err)
					if code := runBerth(ts, args[1:]); code != want {
						ts.Fatalf("berth %s: exit code %d, want %d", strings.Join(args[1:], " "), code, want)
					}
				},
				// until REGEXP ARGS… runs berth until a line of what it prints matches, and ends it.
				"until": func(ts *testscript.TestScript, _ bool, args []string) {
					ts.Check(runUntil(ts, regexp.MustCompile(args[0]), args[1:]))
				},
				// soon REGEXP ARGS… runs berth again and again until what it prints matches.
				"soon": func(ts *testscript.TestScript, _ bool, args []string) {
					again(ts, "stdout", args[0], args[1:], func() bool { return runBerth(ts, args[1:]) == 0 })
				},
				// ends CODE REGEXP ARGS… runs berth again and again until it ends with that exit code and what it says
				// matches: of what takes longer than the few seconds that it waits it has nothing to say.
				"ends": func(ts *testscript.TestScript, _ bool, args []string) {
					want, err := strconv.Atoi(args[0])
					ts.Check(err)
					again(ts, "stderr", args[1], args[2:], func() bool { return runBerth(ts, args[2:]) == want })
				},
				// offers REGEXP LINE has tab.sh press tab behind a line again and again until what bash offers matches:
				// nothing is offered that takes longer than somebody waits who has pressed tab.
				"offers": func(ts *testscript.TestScript, _ bool, args []string) {
					again(ts, "stdout", args[0], args[1:], func() bool { return ts.Exec("bash", "tab.sh", args[1]) == nil })
				},
				// appears REGEXP FILE waits until what a command in the background has written there matches.
				"appears": func(ts *testscript.TestScript, _ bool, args []string) {
					want, tick := regexp.MustCompile("(?m)"+args[0]), time.NewTicker(10*time.Millisecond)
					defer tick.Stop()
					for lost := time.After(soonEnough); ; {
						text, _ := os.ReadFile(ts.MkAbs(args[1])) // it may not be there yet
						if want.Match(text) {
							return
						}
						select {
						case <-tick.C:
						case <-lost:
							ts.Fatalf("%s: never %q:\n%s", args[1], args[0], text)
						}
					}
				},
			},
		})
	}
}

// bashCompletion is the library of the package bash-completion, which what berth completion bash prints needs.
const bashCompletion = "/usr/share/bash-completion/bash_completion"

func hasBashCompletion(t *testing.T) bool {
	_, err := exec.LookPath("bash")
	if err == nil {
		_, err = os.Stat(bashCompletion)
	}
	if err != nil && os.Getenv("BERTH_REQUIRE_BASH") != "" {
		t.Errorf("BERTH_REQUIRE_BASH is set: %v", err)
	}
	return err == nil
}

// again runs something until it ends as it should and what it writes there matches.
func again(ts *testscript.TestScript, to, want string, args []string, run func() bool) {
	for lost := time.Now().Add(soonEnough); ; {
		if run() && regexp.MustCompile("(?m)"+want).MatchString(ts.ReadFile(to)) {
			return
		}
		if time.Now().After(lost) {
			ts.Fatalf("%s: never %q", strings.Join(args, " "), want)
		}
	}
}

func runBerth(ts *testscript.TestScript, args []string) int {
	self, err := os.Executable()
	ts.Check(err)
	err = ts.Exec(self, args...)
	if exit, ok := err.(*exec.ExitError); ok {
		return exit.ExitCode()
	}
	ts.Check(err)
	return 0
}

// runUntil runs berth until a line of what it prints matches.
func runUntil(ts *testscript.TestScript, want *regexp.Regexp, args []string) error {
	self, err := os.Executable()
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(context.Background(), soonEnough)
	defer cancel()
	cmd := exec.CommandContext(ctx, self, args...)
	for _, name := range []string{"BERTH_API", "BERTH_TOKEN", "HOME", "TZ", asBerth} {
		cmd.Env = append(cmd.Env, name+"="+ts.Getenv(name))
	}
	cmd.Dir = ts.MkAbs(".")
	var said bytes.Buffer
	out, err := cmd.StdoutPipe()
	if cmd.Stderr = cmd.Stdout; err == nil {
		err = cmd.Start()
	}
	if err != nil {
		return err
	}
	for lines := bufio.NewScanner(io.TeeReader(out, &said)); lines.Scan(); {
		if want.MatchString(lines.Text()) {
			_ = cmd.Process.Kill()
			_ = cmd.Wait() // it was killed
			return nil
		}
	}
	return fmt.Errorf("berth %s: ended (%v) without a line like %s:\n%s", strings.Join(args, " "), cmd.Wait(), want, &said)
}

// firstToken is a node's only one, an admin's.
func firstToken(node *api.Server) string {
	text, id, hash := auth.NewToken()
	node.TokenRecords([]wire.Record{wire.EncodeToken(compute.Token{
		ID: id, Hash: hash, Name: "first", Role: compute.RoleAdmin,
	})}, true)
	return text
}

// setUp starts an API node for one script.
func setUp(e *testscript.Env, signIn bool) error {
	f := &far{topics: wire.Topics{Prefix: "test."}, instances: map[compute.InstanceID]compute.Instance{}}
	f.catalog = flavors.New(
		flavors.Options{
			Topics: f.topics,
			Log:    f,
			View:   f,
			Work:   func(q compute.QueueName) int { return f.node.Work(q) },
		},
	)
	f.catalog.Apply(nil, true)
	c := api.Config{
		Topics: f.topics, Partitions: 4, InstancesID: "9f3c21ab", Publisher: f, Syncer: f, Heard: speaks{f},
		Catalog:        cell.Offers{Service: f.catalog},
		ConsoleTimeout: time.Second, DeadAfter: 3 * time.Second,
	}
	if signIn {
		c.Tokens = f
	}
	node, err := api.New(c)
	if err != nil {
		return err
	}
	f.node = node
	e.Setenv("FIRST", firstToken(node))
	e.Setenv("HOME", e.WorkDir)
	for _, read := range []func([]wire.Record, bool){
		node.Instances, node.Requests, node.Queues, node.Hosts, node.Advice,
	} {
		read(nil, true)
	}
	f.beacons()
	ctx, cancel := context.WithCancel(context.Background())
	go f.beat(ctx)
	done := make(chan error, 1)
	face := statusserver.New(statusserver.Options{Address: "127.0.0.1:0"})
	face.Serve(node.Handler())
	go func() { done <- face.Run(ctx) }()
	<-face.Ready()
	e.Defer(func() {
		cancel()
		if err := <-done; err != nil {
			panic(err)
		}
	})
	e.Setenv("BERTH_API", "http://"+face.Addr().String())
	e.Setenv(asBerth, "1")
	self, err := os.Executable()
	if err != nil {
		return err
	}
	e.Setenv("BERTH", self) // for exec … &
	e.Setenv("TZ", "UTC")
	e.Setenv("BASH_COMPLETION", bashCompletion)
	return nil
}

// far is the far end of the API node: it answers requests by instance records
// and catalog changes by queues, as conductor, queue manager and agents do
// together. What a machine's name begins with says what becomes of it.
type far struct {
	topics  wire.Topics
	node    *api.Server
	catalog *flavors.Service

	mu        sync.Mutex
	instances map[compute.InstanceID]compute.Instance
	hosts     map[compute.HostID]compute.Beacon
	written   int64 // records of instances
}

// Sync has nothing to catch up with.
func (f *far) SyncPartition(ctx context.Context, _ int32) error { return f.Sync(ctx) }

func (f *far) Sync(context.Context) error { return nil }

// speaks is what hosts have said: host-3 always has just now, so that it is alive however busy this machine is.
type speaks struct{ *far }

func (f speaks) Sync(context.Context) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.node.Hosts([]wire.Record{wire.EncodeBeacon(f.hosts["host-3"])}, true)
	return nil
}

// Send takes records as a broker does and has them acted upon.
func (f *far) Send(_ context.Context, recs ...wire.Record) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, rec := range recs {
		switch {
		case rec.Topic == f.topics.Catalog():
			f.catalog.Apply([]wire.Record{rec}, true)
			f.openQueues()
		case rec.Topic == f.topics.Tokens():
			f.node.TokenRecords([]wire.Record{rec}, true)
		case rec.Topic == f.topics.Requests():
			if err := f.decide(rec); err != nil {
				return err
			}
		default:
			if err := f.command(rec); err != nil {
				return err
			}
		}
	}
	return nil
}

// Append is Send; every stream has 41 records already.
func (f *far) Append(ctx context.Context, rec wire.Record) (int64, error) {
	return 41, f.Send(ctx, rec)
}

// write appends an instance to the log, which the node reads.
func (f *far) write(i compute.Instance) {
	rec := wire.EncodeInstance(i).At(f.topics.Instances(), wire.Partition(i.Project, 4), f.written)
	rec.Time = time.Now()
	f.written++
	f.node.Instances([]wire.Record{rec}, true)
}

// openQueues lists the queues of all flavors but those called slow…, and closes
// those that no flavor has any more.
func (f *far) openQueues() {
	axes := map[compute.AxisName]compute.Capability{}
	for _, c := range f.catalog.Catalog().Capabilities() {
		axes[c.Axis] = c
	}
	for _, flavor := range f.catalog.Catalog().Flavors() {
		if strings.HasPrefix(string(flavor.Name), "slow") {
			continue
		}
		for _, q := range compute.Permutations(flavor, axes) {
			q.Group = "agents-0"
			hosts := compute.HostCounts{Eligible: 3}
			switch {
			case q.Resources[compute.VCPU] > 8:
				hosts = compute.HostCounts{NeverFits: 3}
			case isFull(flavor.Name):
				hosts = compute.HostCounts{Full: 3}
			}
			f.node.Queues([]wire.Record{wire.EncodeQueue(q)}, true)
			f.node.Advice([]wire.Record{wire.EncodeAdvice(compute.Advice{
				At: time.Now(), About: []compute.QueueAdvice{{Queue: q.Name, Eligible: hosts.Eligible, Hosts: hosts}},
			})}, true)
		}
	}
}

// isFull says that no host has room for this flavor.
func isFull(f compute.FlavorName) bool { return strings.HasPrefix(string(f), "full") }

func (f *far) decide(rec wire.Record) error {
	req, err := wire.DecodeRequest(rec)
	if err != nil {
		return err
	}
	now := time.Now()
	if req.Op == compute.OpFence || req.Op == compute.OpForget {
		f.lose(req, now)
		return nil
	}
	i, known := f.instances[req.Instance]
	switch {
	case req.Op == compute.OpBoot && !known:
		i = f.admit(req, now)
	case req.Op == compute.OpDelete && known && !strings.HasPrefix(i.Boot.Name, "stuck"):
		i.State, i.EndedAt = compute.StateDeleted, now
	case req.Op == compute.OpDelete && known:
		i.State = compute.StateDeleting
	case req.Op == compute.OpChange && known && i.State != compute.StateDeleted:
		if i.Boot, err = req.Change.Apply(i.Boot); err != nil {
			return nil // rejected
		}
	case req.Op != compute.OpBoot && known && i.State == compute.StateActive:
		power(&i, req, now)
	default:
		return nil
	}
	i.Version++
	i.ChangedAt = now
	f.instances[i.ID] = i
	f.write(i)
	f.count(i.Host)
	return nil
}

// count has a host say how many machines it has; host-1 and host-2 never do.
func (f *far) count(h compute.HostID) {
	if h != "host-3" {
		return
	}
	b := f.hosts[h]
	b.Machines = 0
	for _, i := range f.instances {
		if i.Host == h && i.State.OnHost() {
			b.Machines++
		}
	}
	f.hosts[h] = b
	f.node.Hosts([]wire.Record{wire.EncodeBeacon(b)}, true)
}

// power answers a stop, start or reboot. Those called stuck… never do, and those
// called hardly… cannot be rebooted.
func power(i *compute.Instance, req compute.Request, now time.Time) {
	c := &compute.PowerCommand{Op: req.Op, Command: req.Command, Hard: req.Hard, Version: i.Version + 1, At: now}
	if strings.HasPrefix(i.Boot.Name, "stuck") {
		i.Command = c
		return
	}
	i.Command, i.Answer = nil, &compute.PowerAnswer{Op: c.Op, Command: c.Command, At: now}
	switch {
	case req.Op == compute.OpStop:
		i.Power, i.Stopped = compute.PowerStopped, &compute.Reason{
			Code:   compute.StoppedByCommand,
			Detail: fmt.Sprintf("hard %t", req.Hard),
		}
	case req.Op == compute.OpReboot && strings.HasPrefix(i.Boot.Name, "hardly"):
		i.Answer.Failed = "no such reset"
	default:
		i.Power, i.Stopped = compute.PowerRunning, nil
	}
}

// lose builds a dead host's instances on host-2, or ends them: all if the host is
// forgotten, and those pinned to it.
func (f *far) lose(req compute.Request, now time.Time) {
	for id, i := range f.instances {
		if i.Host != req.Host || !i.State.OnHost() {
			continue
		}
		i.Version, i.ChangedAt, i.Host, i.Fence = i.Version+1, now, "host-2", 0
		if req.Op == compute.OpForget || i.Boot.Host != "" {
			i.State, i.EndedAt, i.Reason = compute.StateError, now, &compute.Reason{
				Code: compute.HostLost,
				Host: req.Host,
			}
		}
		f.instances[id] = i
		f.write(i)
	}
}

// admit makes the instance as it comes to be in the end.
func (f *far) admit(req compute.Request, now time.Time) compute.Instance {
	b := req.Boot.WithDefaults()
	flavor, _ := f.catalog.Catalog().Flavor(b.Flavor)
	i := compute.Instance{
		ID: req.Instance, Project: req.Project, Boot: b, Queue: compute.NameQueue(b.Flavor, b.With),
		Resources: flavor.Resources,
		Attempt:   1, AcceptedAt: req.At, QueuedAt: now, Deadline: now.Add(b.Deadline), State: compute.StateQueued,
	}
	fail := func(r compute.Reason) compute.Instance {
		i.State, i.Reason, i.EndedAt = compute.StateError, &r, now
		return i
	}
	if used, limit, ok := f.overQuota(i); ok {
		return fail(
			compute.Reason{
				Code:     compute.QuotaExceeded,
				Resource: compute.Instances,
				Limit:    limit,
				Used:     used,
				Asked:    1,
			},
		)
	}
	never := compute.HostCounts{NeverFits: 2}
	switch {
	case flavor.Resources[compute.VCPU] > 8 && b.OnNoCapacity == compute.FailAtOnce:
		return fail(compute.Reason{Code: compute.NeverFits, Hosts: never})
	case flavor.Resources[compute.VCPU] > 8 && b.Deadline < time.Minute:
		return fail(compute.Reason{Code: compute.DeadlineExceeded})
	case flavor.Resources[compute.VCPU] > 8, strings.HasPrefix(b.Name, "waits"), isFull(b.Flavor):
		return i
	case strings.HasPrefix(b.Name, "broken"):
		i.Attempt = b.Attempts
		for n := compute.Attempt(1); n <= b.Attempts; n++ {
			i.Failures = append(
				i.Failures,
				compute.Failure{
					Host:    "host-1",
					Attempt: n,
					Class:   compute.FailureHost,
					Message: "disk failed",
					At:      now,
				},
			)
		}
		return fail(compute.Reason{Code: compute.AttemptsExhausted})
	}
	i.State, i.Host, i.Claim, i.Power = compute.StateActive, cmp.Or(b.Host, "host-1"), "claim", compute.PowerRunning
	f.quarantine(i)
	i.StartingAt, i.ActiveAt = now, now
	return i
}

// failedStarts is why an agent quarantines its host until an operator enables it; stuckDriver is no matter of trust.
const (
	failedStarts = "starts failed in a row, the last: no room in pool a"
	stuckDriver  = "the hypervisor does not answer"
)

// quarantine has a host fall ill after the start of a machine: of those called sickens… until an operator enables it,
// and of those called wedges… for good.
func (f *far) quarantine(i compute.Instance) {
	b := f.hosts[i.Host]
	switch {
	case strings.HasPrefix(i.Boot.Name, "sickens"):
		b.Reason = failedStarts
	case strings.HasPrefix(i.Boot.Name, "wedges"):
		b.Reason = stuckDriver
	default:
		return
	}
	b.State = compute.HostQuarantined
	f.hosts[i.Host] = b
	f.node.Hosts([]wire.Record{wire.EncodeBeacon(b)}, true)
}

// overQuota looks at the number of instances alone.
func (f *far) overQuota(i compute.Instance) (used, limit int64, over bool) {
	for _, q := range f.catalog.Catalog().Quotas() {
		if n, ok := q.Limits[compute.Instances]; ok && q.Project == i.Project {
			limit, over = n, true
		}
	}
	for _, other := range f.instances {
		if other.Project == i.Project && other.State.Counts() {
			used++
		}
	}
	return used, limit, over && used >= limit
}

// command does what an operator wants of a host, but never on host-2.
func (f *far) command(rec wire.Record) error {
	if rec.Topic == f.topics.Hosts() {
		delete(f.hosts, compute.HostID(rec.Key))
		f.node.Hosts([]wire.Record{rec}, true)
		return nil
	}
	host, ok := f.topics.HostOf(rec.Topic)
	cmd, err := wire.DecodeCommand(rec)
	if err == nil && ok && cmd.Op == compute.CommandFenced {
		return nil
	}
	if err == nil && ok && cmd.Op == compute.CommandConsole {
		f.printed(host, cmd)
		return nil
	}
	if err != nil || !ok || cmd.Desired == nil {
		return fmt.Errorf("record for %s: %w", rec.Topic, err)
	}
	if b := f.hosts[host]; host != "host-2" {
		if b.State != compute.HostQuarantined || b.Reason == failedStarts {
			b.State, b.Reason = cmd.Desired.State, cmd.Desired.Reason
		}
		b.DesiredSeen, b.Deadline = cmd.Desired.Version, cmd.Desired.Deadline
		f.hosts[host] = b
		f.node.Hosts([]wire.Record{wire.EncodeBeacon(b)}, true)
	}
	return nil
}

// consoleText is what machines have printed: numbered lines of ten bytes.
var consoleText = func() (text []byte) {
	for n := range 15_000 {
		text = fmt.Appendf(text, "%09d\n", n)
	}
	return text
}()

// printed answers for a console of which the first 10,000 bytes are not kept any more. Machines called mute… have
// none, and dumb… say nothing.
func (f *far) printed(host compute.HostID, cmd compute.Command) {
	const first = 10_000
	end := int64(len(consoleText))
	c := compute.Console{Ask: cmd.Console.ID, Host: host, Project: cmd.Project, Instance: cmd.Instance, At: time.Now()}
	switch name := f.instances[cmd.Instance].Boot.Name; {
	case strings.HasPrefix(name, "dumb"):
		return
	case strings.HasPrefix(name, "mute"):
		c.Refusal, c.Message = compute.ConsoleNotKept, "the driver exec keeps no consoles"
	default:
		from := cmd.Console.Offset
		if from < 0 {
			from += end
		}
		c.Offset, c.End = min(max(from, first), end), end
		c.Data = consoleText[c.Offset:min(c.Offset+int64(cmd.Console.Limit), end)]
	}
	f.node.Consoles([]wire.Record{wire.EncodeConsole(c)}, true)
}

func (f *far) beacons() {
	f.hosts = map[compute.HostID]compute.Beacon{}
	for _, h := range []compute.HostID{"host-1", "host-2", "host-3"} {
		f.hosts[h] = compute.Beacon{
			Host: h, Machines: map[compute.HostID]uint32{"host-1": 1, "host-2": 1}[h],
			Waiting: []compute.QueueName{"m1.small"}, At: time.Now(),
			Inventory: compute.Inventory{
				Totals: compute.Resources{
					compute.VCPU:     8,
					compute.MemoryMB: 16 << 10,
					compute.DiskGB:   200,
					"CUSTOM_GPU":     1,
				},
				Traits: []compute.Trait{"CUSTOM_TRAIT"},
			},
			Free: compute.Resources{compute.VCPU: 7, compute.MemoryMB: 14 << 10, compute.DiskGB: 180, "CUSTOM_GPU": 1},
		}
		if rack, is := map[compute.HostID]string{"host-1": "r1", "host-2": "r2"}[h]; is {
			b := f.hosts[h]
			b.Labels = map[string]string{"rack": rack}
			f.hosts[h] = b
		}
		f.node.Hosts([]wire.Record{wire.EncodeBeacon(f.hosts[h])}, true)
	}
}

// beat has hosts be heard of again and again, so that a script may take longer than it takes to be silent. In between
// they are silent for long enough to be declared dead.
func (f *far) beat(ctx context.Context) {
	for every := time.NewTicker(compute.SilentAfter / 4); ; {
		select {
		case <-every.C:
		case <-ctx.Done():
			every.Stop()
			return
		}
		f.mu.Lock()
		for _, b := range f.hosts {
			f.node.Hosts([]wire.Record{wire.EncodeBeacon(b)}, true)
		}
		f.mu.Unlock()
	}
}
