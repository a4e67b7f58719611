// SPDX-License-Identifier: Apache-2.0

package celltest

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/berth-project/berth/pkg/compute"
	"github.com/berth-project/berth/pkg/embedded"
	"github.com/berth-project/berth/pkg/kafkatest"
	"github.com/berth-project/berth/pkg/localkafka"
	"github.com/berth-project/berth/pkg/wire/rest"
)

// daemons are all there are, and what each needs to start at all.
var daemons = map[string][]string{
	"api": {"--set", "listen=127.0.0.1:0"}, "queues": {"--set", "status.listen=127.0.0.1:0"},
	"conductor": {
		"--set",
		"status.listen=127.0.0.1:0",
	},
	"agent": {"--set", "status.listen=127.0.0.1:0", "--set", "host=h1"},
}

// spawn starts the berth binary without waiting for anything.
func spawn(t *testing.T, env []string, args ...string) *process {
	t.Helper()
	p := &process{t: t, name: args[0], out: &lines{news: make(chan struct{})}, done: make(chan struct{})}
	p.cmd = exec.Command(berth(t), args...)
	p.cmd.Env = append(os.Environ(), env...)
	p.cmd.Stdout, p.cmd.Stderr = p.out, p.out
	p.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if err := p.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	go func() {
		_ = p.cmd.Wait() // how it ended is asked of ProcessState
		close(p.done)
	}()
	t.Cleanup(p.kill)
	return p
}

// refusesToStart runs a daemon that must not start: how it ends and what it says.
func refusesToStart(t *testing.T, args ...string) (int, string) {
	t.Helper()
	p := spawn(t, nil, args...)
	select {
	case <-p.done:
	case <-time.After(patience):
		t.Errorf("%v has not ended", args)
		p.kill()
	}
	text, _ := p.out.text()
	return p.cmd.ProcessState.ExitCode(), text
}

// A daemon refuses settings that it does not know or that make no sense, before
// it does anything, and says which and where.
func TestWrongSettings(t *testing.T) {
	laughs := "a: &a [x,x,x,x,x,x,x,x,x]\n"
	for i := range 9 {
		laughs += fmt.Sprintf(
			"%c: &%c [%s]\n",
			'b'+i,
			'b'+i,
			strings.TrimSuffix(strings.Repeat(fmt.Sprintf("*%c,", 'a'+i), 9), ","),
		)
	}
	for kind, needs := range daemons {
		for name, c := range map[string]struct {
			file, says string
			env        []string
		}{
			"unknown":             {file: "nonsense: 1\n", says: "nonsense"},
			"misspelt":            {file: "kafka:\n  brokrs: [a:1]\n", says: "kafka.brokers"},
			"wrong type":          {file: "kafka:\n  partitions: many\n", says: "kafka.partitions"},
			"a list for one":      {file: "kafka:\n  prefix: [a, b]\n", says: "kafka.prefix"},
			"a section for one":   {file: "kafka:\n  prefix:\n    a: b\n", says: "kafka.prefix"},
			"twice":               {file: "kafka:\n  prefix: a.\nkafka:\n  prefix: b.\n", says: "line 3"},
			"twice inside":        {file: "kafka:\n  prefix: a.\n  prefix: b.\n", says: "line 3"},
			"no mapping":          {file: "- 1\n- 2\n", says: "section"},
			"no YAML":             {file: "kafka: [\n", says: "line"},
			"bytes":               {file: "\x00\xff\xfe", says: ""},
			"references":          {file: laughs, says: ""},
			"too few":             {file: "kafka:\n  partitions: -1\n", says: "kafka.partitions"},
			"beyond any number":   {file: "kafka:\n  partitions: 9223372036854775808\n", says: "kafka.partitions"},
			"no topic name":       {file: "kafka:\n  prefix: a/../b\n", says: "kafka.prefix"},
			"variable":            {says: "BERTH_KAFKA_PARTITIONS", env: []string{"BERTH_KAFKA_PARTITIONS=many"}},
			"variable, negative":  {says: "BERTH_KAFKA_PARTITIONS", env: []string{"BERTH_KAFKA_PARTITIONS=-7"}},
			"variable, log level": {says: "BERTH_LOG_LEVEL", env: []string{"BERTH_LOG_LEVEL=loud"}},
		} {
			t.Run(kind+"/"+name, func(t *testing.T) {
				file := filepath.Join(t.TempDir(), "settings.yaml")
				if err := os.WriteFile(file, []byte(c.file), 0o644); err != nil {
					t.Fatal(err)
				}
				for _, variable := range c.env {
					name, value, _ := strings.Cut(variable, "=")
					t.Setenv(name, value)
				}
				code, text := refusesToStart(t, append([]string{kind, "--config", file}, needs...)...)
				if code != 2 || !strings.Contains(text, c.says) || strings.Contains(text, "goroutine") ||
					len(text) > 20_000 {
					t.Errorf("exit code %d, wanted 2 and %q:\n%.2000s", code, c.says, text)
				}
			})
		}
	}
	for _, totals := range []string{"VCPU=-1", "VCPU=9223372036854775807", "vcpu=1", "CUSTOM_\xff=1"} {
		t.Run("agent/totals "+totals, func(t *testing.T) {
			code, text := refusesToStart(t, "agent", "--set", "host=h1", "--set", "driver.fake.totals="+totals)
			if code != 2 || !strings.Contains(text, "totals") {
				t.Errorf("%s", text)
			}
		})
	}
}

