// SPDX-License-Identifier: Apache-2.0

package celltest

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/berth-project/berth/pkg/cell"
	"github.com/berth-project/berth/pkg/compute"
	"github.com/berth-project/berth/pkg/doctor"
	kafkaadmin "github.com/berth-project/berth/pkg/kafka/admin"
	"github.com/berth-project/berth/pkg/kafkatest"
	"github.com/berth-project/berth/pkg/localkafka"
	"github.com/berth-project/berth/pkg/wire"
)

// examine runs berth doctor on a cell.
func (r *rig) examine(args ...string) (code int, stdout, stderr string) {
	r.t.Helper()
	return ran(
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

// A cell in which all runs has nothing that fails; what the doctor warns of is
// what a test's Kafka is: one broker, with Kafka's own session time.
func TestDoctorOnAHealthyCell(t *testing.T) {
	t.Parallel()
	r := newRig(t, kafkatest.Kafka(t), cell.PlainHost(1), cell.PlainHost(2)).up()
	r.startConductor("second")
	c := r.as("p")
	r.offer(c, nil, []compute.Flavor{small("m1.small")})
	r.await(r.boot(c, 1, compute.Boot{Flavor: "m1.small"}), compute.StateActive)
	code, out, errs := r.examine("-o", "json")
	if code != 0 || errs != "" {
		t.Errorf("exit %d %s\n%s", code, errs, out)
	}
	want := []string{
		"broker 1: broker.session.timeout.ms: 9000", "cluster: brokers: 1", "queue managers: running: 1",
		"user data: sealed: no: user data lies open in Kafka",
	}
	if diff := cmp.Diff(want, findings(t, out, doctor.Warn)); diff != "" {
		t.Error(diff)
	}
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
	code, out, _ = r.examine()
	if code != 0 || !strings.Contains(out, "1 brokers; controller 1") || !strings.Contains(out, "0 fail, 4 warnings") ||
		!strings.Contains(out, "user data lies open") {
		t.Errorf("exit %d\n%s", code, out)
	}
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
	code, out, errs := r.examine("-o", "json")
	if code != 1 || !strings.Contains(errs, "something fails: see above") {
		t.Errorf("exit %d %s", code, errs)
	}
	nobody := []string{
		"conductors: running: 0", "queue m1.raw: its share state: not initialised", "queue managers: running: 0",
	}
	broken := []string{"topic cell.hosts: cleanup.policy: delete", "topic cell.requests: retention.ms: 1000"}
	if diff := cmp.Diff(slices.Concat(nobody, broken), findings(t, out, doctor.Fail)); diff != "" {
		t.Error(diff)
	}
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
	_, out, _ = r.examine("-o", "json")
	if diff := cmp.Diff(nobody, findings(t, out, doctor.Fail)); diff != "" {
		t.Error("after the fixes:", diff)
	}
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
	r := &rig{t: t, kafka: cell.KafkaSettings{Brokers: []string{"127.0.0.1:" + strconv.Itoa(ports[0])}, Prefix: "x."}}
	code, out, errs := r.examine()
	if code != 1 || out != "" || !strings.Contains(errs, "reach Kafka at "+r.kafka.Brokers[0]) ||
		!strings.Contains(errs, "connection refused") {
		t.Errorf("exit %d %s %s", code, out, errs)
	}
}
