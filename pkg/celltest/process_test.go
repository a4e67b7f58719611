// SPDX-License-Identifier: Apache-2.0

package celltest

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/berth-project/berth/compute-agent/hypervisor/fake"
	"github.com/berth-project/berth/pkg/client"
	"github.com/berth-project/berth/pkg/compute"
	"github.com/berth-project/berth/pkg/kafkatest"
	"github.com/berth-project/berth/pkg/wire"
)

// process is one berth daemon as a process of its own.
type process struct {
	t    *testing.T
	name string
	cmd  *exec.Cmd
	out  *lines
	done chan struct{}
}

// lines keeps what a process says and lets a test wait for a line.
type lines struct {
	mu   sync.Mutex
	all  bytes.Buffer
	news chan struct{}
}

func (l *lines) Write(b []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.all.Write(b)
	close(l.news)
	l.news = make(chan struct{})
	return len(b), nil
}

func (l *lines) text() (string, <-chan struct{}) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.all.String(), l.news
}

// daemonOf starts a daemon with these settings over its sample and waits until
// it says that it is ready.
func (r *rig) daemonOf(name, kind string, settings map[string]any) *process {
	r.t.Helper()
	p := r.begun(name, kind, settings)
	p.says("ready")
	return p
}

// begun is such a daemon, ready or not.
func (r *rig) begun(name, kind string, settings map[string]any) *process {
	r.t.Helper()
	if settings["kafka"] == nil {
		settings["kafka"] = r.kafkaSection()
	}
	body, err := json.Marshal(settings) // JSON is YAML
	r.must(err)
	file := filepath.Join(r.data, name+".yaml")
	r.must(os.WriteFile(file, body, 0o644))
	p := &process{t: r.t, name: name, out: &lines{news: make(chan struct{})}, done: make(chan struct{})}
	p.cmd = exec.Command(cmp.Or(r.binary, berth(r.t)), kind, "--config", file)
	p.cmd.Env = append(os.Environ(), r.env...)
	p.cmd.Stdout, p.cmd.Stderr = p.out, p.out
	p.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	r.must(p.cmd.Start())
	go func() {
		_ = p.cmd.Wait() // how it ended is asked of ProcessState
		close(p.done)
	}()
	r.t.Cleanup(func() {
		p.kill()
		if r.t.Failed() {
			text, _ := p.out.text()
			r.t.Logf("%s said:\n%s", p.name, text[max(0, len(text)-4000):])
		}
	})
	return p
}

// kafkaSection is how the rig's own parts reach Kafka.
func (r *rig) kafkaSection() map[string]any {
	kafka := map[string]any{
		"brokers":    r.kafka.Brokers,
		"prefix":     r.kafka.Prefix,
		"partitions": r.kafka.Partitions,
	}
	if sasl := r.kafka.SASL; sasl.Mechanism != "" {
		kafka["sasl"] = map[string]any{
			"mechanism":     sasl.Mechanism,
			"user":          sasl.User,
			"password_file": sasl.PasswordFile,
		}
	}
	if tls := r.kafka.TLS; tls.CA != "" {
		kafka["tls"] = map[string]any{"ca": tls.CA, "cert": tls.Cert, "key": tls.Key}
	}
	return kafka
}

// says waits until the process has said so.
func (p *process) says(what string) {
	p.t.Helper()
	lost := time.After(patience)
	for {
		text, news := p.out.text()
		if strings.Contains(text, what) {
			return
		}
		select {
		case <-news:
		case <-p.done:
			p.t.Fatalf("%s ended without saying %q:\n%s", p.name, what, text)
		case <-lost:
			p.t.Fatalf("%s does not say %q:\n%s", p.name, what, text)
		}
	}
}

// kill is kill -9.
func (p *process) kill() {
	_ = p.cmd.Process.Kill() // it may be gone already
	<-p.done
}

// terminate asks it to stop and checks that it does so in order.
func (p *process) terminate() {
	p.t.Helper()
	if err := p.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		p.t.Fatal(err)
	}
	select {
	case <-p.done:
	case <-time.After(patience):
		p.t.Fatalf("%s does not stop", p.name)
	}
	if code := p.cmd.ProcessState.ExitCode(); code != 0 {
		text, _ := p.out.text()
		p.t.Errorf("%s exits with %d:\n%s", p.name, code, text)
	}
}

