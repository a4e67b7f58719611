// SPDX-License-Identifier: Apache-2.0

package write

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"net"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
	"pgregory.net/rapid"

	"github.com/berth-project/berth/pkg/compute"
	"github.com/berth-project/berth/pkg/kafka"
	"github.com/berth-project/berth/pkg/kafka/internal/brokertest"
	"github.com/berth-project/berth/pkg/kafka/internal/readtest"
	"github.com/berth-project/berth/pkg/kafka/read"
	"github.com/berth-project/berth/pkg/kafkatest"
	"github.com/berth-project/berth/pkg/wire"
)

func TestAnyPartitionIsWhereTheKeyBelongs(t *testing.T) {
	topic := partitioner().ForTopic("t")
	rapid.Check(t, func(t *rapid.T) {
		project := compute.Project(rapid.StringN(1, 64, -1).Draw(t, "project"))
		n := rapid.Int32Range(1, 100).Draw(t, "partitions")
		got := topic.Partition(toKgo(wire.Record{Key: []byte(project)}.To("t", wire.AnyPartition)), int(n))
		if want := wire.Partition(project, n); int32(got) != want {
			t.Fatalf("%q of %d goes to %d, wire.Partition says %d", project, n, got, want)
		}
		p := rapid.Int32Range(0, n-1).Draw(t, "partition")
		if got := topic.Partition(toKgo(wire.Record{Key: []byte(project)}.To("t", p)), int(n)); int32(got) != p {
			t.Fatalf("partition %d was asked for, %d it is", p, got)
		}
	})
}

func TestProducerKeepsTheOrder(t *testing.T) {
	kafkatest.Each(t, func(t *testing.T, b kafkatest.Broker) {
		cfg := brokertest.TestConfig(b)
		topic := b.Prefix + "stream"
		brokertest.MakeTopic(t, cfg, topic, 2, nil)
		p := producer(t, cfg)
		const n = 1000
		offsets := make(chan int64, n)
		for i := range n {
			p.SendAsync(wire.Record{Value: fmt.Append(nil, i)}.To(topic, 1), func(offset int64, err error) {
				if err != nil {
					t.Error(err)
				}
				offsets <- offset
			})
		}
		for i := range int64(n) {
			select {
			case got := <-offsets:
				if got != i {
					t.Fatalf("record %d is at offset %d", i, got)
				}
			case <-brokertest.Patient(t).Done():
				t.Fatal("not all were acknowledged")
			}
		}
		r := readtest.Follow(t, cfg, read.Options{Topic: topic, Partitions: []int32{1}})
		got := r.UpTo(t, fmt.Sprint(n-1))
		if len(got) != n || !slices.Equal(got[:3], []string{"0", "1", "2"}) {
			t.Errorf("%d records, first %q", len(got), got[:3])
		}
	})
}

func TestAppendAnswersTheOffset(t *testing.T) {
	kafkatest.Each(t, func(t *testing.T, b kafkatest.Broker) {
		cfg := brokertest.TestConfig(b)
		topic := b.Prefix + "stream"
		brokertest.MakeTopic(t, cfg, topic, 1, nil)
		p := producer(t, cfg)
		for want := range int64(3) {
			if got, err := p.Append(
				brokertest.Patient(t), wire.Record{Value: []byte("x")}.To(topic, 0),
			); err != nil || got != want {
				t.Errorf("offset %d, want %d: %v", got, want, err)
			}
		}
		if _, err := p.Append(
			brokertest.Patient(t), wire.Record{Value: []byte("x")}.To(b.Prefix+"never", 0),
		); !errors.Is(err, wire.ErrNoTopic) {
			t.Errorf("a topic that is not there: %v", err)
		}
	})
}

func TestSendToATopicThatIsNotThere(t *testing.T) {
	kafkatest.Each(t, func(t *testing.T, b kafkatest.Broker) {
		cfg := brokertest.TestConfig(b)
		p := producer(t, cfg)
		err := p.Send(brokertest.Patient(t), wire.Record{Value: []byte("x")}.To(b.Prefix+"never", 0))
		if !errors.Is(err, wire.ErrNoTopic) {
			t.Errorf("never made: %v", err)
		}

		topic := b.Prefix + "gone"
		brokertest.MakeTopic(t, cfg, topic, 1, nil)
		if err := p.Send(brokertest.Patient(t), wire.Record{Value: []byte("x")}.To(topic, 0)); err != nil {
			t.Fatal(err)
		}
		if err := adminOf(t, cfg).DeleteTopics(brokertest.Patient(t), topic); err != nil {
			t.Fatal(err)
		}
		ctx := brokertest.Patient(t)
		err = nil
		for err == nil { // the broker hears late of what the controller did
			err = p.Send(ctx, wire.Record{Value: []byte("x")}.To(topic, 0))
		}
		if !errors.Is(err, wire.ErrNoTopic) {
			t.Errorf("deleted: %v", err)
		}

		// made again, it is there again
		brokertest.MakeTopic(t, cfg, topic, 1, nil)
		for ctx := brokertest.Patient(t); ; { // its leader hears late of it, too
			err := p.Send(ctx, wire.Record{Value: []byte("x")}.To(topic, 0))
			if err == nil {
				break
			}
			if ctx.Err() != nil {
				t.Fatalf("made again: %v", err)
			}
		}
	})
}

