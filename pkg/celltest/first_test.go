// SPDX-License-Identifier: Apache-2.0

package celltest

import (
	"context"
	"fmt"
	"os"
	"testing"
	"time"

	"go.uber.org/zap"

	"github.com/berth-project/berth/compute-agent/hypervisor/fake"
	"github.com/berth-project/berth/pkg/cell"
	"github.com/berth-project/berth/pkg/compute"
	"github.com/berth-project/berth/pkg/kafkatest"
	"github.com/berth-project/berth/pkg/service"
	"github.com/berth-project/berth/pkg/telemetry"
	"github.com/berth-project/berth/pkg/telemetry/telemetrytest"
)

// asks counts the requests of one agent, by Kafka's names for them.
type asks struct{ metrics *telemetry.Metrics }

func (a asks) times(t *testing.T, api string) int {
	n, _ := telemetrytest.Value(t, a.metrics.Gatherer(), "berth_kafka_request_duration_seconds", "api", api)
	return int(n)
}

// daemons starts each of these hosts' agents as `berth agent` does, in a process of
// its own as far as Kafka can tell: it waits for Kafka, prepares, and runs.
func (r *rig) daemons(hosts ...cell.SimulatedHost) []asks {
	r.t.Helper()
	var all []asks
	for _, h := range hosts {
		host, err := r.world.Host(h.ID, h.Inventory)
		r.must(err)
		a := asks{telemetry.NewMetrics()}
		c := cell.New(r.kafka, r.net.dial, zap.NewNop(), "agent").Measured(a.metrics.Registerer())
		c.Kafka.Known.Expect(c.Topics().Host(h.ID))
		r.begin(string(h.ID), service.Made(func(ctx context.Context) (service.Part, error) {
			if err := c.Await(ctx, func(why string) { r.t.Errorf("%s waits: %s", h.ID, why) }); err != nil {
				return nil, err
			}
			return cell.NewAgent(
				c,
				cell.AgentOptions{Host: h.ID, State: r.data, Driver: fake.NewDriver(host, h.Driver)},
			)
		}))
		all = append(all, a)
	}
	for _, h := range hosts {
		r.ready(string(h.ID))
	}
	return all
}

// manyQueues makes this many queues: none or one of n-1 values of an axis.
func (r *rig) manyQueues(n int) {
	r.t.Helper()
	axis := compute.Capability{Axis: "kind"}
	for i := range n - 1 {
		axis.Values = append(axis.Values, compute.CapabilityValue{Value: compute.AxisValue(fmt.Sprintf("k%04d", i))})
	}
	c := r.as("p")
	r.offer(c, []compute.Capability{axis}, []compute.Flavor{small("m1.small", "kind")})
	r.poll("queues are open", func() bool {
		open, _, err := openQueues(r.t.Context(), c)
		r.must(err)
		return open == n
	})
}

// Agents that start at once ask little: a thousand of them would keep brokers from
// their work. Where the topics are there, an agent asks for metadata once for the
// cell's topics and its own stream, and once for each 2,000 queues it may ever wait on.
// It takes and reports work without asking more. Under the race detector there are few queues: races are the same.
func TestFirstMinute(t *testing.T) {
	many := []int{100, 2000}
	if raced {
		many = many[:1] // CI has two thousand without it
	}
	for _, queues := range many {
		t.Run(fmt.Sprint(queues, " queues"), func(t *testing.T) {
			inBubble(t, func(t *testing.T, n network) {
				hosts := smallHosts(20)
				r := newRigOn(t, n, n.broker(t), hosts...).up()
				r.manyQueues(queues)
				for _, h := range hosts {
					r.stop(string(h.ID))
				}
				all := r.daemons(hosts...)
				ids := r.boot(r.as("p"), 40, compute.Boot{Flavor: "m1.small"})
				r.await(ids, compute.StateActive)
				<-time.After(time.Minute)
				for i, a := range all {
					if n := a.times(t, "Metadata"); n > 3 {
						t.Errorf("%s asked for metadata %d times in its first minute, want 3 at most", hosts[i].ID, n)
					}
					for _, api := range []string{
						"CreateTopics", "InitProducerID", "FindCoordinator", "DescribeTopicPartitions",
					} {
						if n := a.times(t, api); n > 0 {
							t.Errorf("%s sent %s %d times in its first minute", hosts[i].ID, api, n)
						}
					}
				}
				r.exactlyOnce(ids)
			})
		})
	}
}

// A new host's stream is made after it has said that it is there, and the agent looks
// for it less and less often. Without a queue manager there is none.
func TestFirstMinuteOfNewHosts(t *testing.T) {
	for _, made := range []bool{true, false} {
		t.Run(fmt.Sprint("streams are made: ", made), func(t *testing.T) {
			inBubble(t, func(t *testing.T, n network) {
				r := newRigOn(t, n, n.broker(t)).up()
				r.manyQueues(100)
				most := 8
				if !made {
					r.stop("queues")
					most = 50
				}
				hosts := smallHosts(20)
				all := r.daemons(hosts...)
				<-time.After(time.Minute)
				for i, a := range all {
					if n := a.times(t, "Metadata"); n > most {
						t.Errorf(
							"%s asked for metadata %d times in its first minute, want %d at most",
							hosts[i].ID,
							n,
							most,
						)
					}
				}
			})
		})
	}
}

// The same on Kafka, where it takes a real minute: BERTH_FIRST_MINUTE=1.
func TestFirstMinuteOnKafka(t *testing.T) {
	if os.Getenv("BERTH_FIRST_MINUTE") == "" {
		t.Skip("skipped: takes a minute and more; BERTH_FIRST_MINUTE=1 runs it")
	}
	hosts := smallHosts(20)
	r := newRig(t, kafkatest.Kafka(t), hosts...).up()
	r.manyQueues(100)
	for _, h := range hosts {
		r.stop(string(h.ID))
	}
	all := r.daemons(hosts...)
	ids := r.boot(r.as("p"), 40, compute.Boot{Flavor: "m1.small"})
	r.await(ids, compute.StateActive)
	<-time.After(time.Minute)
	for i, a := range all {
		for _, api := range []string{
			"Metadata", "ApiVersions", "ListOffsets", "InitProducerID", "CreateTopics", "FindCoordinator",
		} {
			t.Log(hosts[i].ID, api, a.times(t, api))
		}
		if n := a.times(t, "Metadata"); n > 3 {
			t.Errorf("%s asked for metadata %d times in its first minute, want 3 at most", hosts[i].ID, n)
		}
	}
	r.exactlyOnce(ids)
}