// Brokers without share groups: every daemon says so and what to do, is not
// ready, and goes on by itself once they were upgraded.
func TestKafkaTooOld(t *testing.T) {
	t.Parallel()
	for kind, needs := range daemons {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			ports, err := localkafka.FreePorts(1)
			if err != nil {
				t.Fatal(err)
			}
			old, err := embedded.Start(embedded.Options{APIsOf: "3.9", Port: ports[0]})
			if err != nil {
				t.Fatal(err)
			}
			address, dir := old.Addrs()[0], t.TempDir()
			args := append([]string{kind, "--set", "kafka.brokers=" + address}, needs...)
			if kind == "agent" {
				args = append(args, "--set", "state="+dir, "--set", "driver.fake.world="+dir)
			}
			p := spawn(t, nil, args...)
			p.says("too old")
			p.says("Kafka 4.2 or later")
			face := "http://" + awaitLog(t, p.out, `listening.*"address": ?"([0-9.:]+)"`)
			unready(t, face, "too old")
			old.Close()
			upgraded, err := embedded.Start(embedded.Options{Port: ports[0]})
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(upgraded.Close)
			awaitReady(t, face)
			p.terminate()
		})
	}
}

func awaitReady(t *testing.T, face string) {
	t.Helper()
	awaitReadyz(t, face, "it is ready", func(code int, _ string) bool { return code == http.StatusOK })
}

// load boots all the time, each machine until it is accepted.
type load struct {
	r      *rig
	cancel context.CancelFunc
	all    sync.WaitGroup

	mu       sync.Mutex
	accepted []compute.InstanceID
	refused  []refusal // every answer that was none of 202
	news     chan struct{}
}

type refusal struct {
	status int
	after  string // Retry-After
	body   rest.Problem
	broken error // no answer that is a problem
}

// begins boots n at once, again and again.
func (r *rig) begins(n int) *load {
	ctx, cancel := context.WithCancel(r.t.Context())
	l := &load{r: r, cancel: cancel, news: make(chan struct{}, 1)}
	for range n {
		l.all.Go(func() {
			for ctx.Err() == nil {
				l.one(ctx)
			}
		})
	}
	r.t.Cleanup(l.end)
	return l
}

// end lets those under way be accepted, and no more.
func (l *load) end() {
	l.cancel()
	l.all.Wait()
}

func (l *load) one(ctx context.Context) {
	id := compute.InstanceID(uuid.NewString())
	for {
		refused := l.ask(id)
		l.mu.Lock()
		if refused == nil {
			l.accepted = append(l.accepted, id)
		} else {
			l.refused = append(l.refused, *refused)
		}
		l.mu.Unlock()
		select {
		case l.news <- struct{}{}:
		default:
		}
		passes(ctx, 20*time.Millisecond) // the pace of this very load
		// What was never accepted may be there all the same: ask until it is
		// known, or the test is over.
		if refused == nil || l.r.t.Context().Err() != nil {
			return
		}
	}
}