func TestSendFailsOnlyWhatIsWrong(t *testing.T) {
	kafkatest.Each(t, func(t *testing.T, b kafkatest.Broker) {
		cfg := brokertest.TestConfig(b)
		a := adminOf(t, cfg)
		if err := a.EnsureTopics(brokertest.Patient(t), 2, 1); err != nil {
			t.Fatal(err)
		}
		p, topic := producer(t, cfg), cfg.Topics.Requests()
		noise := make([]byte, kafka.MaxRecordBytes+1)
		for i := range noise {
			noise[i] = byte(i * i >> 3)
		}
		if err := p.Send(
			brokertest.Patient(t), wire.Record{Value: noise}.To(topic, 0),
		); compute.KindOf(err) != compute.KindInvalid {
			t.Errorf("too large: %v", err)
		}
		if err := p.Send(brokertest.Patient(t), wire.Record{Value: []byte("x")}.To(topic, 9)); err == nil {
			t.Error("no such partition, and no error")
		}
		// in base64, as JSON has it
		largest := wire.Record{Value: noise[:3*(compute.MaxUserData+compute.MaxMetadataSize)/2]}
		if err := p.Send(brokertest.Patient(t), largest.To(topic, 1)); err != nil {
			t.Errorf("the largest request: %v", err)
		}
	})
}

// A network that takes everything and never answers.
func silence(t testing.TB) kafka.Config {
	t.Helper()
	var mu sync.Mutex
	var conns []net.Conn
	t.Cleanup(func() {
		mu.Lock()
		defer mu.Unlock()
		for _, c := range conns {
			_ = c.Close()
		}
	})
	return kafka.Config{
		Brokers: []string{"nowhere:1"}, RequestTimeout: 2 * time.Second,
		Dial: func(context.Context, string, string) (net.Conn, error) {
			near, far := net.Pipe()
			mu.Lock()
			defer mu.Unlock()
			conns = append(conns, near, far)
			go func() {
				for buf := make([]byte, 4096); ; {
					if _, err := far.Read(buf); err != nil {
						return
					}
				}
			}()
			return near, nil
		},
	}
}

func TestSendGivesUpWithItsContextAndInTime(t *testing.T) {
	p := producer(t, silence(t))
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := p.Send(ctx, wire.Record{}.To("t", 0)); compute.KindOf(err) != compute.KindTimeout {
		t.Errorf("its context ended: %v", err)
	}
	err := p.Send(brokertest.Patient(t), wire.Record{}.To("t", 0))
	if k := compute.KindOf(err); k != compute.KindUnavailable && k != compute.KindTimeout {
		t.Errorf("nobody answers: %v", err)
	}
}

// A network that holds back what is written while the gate is closed.
type gate struct{ open atomic.Pointer[chan struct{}] }

func newGate() *gate {
	g := &gate{}
	g.set(true)
	return g
}

func (g *gate) set(open bool) {
	next := make(chan struct{})
	if open {
		close(next)
	}
	if last := g.open.Swap(&next); last != nil && open {
		close(*last)
	}
}

func (g *gate) dial(ctx context.Context, network, address string) (net.Conn, error) {
	c, err := new(net.Dialer).DialContext(ctx, network, address)
	return gated{c, g}, err
}

type gated struct {
	net.Conn
	gate *gate
}

func (c gated) Write(b []byte) (int, error) {
	<-*c.gate.open.Load()
	return c.Conn.Write(b)
}

// A sender that stops waiting must not harm others that send to the same partition.
func TestSendThatIsGivenUpHarmsNobody(t *testing.T) {
	kafkatest.Each(t, func(t *testing.T, b kafkatest.Broker) {
		cfg, g := brokertest.TestConfig(b), newGate()
		cfg.Dial = g.dial
		topic := b.Prefix + "requests"
		brokertest.MakeTopic(t, cfg, topic, 1, nil)
		p := producer(t, cfg)
		if err := p.Send(brokertest.Patient(t), wire.Record{Value: []byte("first")}.To(topic, 0)); err != nil {
			t.Fatal(err)
		}
		g.set(false)
		given, others := make(chan error, 1), make(chan error, 2)
		ctx, cancel := context.WithCancel(t.Context())
		go func() { given <- p.Send(ctx, wire.Record{Value: []byte("given up")}.To(topic, 0)) }()
		for p.client.Load().BufferedProduceRecords() == 0 {
			runtime.Gosched()
		}
		p.SendAsync(wire.Record{Value: []byte("behind it")}.To(topic, 0), func(_ int64, err error) { others <- err })
		cancel()
		if err := <-given; compute.KindOf(err) != compute.KindTimeout {
			t.Errorf("given up: %v", err)
		}
		p.SendAsync(wire.Record{Value: []byte("after it")}.To(topic, 0), func(_ int64, err error) { others <- err })
		g.set(true)
		for range 2 {
			if err := <-others; err != nil {
				t.Errorf("another's: %v", err)
			}
		}
	})
}