// processRig is a cell whose parts are processes; only the witness runs here.
func processRig(t *testing.T) *rig {
	r := newRig(t, kafkatest.Kafka(t))
	world, err := fake.OpenWorld(filepath.Join(r.data, "world"))
	r.must(err)
	r.world = world
	return r
}

func (r *rig) apiProcess(name string) *process {
	r.t.Helper()
	address := freeAddress(r.t)
	p := r.daemonOf(name, "api", map[string]any{"listen": address})
	r.api = address
	return p
}

func (r *rig) conductorProcess(name string) *process {
	r.t.Helper()
	return r.daemonOf(name, "conductor", map[string]any{"name": name})
}

// agentProcess runs n simulated hosts in one process.
func (r *rig) agentProcess(name string, n int, prepare time.Duration) *process {
	r.t.Helper()
	return r.daemonOf(name, "agent", map[string]any{
		"host": name, "state": filepath.Join(r.data, name),
		"driver": map[string]any{"kind": "fake", "fake": map[string]any{
			"world": filepath.Join(r.data, "world"), "hosts": n,
			"totals":       map[string]any{"VCPU": 64, "MEMORY_MB": 262144, "DISK_GB": 2000},
			"prepare_time": prepare.String(),
		}},
	})
}

func freeAddress(t *testing.T) string {
	t.Helper()
	ports, err := kafkatest.FreePorts(1)
	if err != nil {
		t.Fatal(err)
	}
	return fmt.Sprintf("127.0.0.1:%d", ports[0])
}

// The same binary as separate processes places 2,000 boots at 100/s over 100
// agents and 10 queues; fullLoad's quarter under the race detector.
func TestSeparateProcesses(t *testing.T) {
	t.Parallel()
	r := processRig(t)
	r.daemonOf("queues", "queues", map[string]any{})
	r.conductorProcess("conductor-a")
	r.conductorProcess("conductor-b")
	r.apiProcess("api")
	const racks, perRack = 5, 20
	for i := range racks {
		r.agentProcess(fmt.Sprintf("rack%d", i), perRack, 0)
	}
	c := r.as("p")
	r.poll("all hosts are there, and take work", func() bool {
		hosts, err := c.Hosts(t.Context())
		r.must(err)
		off := func(h client.Host) bool { return h.State != compute.HostEnabled.String() }
		return len(hosts) == racks*perRack && !slices.ContainsFunc(hosts, off)
	})
	var flavors []compute.Flavor
	for i := range 10 {
		flavors = append(flavors, small(compute.FlavorName(fmt.Sprintf("m1.f%d", i))))
	}
	r.offer(c, nil, flavors)
	n, rate := fullLoad()
	ids := r.bootAtRate(
		"p",
		n,
		rate,
		func(i int) compute.Boot { return compute.Boot{Flavor: flavors[i%len(flavors)].Name} },
	)
	r.await(ids, compute.StateActive)
	r.exactlyOnce(ids)
	r.logLatency(ids)
}

// Kill -9 of the conductor in the middle of 500 boots: the other takes over, all
// are active exactly once, and the quota is exact. The projects are in every
// partition, so some are the victim's, however they are shared out.
func TestConductorKilled(t *testing.T) {
	t.Parallel()
	r := processRig(t)
	r.daemonOf("queues", "queues", map[string]any{})
	victim := r.conductorProcess("conductor-a")
	r.apiProcess("api")
	r.agentProcess("rack", 20, 0)
	users := r.everywhere(5, compute.Resources{compute.Instances: 100})
	r.offer(users[0], nil, []compute.Flavor{small("m1.small")})
	var all []compute.InstanceID
	of := map[*client.Client][]compute.InstanceID{}
	boot := func(n int) {
		for i := range n {
			c := users[i%len(users)]
			ids := r.boot(c, 1, compute.Boot{Flavor: "m1.small"})
			all, of[c] = append(all, ids...), append(of[c], ids...)
		}
	}
	boot(250)
	r.conductorProcess("conductor-b")
	boot(50)
	victim.kill()
	boot(200)
	r.await(all, compute.StateActive)
	for _, c := range users {
		r.uses(c, compute.Instances, 100)
		more := r.boot(c, 1, compute.Boot{Flavor: "m1.small"})
		r.await(more, compute.StateError)
		r.reason(more[0], compute.QuotaExceeded)
	}
	r.exactlyOnce(all)
	for _, c := range users {
		r.delete(c, of[c])
	}
	r.await(all, compute.StateDeleted)
	for _, c := range users {
		r.unused(c)
	}
}

