// SPDX-License-Identifier: Apache-2.0

package examples

import (
	"bytes"
	"context"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/berth-project/berth/pkg/cell"
	"github.com/berth-project/berth/pkg/client"
	"github.com/berth-project/berth/pkg/compute"
	"github.com/berth-project/berth/pkg/wire"
)

// patience is how long the test waits for what should happen soon. It asserts nothing about speed.
const patience = 2 * time.Minute

// TestExamples: each program boots a machine that runs, in a whole cell. Those in Go are built first; those in Python
// are run where there is python3, python/kafka.py where that has confluent-kafka, and python/generated.py where packages
// can be installed.
func TestExamples(t *testing.T) {
	built := t.TempDir()
	build := exec.CommandContext(t.Context(), "go", "build", "-o", built+"/", "./...")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	var brokers []string
	o := cell.EverythingOptions{
		Hosts: cell.SimulatedHosts(2), Listen: "127.0.0.1:0", Brokers: func(addrs []string) { brokers = addrs },
	}
	if err := cell.WithEverything(t.Context(), o, func(ctx context.Context, address string) error {
		c, err := client.New(client.Config{Address: address, Project: "web", Patience: patience})
		if err != nil {
			return err
		}
		if _, err := c.AddFlavor(ctx, compute.Flavor{Name: "m1.small", Resources: compute.Resources{
			compute.VCPU: 1, compute.MemoryMB: 512, compute.DiskGB: 1,
		}}, false); err != nil {
			return err
		}
		// The flavor's queue may open later than the programs wait: they run once it has.
		if _, err := c.BootUnder(ctx, "first", compute.Boot{Flavor: "m1.small", Name: "first"}); err != nil {
			return err
		}
		for _, e := range []struct{ program, name string }{
			{"api", "web-1"}, {"python/api.py", "web-2"}, {generated, "web-3"},
			{"franz", "franz-1"}, {"sarama", "sarama-1"}, {"kafkago", "kafkago-1"}, {"python/kafka.py", "kafka-py-1"},
		} {
			t.Run(e.program, func(t *testing.T) {
				out := play(t, ctx, built, e.program, "BERTH_API=http://"+address, "KAFKA="+strings.Join(brokers, ","))
				active(t, ctx, c, e.name)
				if last := out[strings.LastIndex(out, "\n")+1:]; e.program != "python/kafka.py" &&
					!strings.HasPrefix(last, e.name+" active host-0") {
					t.Errorf("it says %q in the end", last)
				}
			})
		}
		return nil
	}); err != nil {
		t.Fatal(err)
	}
}

// play runs a program, and says what it has printed.
func play(t *testing.T, ctx context.Context, built, program string, env ...string) string {
	t.Helper()
	if program == generated {
		env = append(env, generate(t, ctx, env)...) // packages take the time that they take
	}
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	cmd := exec.CommandContext(ctx, filepath.Join(built, program))
	switch {
	case program == generated:
		cmd = exec.CommandContext(ctx, "sh", "-c", `exec python -B "$0"`, program) // that of PATH
	case strings.HasSuffix(program, ".py"):
		cmd = python(t, ctx, program)
	}
	cmd.Env = append(os.Environ(), env...)
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	return strings.TrimSpace(string(out))
}

// python is the call of a script; the test is skipped where it cannot run.
func python(t *testing.T, ctx context.Context, script string) *exec.Cmd {
	t.Helper()
	if _, err := exec.LookPath("python3"); err != nil {
		t.Skip("there is no python3")
	}
	if script == "python/kafka.py" && exec.CommandContext(ctx, "python3", "-c", "import confluent_kafka").Run() != nil {
		t.Skip("python3 has no confluent-kafka; TestRecordOfPython looks at what it would write")
	}
	return exec.CommandContext(ctx, "python3", "-B", script)
}

// generated is the example whose client is generated first.
const generated = "python/generated.py"