func TestSendAsyncNeverBlocks(t *testing.T) {
	cfg := silence(t)
	cfg.RequestTimeout = 10 * time.Minute // nothing leaves the buffer before the producer is closed
	p, err := newProducer(cfg, kgo.MaxBufferedRecords(10))
	if err != nil {
		t.Fatal(err)
	}
	var wg sync.WaitGroup
	errs := make(chan error, 20)
	for range 20 {
		wg.Add(1)
		p.SendAsync(wire.Record{}.To("t", 0), func(_ int64, err error) {
			defer wg.Done()
			errs <- err
		})
	}
	for range 10 { // those that find the buffer full are told at once
		select {
		case err := <-errs:
			if compute.KindOf(err) != compute.KindUnavailable || !errors.Is(err, wire.ErrFull) || !errors.Is(
				err, kgo.ErrMaxBuffered,
			) {
				t.Error(err)
			}
		case <-brokertest.Patient(t).Done():
			t.Fatal("nobody was told that the buffer is full")
		}
	}
	p.Close()
	wg.Wait() // the others are told when it closes, each once
	p.Close()
}

// A caller that has closed a producer is told of none of its records any more.
func TestCloseWaitsUntilAllAreTold(t *testing.T) {
	const records = 20_000
	p, err := NewProducer(silence(t))
	if err != nil {
		t.Fatal(err)
	}
	var told atomic.Int64
	for range records {
		p.SendAsync(wire.Record{Value: []byte("v")}.To("t", 0), func(int64, error) {
			runtime.Gosched()
			told.Add(1)
		})
	}
	p.Close()
	if n := told.Load(); n != records {
		t.Errorf("%d of %d were told when it was closed", n, records)
	}
	p.SendAsync(wire.Record{}.To("t", 0), func(_ int64, err error) {
		if compute.KindOf(err) != compute.KindUnavailable {
			t.Errorf("afterwards: %v", err)
		}
		told.Add(1)
	})
	if n := told.Load(); n != records+1 {
		t.Error("who came afterwards was not told at once")
	}
}

// A broker refuses the batch, and means one record in it.
func TestARefusedRecordHarmsNobody(t *testing.T) {
	const records, worst, partitions = 300, 100, 2
	for name, c := range map[string]struct {
		settings map[string]string
		bad      wire.Record
	}{
		"too large": {
			map[string]string{"max.message.bytes": "1000"},
			wire.Record{Key: []byte("k"), Value: incompressible(2000)},
		},
		"without a key": {map[string]string{"cleanup.policy": "compact"}, wire.Record{Value: []byte("v")}},
	} {
		t.Run(name, func(t *testing.T) {
			kafkatest.Each(t, func(t *testing.T, b kafkatest.Broker) {
				if !b.Real && c.bad.Key == nil {
					t.Skip("the embedded broker takes it")
				}
				cfg, topic, s := brokertest.TestConfig(b), b.Prefix+"stream", map[string]*string{}
				cfg.RequestTimeout = 10 * time.Minute // all of a batch that was refused are sent one by one within two of it
				for k, v := range c.settings {
					s[k] = kmsg.StringPtr(v)
				}
				brokertest.MakeTopic(t, cfg, topic, partitions, s)
				p := producer(t, cfg)
				type answer struct {
					i      int
					offset int64
					err    error
				}
				answers := make(chan answer, records)
				for i := range records {
					rec := wire.Record{Key: []byte("k"), Value: incompressible(50)}
					if i == worst {
						rec = c.bad
					}
					p.SendAsync(
						rec.To(topic, int32(i%partitions)),
						func(offset int64, err error) { answers <- answer{i, offset, err} },
					)
				}
				for range records {
					switch a := <-answers; {
					case a.i == worst:
						brokertest.WantKind(t, a.err, compute.KindInvalid)
					case a.err != nil || a.offset < 0:
						t.Errorf("record %d: %d, %v", a.i, a.offset, a.err)
					}
				}
			})
		})
	}
}

func incompressible(n int) []byte {
	b := make([]byte, n)
	_, _ = rand.Read(b) // never fails
	return b
}