// everywhere is so many projects with this quota, in every partition some.
func (r *rig) everywhere(n int, quota compute.Resources) []*client.Client {
	r.t.Helper()
	var users []*client.Client
	taken := map[int32]bool{}
	for i := 0; len(users) < n; i++ {
		p := compute.Project(fmt.Sprintf("p%d", i))
		at := wire.Partition(p, r.kafka.Partitions)
		if taken[at] && len(users)+int(r.kafka.Partitions)-len(taken) >= n {
			continue // the places left are for the other partitions
		}
		taken[at] = true
		c := r.as(p)
		_, err := c.SetQuota(r.t.Context(), compute.Quota{Project: p, Limits: quota})
		r.must(err)
		users = append(users, c)
	}
	return users
}

// Kill -9 of an agent: what it was preparing is built elsewhere by itself; what
// it had launched runs on and is adopted when it comes back; never two.
func TestAgentKilled(t *testing.T) {
	t.Parallel()
	r := processRig(t)
	r.daemonOf("queues", "queues", map[string]any{})
	r.conductorProcess("conductor")
	r.apiProcess("api")
	victim := r.agentProcess("victim", 1, 0)
	c := r.as("p")
	r.offer(c, nil, []compute.Flavor{small("m1.small")})
	running := r.boot(c, 10, compute.Boot{Flavor: "m1.small"})
	r.await(running, compute.StateActive)
	victim.kill()

	// The victim comes back with a driver that never finishes preparing, takes
	// what it can, and is killed over it.
	slow := r.agentProcess("victim", 1, time.Hour)
	preparing := r.boot(c, 3, compute.Boot{Flavor: "m1.small"})
	r.poll("the victim builds", func() bool {
		h, err := c.Host(t.Context(), "victim")
		r.must(err)
		return h.Building > 0
	})
	slow.kill()
	r.agentProcess("other", 1, 0)
	r.await(preparing, compute.StateActive)
	for _, id := range preparing {
		if host := r.seen.get(id).Host; host != "other" {
			t.Errorf("%s is on %s", id, host)
		}
	}
	r.exactlyOnce(append(running, preparing...))

	r.agentProcess("victim", 1, 0)
	r.delete(c, running)
	r.await(running, compute.StateDeleted)
	r.sane()
}

// Kill -9 of the API after a 202: the instance comes, and another node never
// answers 404 for it.
func TestAPIKilledAfterAccepting(t *testing.T) {
	t.Parallel()
	r := processRig(t)
	r.daemonOf("queues", "queues", map[string]any{})
	r.conductorProcess("conductor")
	victim := r.apiProcess("api-a")
	c := r.as("p")
	r.offer(c, nil, []compute.Flavor{small("m1.small")})
	ids := r.boot(c, 20, compute.Boot{Flavor: "m1.small"})
	victim.kill()
	r.apiProcess("api-b")
	other := r.as("p")
	for _, id := range ids {
		if _, err := other.Instance(t.Context(), id); err != nil {
			t.Errorf("after a 202: %v", err)
		}
	}
	r.agentProcess("rack", 2, 0)
	r.await(ids, compute.StateActive)
	r.exactlyOnce(ids)
}

// A daemon that is asked to stop does so, and says so.
func TestDaemonsStopInOrder(t *testing.T) {
	t.Parallel()
	r := processRig(t)
	all := []*process{
		r.daemonOf("queues", "queues", map[string]any{}), r.conductorProcess("conductor"),
		r.apiProcess("api"), r.agentProcess("rack", 2, 0),
	}
	for _, p := range all {
		p.terminate()
	}
}

// uses awaits that a project's usage of a class, as the API tells it, is exactly this.
func (r *rig) uses(c *client.Client, class compute.ResourceClass, want int64) {
	r.t.Helper()
	r.poll(fmt.Sprintf("%s uses %d %s", c.Project(), want, class), func() bool {
		q, err := c.Quota(r.t.Context(), c.Project())
		r.must(err)
		for _, u := range q.Resources {
			if u.Class == class {
				return u.Used == want
			}
		}
		return want == 0
	})
}
