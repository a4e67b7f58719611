// SPDX-License-Identifier: Apache-2.0

package celltest

import (
	"context"
	"io"
	"net"
	"runtime"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/zap"

	"github.com/berth-project/berth/compute-agent/hypervisor/fake"
	"github.com/berth-project/berth/compute-agent/journal"
	"github.com/berth-project/berth/pkg/cell"
	"github.com/berth-project/berth/pkg/compute"
	"github.com/berth-project/berth/pkg/embedded"
	"github.com/berth-project/berth/pkg/kafkatest"
	"github.com/berth-project/berth/pkg/service"
	"github.com/berth-project/berth/pkg/statusserver"
)

// inBubble tries something in virtual time on a network of its own. Time moves
// only while everything waits for something inside, so a part that spins or
// waits for the world outside shows, and a goroutine that is left fails the test.
func inBubble(t *testing.T, try func(t *testing.T, n network)) {
	t.Helper()
	alone(t)
	synctest.Test(t, func(t *testing.T) {
		var virtual embedded.Network
		try(t, network{dial: virtual.Dial, listen: virtual.Listen})
		time.Sleep(time.Second) // kgo does not wait for a connection that it was opening
	})
}

// broker is an embedded broker on the network.
func (n network) broker(t *testing.T) kafkatest.Broker {
	t.Helper()
	b, err := embedded.Start(embedded.Options{Listen: n.listen.Within(t.Context())})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(b.Close)
	return kafkatest.Broker{Addrs: b.Addrs(), Prefix: "seams."}
}

func TestWholeBerthInVirtualTime(t *testing.T) {
	inBubble(t, func(t *testing.T, n network) {
		r := newRigOn(t, n, n.broker(t), smallHosts(5)...).up()
		c := r.as("p")
		r.offer(c, nil, []compute.Flavor{small("m1.small")})
		ids := r.boot(c, 20, compute.Boot{Flavor: "m1.small"})
		r.await(ids, compute.StateActive)
		r.exactlyOnce(ids)
		r.delete(c, ids)
		r.await(ids, compute.StateDeleted)
		r.unused(c)
		r.sane()
	})
}

// starters start the parts of a rig, each by itself, as often as wanted.
func starters() map[string]func(r *rig) {
	return map[string]func(r *rig){
		"queues":    (*rig).startQueues,
		"conductor": func(r *rig) { r.startConductor("conductor") },
		"api":       (*rig).startAPI,
		"host-01":   func(r *rig) { r.startAgents(r.hosts...) },
	}
}

const rounds = 20

func TestEachPartStartsAndStopsManyTimes(t *testing.T) {
	for name, start := range starters() {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(t *testing.T, n network) {
				r := newRigOn(t, n, n.broker(t), smallHost(1))
				again := func() int {
					start(r)
					r.stop(name)
					return atRest()
				}
				first, now := again(), 0 // the broker keeps something for each group that it ever saw
				for range rounds {
					now = again()
				}
				if now-first > rounds/2 { // what the witness and its broker just do is a few more or less
					t.Errorf("%d goroutines after the first stop, %d after %d more:\n%s", first, now, rounds, stacks())
				}
			})
		})
	}
}

// atRest is how many goroutines there are when nobody has anything to do.
func atRest() int {
	time.Sleep(time.Minute) // brokers hold fetches for a while
	synctest.Wait()
	return runtime.NumGoroutine()
}

func stacks() []byte {
	buf := make([]byte, 1<<20)
	return buf[:runtime.Stack(buf, true)]
}

// builders make the parts of a cell whose broker nobody has heard of yet.
func builders(t *testing.T, n network) map[string]func(context.Context, cell.Cell) (service.Part, error) {
	host, err := fake.NewWorld().Host("host-01", smallHost(1).Inventory)
	if err != nil {
		t.Fatal(err)
	}
	state := t.TempDir()
	return map[string]func(context.Context, cell.Cell) (service.Part, error){
		"queues": func(_ context.Context, c cell.Cell) (service.Part, error) {
			return cell.NewQueueManager(c, cell.QueueManagerOptions{})
		},
		"conductor": func(_ context.Context, c cell.Cell) (service.Part, error) {
			return cell.NewConductor(c, cell.ConductorOptions{})
		},
		"api": func(_ context.Context, c cell.Cell) (service.Part, error) {
			o := statusserver.Options{Address: "127.0.0.1:0", Listen: n.listen}
			part, _ := cell.NewAPIWithServer(c, o, cell.APIOptions{})
			return part, nil
		},
		"agent": func(_ context.Context, c cell.Cell) (service.Part, error) {
			return cell.NewAgent(
				c,
				cell.AgentOptions{Host: "host-01", State: state, Driver: fake.NewDriver(host, fake.Options{})},
			)
		},
		"cell": func(ctx context.Context, c cell.Cell) (service.Part, error) {
			return service.Together(), c.Prepare(ctx)
		},
	}
}

