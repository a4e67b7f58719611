// SPDX-License-Identifier: Apache-2.0

package celltest

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/berth-project/berth/pkg/cell"
	"github.com/berth-project/berth/pkg/compute"
	"github.com/berth-project/berth/pkg/kafkatest"
	"github.com/berth-project/berth/pkg/verify"
	"github.com/berth-project/berth/pkg/wire"
)

// verifies runs the command on the rig's cell.
func (r *rig) verifies(args ...string) (code int, out string) {
	r.t.Helper()
	code, out, errs := reaches(
		r.t,
		append(
			[]string{"verify", "--kafka", strings.Join(r.kafka.Brokers, ","), "--prefix", r.kafka.Prefix},
			args...)...)
	return code, out + errs
}

func TestVerify(t *testing.T) {
	each(t, func(t *testing.T, b kafkatest.Broker) {
		r, c := oneFlavor(t, b, smallHosts(3)...)
		ids := r.boot(c, 12, compute.Boot{Flavor: "m1.small"})
		r.await(ids, compute.StateActive)
		r.delete(c, ids[:2])
		r.await(ids[:2], compute.StateDeleted)
		code, out := r.verifies()
		if code != 0 ||
			!strings.Contains(
				out,
				"Compared 12 instances (10 active, 2 deleted) with 3 hosts and the quotas of 1 projects: "+
					"0 fail, 0 warnings",
			) {
			t.Errorf("sound: exit code %d\n%s", code, out)
		}

		// What no conductor wrote: a machine that its host has never heard of.
		ghost := r.seen.get(ids[5])
		ghost.ID, ghost.Version, ghost.ChangedAt = "0f0f0f0f-0000-4000-8000-000000000000", 1, time.Now()
		r.send(
			wire.EncodeInstance(ghost).To(r.cell("test").Topics().Instances(), wire.Partition("p", r.kafka.Partitions)),
		)
		code, out = r.verifies("-o", "json")
		var said struct {
			Sound       bool                `json:"sound"`
			Differences []verify.Difference `json:"differences"`
		}
		end := strings.LastIndex(out, "}")
		if err := json.Unmarshal([]byte(out[:end+1]), &said); err != nil {
			t.Fatalf("%v\n%s", err, out)
		}
		if code != 1 || said.Sound || len(said.Differences) == 0 || said.Differences[0].Host != ghost.Host ||
			!strings.Contains(said.Differences[0].Why, "machines are gone") {
			t.Errorf("a ghost: exit code %d\n%s", code, out)
		}

		// A conductor that reads the log believes it, until the host is asked.
		r.stop("conductor")
		r.startConductor("conductor")
		if code, out = r.verifies("--repair"); code != 1 || !strings.Contains(out, string(ghost.Host)+" is asked") {
			t.Errorf("repair: exit code %d\n%s", code, out)
		}
		r.await([]compute.InstanceID{ghost.ID}, compute.StateError)
		r.reason(ghost.ID, compute.HostLost)
		if code, out = r.verifies(); code != 0 {
			t.Errorf("repaired: exit code %d\n%s", code, out)
		}
		r.exactlyOnce(ids)
	})
}

func TestVerifyWithoutACell(t *testing.T) {
	each(t, func(t *testing.T, b kafkatest.Broker) {
		r := &rig{t: t, kafka: cell.KafkaSettings{Brokers: b.Addrs, Prefix: b.Prefix + "nothing."}}
		if code, out := r.verifies("--timeout", "1m"); code == 0 || !strings.Contains(out, "nothing.") {
			t.Errorf("exit code %d\n%s", code, out)
		}
	})
}

// twoMinutesFast is a clock that shows as much more than it is.
type twoMinutesFast struct{}

func (twoMinutesFast) Shows(now time.Time) time.Time  { return now.Add(2 * time.Minute) }
func (twoMinutesFast) When(shown time.Time) time.Time { return shown.Add(-2 * time.Minute) }

// verify and doctor judge by the time of the log: by such a clock every host is silent, and nothing of it is compared.
func TestVerifyByAWrongClock(t *testing.T) {
	t.Parallel()
	r, c := oneFlavor(t, kafkatest.Kafka(t), smallHosts(2)...) // the embedded one does not say when it appended
	ids := r.boot(c, 2, compute.Boot{Flavor: "m1.small"})
	r.await(ids, compute.StateActive)
	ghost := r.seen.get(ids[0])
	ghost.ID, ghost.Version = "0f0f0f0f-0000-4000-8000-000000000000", 1
	r.send(
		wire.EncodeInstance(ghost).To(r.cell("test").Topics().Instances(), wire.Partition("p", r.kafka.Partitions)),
	)
	from := r.prepared("test")
	from.Clock = cell.Clocks{Clock: twoMinutesFast{}}
	var found []verify.Difference
	r.poll("the cell is compared by the log's time", func() bool { // or by the machine's, if no host is heard for 20 s
		_, all, err := from.Verify(t.Context())
		found = all
		return err == nil && len(found) > 0
	})
	if len(found) == 0 || found[0].Host != ghost.Host || !strings.Contains(found[0].Why, "machines are gone") {
		t.Errorf("%+v", found)
	}
	r.poll("the doctor's time is that of the log", func() bool {
		const off = 30 * time.Second
		began := time.Now()
		facts, err := from.Facts(t.Context())
		return err == nil && facts.Now.After(began.Add(-off)) && facts.Now.Before(time.Now().Add(off))
	})
}
