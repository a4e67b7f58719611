// SPDX-License-Identifier: Apache-2.0

package celltest

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/berth-project/berth/pkg/cell"
	"github.com/berth-project/berth/pkg/compute"
	"github.com/berth-project/berth/pkg/doctor"
	kafkaadmin "github.com/berth-project/berth/pkg/kafka/admin"
	"github.com/berth-project/berth/pkg/kafka/loop"
	"github.com/berth-project/berth/pkg/kafkatest"
	"github.com/berth-project/berth/pkg/localkafka"
	"github.com/berth-project/berth/pkg/wire"
)

// examine runs berth doctor on a cell.
func (r *rig) examine(args ...string) (code int, stdout, stderr string) {
	r.t.Helper()
	return reaches(
		r.t,
		append(
			[]string{"doctor", "--kafka", strings.Join(r.kafka.Brokers, ","), "--prefix", r.kafka.Prefix},
			args...)...)
}

// doctorSaid is what berth doctor says as data, as far as these tests go.
type doctorSaid struct {
	Findings []doctor.Finding `json:"findings"`
}

// findings are those of a level, in short and sorted.
func findings(t *testing.T, text string, level doctor.Level) []string {
	t.Helper()
	var r doctorSaid
	if err := json.Unmarshal([]byte(text), &r); err != nil {
		t.Fatal(err, text)
	}
	var out []string
	for _, f := range r.Findings {
		if f.Level == level {
			out = append(out, f.About+": "+f.Check+": "+f.Is)
		}
	}
	slices.Sort(out)
	return out
}

// examined waits until the doctor finds just this of a level, and answers all it says. A broker hears of settings after
// its controller, and one that is busy may take too long to answer something.
func (r *rig) examined(level doctor.Level, want []string, ends func(code int, errs string) bool) (out string) {
	r.t.Helper()
	var code int
	var errs string
	defer func() {
		if r.t.Failed() {
			r.t.Logf("%s, want %q in\n%s\nexit %d %s", level, want, out, code, errs)
		}
	}()
	r.poll(fmt.Sprintf("the doctor finds %d: %s", len(want), level), func() bool {
		code, out, errs = r.examine("-o", "json")
		return ends(code, errs) && slices.Equal(want, findings(r.t, out, level))
	})
	return out
}

// A cell in which all runs has nothing that fails; what the doctor warns of is
// what a test's Kafka is: one broker, with Kafka's own session time.
func TestDoctorOnAHealthyCell(t *testing.T) {
	t.Parallel()
	r := newRig(t, kafkatest.Kafka(t), cell.PlainHost(1), cell.PlainHost(2)).up()
	r.startConductor("second")
	c := r.as("p")
	r.offer(c, nil, []compute.Flavor{small("m1.small")})
	r.await(r.boot(c, 1, compute.Boot{Flavor: "m1.small"}), compute.StateActive)
	want := []string{
		"broker 1: broker.session.timeout.ms: 9000", "cluster: brokers: 1", "queue managers: running: 1",
		"user data: sealed: no: user data lies open in Kafka",
	}
	out := r.examined(doctor.Warn, want, func(code int, errs string) bool { return code == 0 && errs == "" })
	well := strings.Join(findings(t, out, doctor.OK), "\n")
	for _, line := range []string{
		"brokers: Kafka version: v4.3", "cluster: feature share.version: 1",
		"broker 1: group.share.max.share.sessions: 10000",
		"queues: topic and share state: 1 queues", "conductors: running: 2", "queue managers: active: 1",
		"hosts: heard of in the last 60 s: 2 of 2", "audit: kept: audit not known; no entry in the last day",
		"share group " + r.kafka.Prefix + "agents-0: share.delivery.count.limit: 25",
		"share group " + r.kafka.Prefix + "agents-0: share.partition.max.record.locks: 4000",
	} {
		if !strings.Contains(well, line) {
			t.Errorf("%q is not in\n%s", line, well)
		}
	}
	defer func() {
		if t.Failed() {
			t.Log(out)
		}
	}()
	r.poll("it says the same to people", func() bool {
		code := 0
		code, out, _ = r.examine()
		return code == 0 && strings.Contains(out, "1 brokers; controller 1") &&
			strings.Contains(out, "user data lies open") && strings.Contains(out, "0 fail, 4 warnings")
	})
	if os.Getenv("BERTH_TEST_LOG") != "" {
		t.Log(out)
	}
}