// nobody are the ways in which a broker is out of reach.
func nobody() map[string]cell.Dialer {
	return map[string]cell.Dialer{
		"refuses": new(embedded.Network).Dial,
		"is lost": func(ctx context.Context, _, _ string) (net.Conn, error) {
			<-ctx.Done()
			return nil, ctx.Err()
		},
		"is frozen": func(context.Context, string, string) (net.Conn, error) {
			ours, theirs := net.Pipe()
			go func() { _, _ = io.Copy(io.Discard, theirs) }() // as the buffers of a real connection
			return ours, nil
		},
	}
}

// soon is how long a part may take to stop.
const soon = 10 * time.Second

func TestStopsSoonWithoutABroker(t *testing.T) {
	for how, dial := range nobody() {
		for _, name := range []string{"cell", "queues", "conductor", "api", "agent"} {
			t.Run(name+" and the broker "+how, func(t *testing.T) {
				inBubble(t, func(t *testing.T, n network) {
					build := builders(t, n)[name]
					for _, after := range []time.Duration{0, time.Second, 17 * time.Second, 5 * time.Minute} {
						c := cell.New(
							cell.KafkaSettings{Brokers: []string{"localhost:9092"}, Prefix: "seams.", Partitions: 4},
							dial,
							zap.NewNop(),
							name,
						)
						p := service.Made(func(ctx context.Context) (service.Part, error) { return build(ctx, c) })
						if took := stopping(t, p.Run, after); took > soon {
							t.Errorf("stopped after %s, it took another %s", after, took)
						}
					}
				})
			})
		}
	}
}

// stopping runs something for a while and says how long it then takes to end.
func stopping(t *testing.T, run func(context.Context) error, after time.Duration) time.Duration {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), after)
	defer cancel()
	began := time.Now()
	if err := run(ctx); err != nil {
		t.Errorf("stopped after %s: %v", after, err)
	}
	return time.Since(began) - after
}

func TestStopsSoonWhenTheBrokerIsGone(t *testing.T) {
	inBubble(t, func(t *testing.T, n network) {
		b, err := embedded.Start(embedded.Options{Listen: n.listen.Within(t.Context())})
		if err != nil {
			t.Fatal(err)
		}
		r := newRigOn(t, n, kafkatest.Broker{Addrs: b.Addrs(), Prefix: "seams."}, smallHosts(5)...).up()
		b.Close()
		time.Sleep(time.Minute)
		began := time.Now()
		r.stopAll()
		if took := time.Since(began); took > soon {
			t.Errorf("it took %s", took)
		}
	})
}

// slow makes everything that is written to a broker take a moment, so that
// starting takes time in which it can be stopped.
func (n network) slow(d time.Duration) network {
	dial := n.dial
	n.dial = func(ctx context.Context, network, address string) (net.Conn, error) {
		c, err := dial(ctx, network, address)
		return slowConn{c, d}, err
	}
	return n
}

type slowConn struct {
	net.Conn
	by time.Duration
}

func (c slowConn) Write(b []byte) (int, error) {
	time.Sleep(c.by)
	return c.Conn.Write(b)
}

// A whole Berth, as in berth dev, is stopped at any moment of its start.
func TestDevStopsWhileItStarts(t *testing.T) {
	var begun, up int
	for after := time.Duration(0); up < 3; after += 4 * time.Millisecond {
		inBubble(t, func(t *testing.T, n network) {
			n = n.slow(time.Millisecond)
			o := cell.EverythingOptions{
				Hosts: smallHosts(3), Listen: "127.0.0.1:0", World: fake.NewWorld(),
				Journal: journal.Options{NoSync: true}, Dial: n.dial, Open: n.listen,
			}
			took := stopping(t, func(ctx context.Context) error {
				err := cell.WithEverything(ctx, o, func(ctx context.Context, _ string) error {
					up++
					<-ctx.Done()
					return nil
				})
				if compute.KindOf(err) == compute.KindTimeout { // stopped before Kafka was reached
					return nil
				}
				return err
			}, after)
			if took > soon {
				t.Errorf("stopped after %s, it took another %s", after, took)
			}
			begun++
		})
		if t.Failed() {
			return
		}
	}
	t.Logf("%d starts", begun)
}