// generate makes that client, by the commands that the example names, with packages in a folder of this test. It answers
// the variables with which Python finds both. The test is skipped where the packages are not to be had.
func generate(t *testing.T, ctx context.Context, env []string) []string {
	t.Helper()
	if testing.Short() {
		t.Skip("it installs packages: skipped with -short")
	}
	text, err := os.ReadFile(generated)
	if err != nil {
		t.Fatal(err)
	}
	commands := regexp.MustCompile(`(?m)^    (pip install .*)\n    (openapi-python-client .*)$`).FindStringSubmatch(string(text))
	if commands == nil {
		t.Fatalf("%s does not say how its client is generated", generated)
	}
	dir := t.TempDir()
	if out, err := exec.CommandContext(ctx, "python3", "-m", "venv", filepath.Join(dir, "venv")).CombinedOutput(); err != nil {
		t.Skipf("python3 makes no environment (package python3-venv): %v: %s", err, out)
	}
	env = append(env, "PATH="+filepath.Join(dir, "venv", "bin")+":"+os.Getenv("PATH"), "PYTHONPATH="+dir,
		"PIP_DISABLE_PIP_VERSION_CHECK=1", "PIP_RETRIES=1", "PIP_TIMEOUT=15")
	run := func(command string) (string, error) {
		cmd := exec.CommandContext(ctx, "sh", "-c", command)
		cmd.Dir, cmd.Env = dir, append(os.Environ(), env...)
		out, err := cmd.CombinedOutput()
		return string(out), err
	}
	if out, err := run(commands[1]); err != nil {
		t.Skipf("%s: %v: %s", commands[1], err, out)
	}
	if out, err := run(commands[2]); err != nil || strings.Contains(out, "WARNING") {
		t.Fatalf("%s: %v: the document does not fit: %s", commands[2], err, out)
	}
	return env
}

// active waits until the one instance of this name runs.
func active(t *testing.T, ctx context.Context, c *client.Client, name string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	for told, err := range c.Events(ctx, client.Follow{Present: true}) {
		if err != nil {
			t.Fatal(err)
		}
		if told.Event.Name == name && told.Event.State == "active" {
			return
		}
	}
	t.Fatalf("%s is not active after %s", name, patience)
}

// TestRecordOfPython: what python/kafka.py would write is a request, to the topic and by the partitioner that Berth
// reads by, and brokers make no topic for it. A module of ours, which prints it, takes the place of confluent-kafka.
func TestRecordOfPython(t *testing.T) {
	if _, err := exec.LookPath("python3"); err != nil {
		t.Skip("there is no python3")
	}
	cmd := exec.CommandContext(t.Context(), "python3", "-B", "python/kafka.py")
	cmd.Env = append(os.Environ(), "KAFKA=k1:9092", "PYTHONPATH="+filepath.Join("python", "testdata"))
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	var written struct {
		Config            map[string]any
		Topic, Key, Value string
		Headers           map[string]string
	}
	first, _, _ := bytes.Cut(out, []byte("\n"))
	if err := json.Unmarshal(first, &written); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	if p := written.Config["partitioner"]; p != "murmur2_random" && p != "murmur2" {
		t.Errorf("it partitions by %v", p)
	}
	if written.Config["enable.idempotence"] != true && written.Config["acks"] != "all" {
		t.Errorf("a record may be lost: %v", written.Config)
	}
	if written.Config["allow.auto.create.topics"] != false { // librdkafka's default for producers is true
		t.Errorf("before the cell's first daemon, it makes the topic: %v", written.Config)
	}
	rec := wire.Record{
		Topic: written.Topic, Key: []byte(written.Key), Value: []byte(written.Value),
		Headers: []wire.Header{{Key: "content-type", Value: []byte(written.Headers["content-type"])}},
	}
	q, err := wire.DecodeRequest(rec)
	if err != nil || q.Op != compute.OpBoot || q.Boot.Flavor != "m1.small" || string(q.Project) != written.Key ||
		rec.Topic != (wire.Topics{Prefix: wire.DefaultPrefix}).Requests() {
		t.Errorf("%s: %+v, %v", out, q, err)
	}
}