// Faults are found with a fix that, pasted, is one.
func TestDoctorFindsFaultsAndTheirFix(t *testing.T) {
	t.Parallel()
	k := kafkatest.StartT(t, localkafka.Options{Properties: map[string]string{
		"auto.create.topics.enable": "true",
	}})
	r := newRig(t, kafkatest.Broker{Addrs: k.Addrs(), Prefix: "cell.", Real: true})
	r.plantQueue("m1.raw")
	topics := wire.Topics{Prefix: "cell."}
	r.kafkaConfigs(
		"--alter --entity-type topics --entity-name " + topics.Requests() + " --add-config retention.ms=1000",
	)
	r.kafkaConfigs(
		"--alter --entity-type topics --entity-name " + topics.Hosts() + " --add-config cleanup.policy=delete",
	)
	nobody := []string{
		"conductors: running: 0", "queue m1.raw: its share state: not initialised", "queue managers: running: 0",
	}
	broken := []string{"topic cell.hosts: cleanup.policy: delete", "topic cell.requests: retention.ms: 1000"}
	fails := func(code int, errs string) bool {
		return code == 1 && strings.Contains(errs, "something fails: see above")
	}
	out := r.examined(doctor.Fail, slices.Concat(nobody, broken), fails)
	warned := strings.Join(findings(t, out, doctor.Warn), "\n")
	for _, line := range []string{"auto.create.topics.enable: true"} {
		if !strings.Contains(warned, line) {
			t.Errorf("%q is not in\n%s", line, warned)
		}
	}
	var said doctorSaid
	r.must(json.Unmarshal([]byte(out), &said))
	for _, f := range said.Findings {
		if args, ours := strings.CutPrefix(f.Fix, "kafka-configs.sh --bootstrap-server "+r.kafka.Brokers[0]+" "); ours {
			r.kafkaConfigs(args)
		}
	}
	r.examined(doctor.Fail, nobody, fails)
}

// A partition that is set aside is named, also when its topic has grown beyond the position since.
func TestDoctorNamesAPartitionThatIsSetAside(t *testing.T) {
	t.Parallel()
	b := kafkatest.Kafka(t)
	r := newRig(t, b)
	c := r.prepared("astray")
	leads, err := kafkatest.AskLeads(b.Addrs)
	r.must(err)
	defer leads.Close()
	r.poll("a position behind the end", func() bool {
		return leads.Commit(t.Context(), c.Topics().ConductorGroup(), c.Topics().Reports(), 2, 2) == nil
	})
	r.startConductor("conductor")
	says := func(is string) {
		t.Helper()
		line := "partition 2: where conductors go on: " + is
		r.poll(line, func() bool {
			code, out, _ := r.examine("-o", "json")
			return code == 1 && slices.Contains(findings(t, out, doctor.Fail), line)
		})
	}
	says("2 in " + c.Topics().Reports() + ", which ends at 0")
	r.poll("it is written down", func() bool {
		aside, err := loop.SetAside(t.Context(), c.Kafka)
		return err == nil && len(aside) > 0
	})
	for range 3 {
		r.send(wire.Record{Value: []byte("later")}.To(c.Topics().Reports(), 2))
	}
	says("set aside by a conductor")
}

// plantQueue lists a queue whose share state nobody has initialised.
func (r *rig) plantQueue(name compute.QueueName) {
	r.t.Helper()
	c := r.cell("plant")
	admin, err := kafkaadmin.New(c.Kafka)
	r.must(err)
	defer admin.Close()
	ids, err := admin.EnsureQueueTopics(r.t.Context(), []compute.QueueName{name}, 0)
	r.must(err)
	r.send(wire.EncodeQueue(compute.Queue{
		Name: name, Flavor: "m1", State: compute.QueueOpen, Group: c.Topics().ShareGroup(0), TopicID: ids[name],
	}).To(c.Topics().Queues(), 0))
}

// kafkaConfigs is kafka-configs.sh of the very Kafka.
func (r *rig) kafkaConfigs(args string) {
	r.t.Helper()
	libs, err := localkafka.Jars(r.t.Context(), localkafka.Version)
	r.must(err)
	words := append(
		[]string{
			"-XX:TieredStopAtLevel=1",
			"-XX:+UseSerialGC",
			"-cp",
			filepath.Join(libs, "*"),
			"kafka.admin.ConfigCommand",
			"--bootstrap-server",
			r.kafka.Brokers[0],
		},
		strings.Fields(args)...)
	if out, err := exec.CommandContext(r.t.Context(), "java", words...).CombinedOutput(); err != nil {
		r.t.Fatalf("kafka-configs.sh %s: %v\n%s", args, err, out)
	}
}

// Without Kafka a doctor says so, soon.
func TestDoctorWithoutKafka(t *testing.T) {
	t.Parallel()
	ports, err := localkafka.FreePorts(1)
	if err != nil {
		t.Fatal(err)
	}
	broker := "127.0.0.1:" + strconv.Itoa(ports[0])
	code, out, errs := ran(t, "doctor", "--kafka", broker, "--prefix", "x.")
	for lost := time.Now().Add(patience); !strings.Contains(errs, "refused") && time.Now().Before(lost); {
		code, out, errs = ran(t, "doctor", "--kafka", broker, "--prefix", "x.") // its time was up before it was refused
	}
	if code != 1 || out != "" || !strings.Contains(errs, "reach Kafka at "+broker) ||
		!strings.Contains(errs, "connection refused") {
		t.Errorf("exit %d %s %s", code, out, errs)
	}
}