func (l *load) ask(id compute.InstanceID) *refusal {
	body, _ := json.Marshal(rest.Boot{ID: id, Project: "p", Flavor: "m1.small"})
	// A node closes a connection on which nothing comes, maybe in the moment in which something does.
	node := http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	resp, err := node.Post("http://"+l.r.api+"/v1/instances", "application/json", bytes.NewReader(body))
	if err != nil {
		return &refusal{broken: err}
	}
	defer func() { _ = resp.Body.Close() }()
	text, err := io.ReadAll(resp.Body)
	if resp.StatusCode == http.StatusAccepted && err == nil {
		return nil
	}
	out := &refusal{status: resp.StatusCode, after: resp.Header.Get("Retry-After"), broken: err}
	if err := json.Unmarshal(text, &out.body); err != nil ||
		!strings.HasPrefix(resp.Header.Get("Content-Type"), "application/problem+json") {
		out.broken = fmt.Errorf("%d is no problem: %.200s", resp.StatusCode, text)
	}
	return out
}

// until waits for the load to have come so far.
func (l *load) until(what string, done func(accepted, refused int) bool) {
	l.r.t.Helper()
	lost := time.After(2 * patience) // of Kafka's start too
	for {
		l.mu.Lock()
		a, n := len(l.accepted), len(l.refused)
		l.mu.Unlock()
		if done(a, n) {
			return
		}
		select {
		case <-l.news:
		case <-lost:
			l.mu.Lock()
			last := l.refused[max(0, n-1):]
			l.mu.Unlock()
			l.r.t.Fatalf("%s: not with %d accepted and %d refused, the last: %+v", what, a, n, last)
		}
	}
}

func (l *load) counts() (accepted, refused int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.accepted), len(l.refused)
}

// survives takes the broker away under load and brings it back: a client that asks hears
// 503 or 504 and when to come again, nothing that was accepted is lost, nothing
// is doubled, and all goes on.
func (r *rig) survives(kill, revive func() error) {
	r.t.Helper()
	c := r.as("p")
	r.offer(c, nil, []compute.Flavor{small("m1.small")})
	l := r.begins(4)
	l.until("load", func(accepted, _ int) bool { return accepted >= 20 })
	r.must(kill())
	_, before := l.counts()
	l.until("refusals", func(_, refused int) bool { return refused >= before+4 })
	if status, body := get(r.t, "http://"+r.api+"/healthz"); status != http.StatusOK {
		r.t.Errorf("healthz while Kafka is away: %d %s", status, body)
	}
	r.must(revive())
	now, _ := l.counts()
	l.until("it goes on", func(accepted, _ int) bool { return accepted >= now+20 })
	l.end()
	for _, x := range l.refused {
		if x.broken != nil || x.after == "" ||
			x.status != http.StatusServiceUnavailable && x.status != http.StatusGatewayTimeout &&
				x.status != http.StatusTooManyRequests ||
			x.body.Detail == "" {
			r.t.Errorf("refused with %d, Retry-After %q, %+v, %v", x.status, x.after, x.body, x.broken)
			break
		}
	}
	r.await(l.accepted, compute.StateActive)
	r.exactlyOnce(l.accepted)
	r.delete(c, l.accepted)
	r.await(l.accepted, compute.StateDeleted)
	r.unused(c)
	r.empty()
	r.t.Logf("%d accepted, %d refused meanwhile", len(l.accepted), len(l.refused))
}

func TestKafkaGoesAway(t *testing.T) {
	t.Parallel()
	kafka := kafkatest.StartT(t, kafkatest.Options{})
	r := newRig(t, kafkatest.Broker{Addrs: kafka.Addrs(), Prefix: "away.", Real: true}, roomyHosts(8)...).up()
	r.survives(
		func() error { return kafka.Kill(1) },
		func() error { return kafka.Restart(t.Context(), 1) },
	)
}

// The embedded broker has to know after a restart what its producers have written: a version that follows itself here was
// written twice by the broker (see embedded.TestSentAgainAfterARestart), not by a conductor.
func TestEmbeddedBrokerGoesAway(t *testing.T) {
	t.Parallel()
	ports, err := localkafka.FreePorts(1)
	if err != nil {
		t.Fatal(err)
	}
	o := embedded.Options{Port: ports[0], DataDir: t.TempDir()}
	b, err := embedded.Start(o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { b.Close() })
	r := newRig(t, kafkatest.Broker{Addrs: b.Addrs(), Prefix: "away."}, roomyHosts(8)...).up()
	r.survives(
		func() error { b.Close(); return nil },
		func() (err error) { b, err = embedded.Start(o); return err },
	)
}
