// SPDX-License-Identifier: Apache-2.0

package read

import (
	"context"
	"fmt"
	"net"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/berth-project/berth/pkg/kafka"
	"github.com/berth-project/berth/pkg/kafka/internal/brokertest"
	"github.com/berth-project/berth/pkg/kafka/internal/clienttest"
	"github.com/berth-project/berth/pkg/kafka/internal/fetch"
	"github.com/berth-project/berth/pkg/telemetry/telemetrytest"
	"github.com/berth-project/berth/pkg/wire"
)

// read runs one reader of a shared fetch.
func (j *SharedFetch) read(t *testing.T, opts Options) *reading {
	t.Helper()
	return reads(t, opts, j.Reader)
}

// fetches counts the fetches that were answered since it was last called.
func fetches(t *testing.T, reg prometheus.Gatherer) func() float64 {
	var last float64
	return func() float64 {
		n, _ := telemetrytest.Value(t, reg, "berth_kafka_request_duration_seconds", "api", "Fetch")
		since := n - last
		last = n
		return since
	}
}

// Readers that share a fetch hear at once what comes for each of them, whatever
// the others hear, and a broker is asked as often as by one of them.
func TestSharedReaders(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cfg, reg := brokertest.Counting(brokertest.VirtualCell(t))
		fetched := fetches(t, reg)
		p := clienttest.Producer(t, cfg)
		j := NewSharedFetch(cfg)
		topics := []string{cfg.Topics.Instances(), cfg.Topics.Requests(), cfg.Topics.Reports()}
		var rs []*reading
		for _, topic := range topics {
			rs = append(rs, j.read(t, Options{Topic: topic, Partitions: []int32{0}}))
		}
		for _, r := range rs {
			brokertest.Await(t, r.Ready(), "the reader is ready")
		}
		time.Sleep(time.Minute)
		fetched()
		time.Sleep(time.Minute)
		if n, one := fetched(), float64(time.Minute/DefaultWait); n > one+1 {
			t.Errorf("%v fetches in an idle minute, want %v", n, one)
		}
		for i := range 20 {
			for k, r := range rs {
				value := fmt.Sprint("value ", i)
				sent := time.Now()
				if err := p.Send(
					t.Context(), wire.Record{Key: []byte("k"), Value: []byte(value)}.To(topics[k], 0),
				); err != nil {
					t.Fatal(err)
				}
				r.upTo(t, value)
				if took := time.Since(sent); took > 10*time.Millisecond {
					t.Errorf("reader %d heard %q after %s", k, value, took)
				}
			}
		}
		fetched()
		rs[0].stop()
		<-rs[0].ended
		time.Sleep(time.Minute)
		if n, one := fetched(), float64(time.Minute/DefaultWait); n > one+1 {
			t.Errorf("%v fetches in a minute after one reader ended, want %v", n, one)
		}
		for _, r := range rs[1:] {
			r.stop()
			<-r.ended
		}
		p.Close()
	})
}

// A reader of a topic that is made while the others wait does not wait for them.
func TestSharedReaderThatComesLate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cfg := brokertest.VirtualCell(t)
		p, j := clienttest.Producer(t, cfg), NewSharedFetch(cfg)
		first := j.read(t, Options{Topic: cfg.Topics.Instances()})
		brokertest.Await(t, first.Ready(), "the reader is ready")
		time.Sleep(DefaultWait / 2)
		began := time.Now()
		late := j.read(t, Options{Topic: cfg.Topics.Requests(), Partitions: []int32{0}})
		brokertest.Await(t, late.Ready(), "the late reader is ready")
		if err := p.Send(
			t.Context(), wire.Record{Key: []byte("k"), Value: []byte("v")}.To(cfg.Topics.Requests(), 0),
		); err != nil {
			t.Fatal(err)
		}
		late.upTo(t, "v")
		if took := time.Since(began); took > 100*time.Millisecond {
			t.Errorf("the late reader took %s", took)
		}
		first.stop()
		<-first.ended
		late.stop()
		<-late.ended
		p.Close()
	})
}

// far is a connection to a broker that is a millisecond away.
type far struct{ net.Conn }

func (c far) Read(b []byte) (int, error) {
	n, err := c.Conn.Read(b)
	time.Sleep(time.Millisecond)
	return n, err
}

// A reader that asks by itself does not ask on and on beside a fetch that should have been answered.
func TestSharedReaderBesideALateAnswer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cfg, reg := brokertest.Counting(brokertest.VirtualCell(t))
		near := cfg.Dial
		cfg.Dial = func(ctx context.Context, network, address string) (net.Conn, error) {
			c, err := near(ctx, network, address)
			if err != nil {
				return nil, err
			}
			return far{c}, nil
		}
		fetched := fetches(t, reg)
		j := NewSharedFetch(cfg)
		first := j.read(t, Options{Topic: cfg.Topics.Instances()})
		brokertest.Await(t, first.Ready(), "the reader is ready")
		time.Sleep(DefaultWait / 2)
		j.mu.Lock()
		for _, c := range j.brokers {
			c.until = time.Now().Add(-time.Millisecond)
		}
		j.mu.Unlock()
		beside := j.read(t, Options{Topic: cfg.Topics.Requests(), Partitions: []int32{0}})
		brokertest.Await(t, beside.Ready(), "the reader beside it is ready")
		fetched()
		time.Sleep(time.Second)
		if n, most := fetched(), float64(time.Second/leastBeside); n > most+1 {
			t.Errorf("%v fetches in a second, want %v at most", n, most)
		}
		for _, r := range []*reading{first, beside} {
			r.stop()
			<-r.ended
		}
		time.Sleep(time.Second) // connections end late, being far
	})
}

// A reader with a pace goes along when the others go, and costs little.
func TestSharedReaderWithAPace(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cfg, reg := brokertest.Counting(brokertest.VirtualCell(t))
		fetched := fetches(t, reg)
		p, j := clienttest.Producer(t, cfg), NewSharedFetch(cfg)
		eager := j.read(t, Options{Topic: cfg.Topics.Instances()})
		paced := j.read(t, Options{Topic: cfg.Topics.Requests(), Partitions: []int32{0}, Pace: 3 * time.Second})
		brokertest.Await(t, eager.Ready(), "the reader is ready")
		brokertest.Await(t, paced.Ready(), "the paced reader is ready")
		time.Sleep(time.Minute)
		fetched()
		for i := range 120 {
			if err := p.Send(
				t.Context(), wire.Record{Key: []byte("k"), Value: []byte(fmt.Sprint(i))}.To(cfg.Topics.Requests(), 0),
			); err != nil {
				t.Fatal(err)
			}
			time.Sleep(500 * time.Millisecond)
		}
		if n := fetched(); n > 30 {
			t.Errorf("%v fetches in a minute in which the paced one had news all the time", n)
		}
		sent := time.Now()
		if err := p.Send(
			t.Context(), wire.Record{Key: []byte("k"), Value: []byte("last")}.To(cfg.Topics.Requests(), 0),
		); err != nil {
			t.Fatal(err)
		}
		paced.upTo(t, "last")
		if took := time.Since(sent); took > 3*time.Second+DefaultWait {
			t.Errorf("the paced reader heard it after %s", took)
		}
		for _, r := range []*reading{eager, paced} {
			r.stop()
			<-r.ended
		}
		p.Close()
	})
}

// What holds for a reader holds for one that shares its fetch.
func TestReadersOfASharedFetch(t *testing.T) {
	reader = func(cfg kafka.Config, opts Options) *Reader { return NewSharedFetch(cfg).Reader(opts) }
	defer func() { reader = NewReader }()
	for name, test := range map[string]func(*testing.T){
		"all, then the tail": TestReaderReadsAllThenTheTail, "an empty topic": TestReaderOfAnEmptyTopicIsAtItsEnd,
		"starts": TestReaderStarts, "markers": TestReaderPassesMarkersAtTheTail,
		"sync":  TestReaderSyncSeesWhatWasAcknowledged,
		"syncs": TestSyncsAtTheSameTimeShareOneQuestion, "no topic yet": TestReaderWaitsForItsTopic,
		"another topic": TestReaderEndsWhenItsTopicIsAnother,
		"removed":       TestReaderSkipsWhatWasRemovedBeforeIt, "lost": TestReaderEndsWhenTheLogLostRecords,
		"no records": TestReaderReachesAnEndWithoutRecords,
		"frozen":     TestFrozenLeader, "cut off": TestALeaderThatIsCutOff,
		"another history": TestReaderEndsWhenTheLogIsAnother,
		"pace":            TestPacedReader, "heard": TestReaderKnowsWhenItWasCaughtUp,
		"idle": TestIdleConnectionsEnd, "nothing is left": TestClientsLeaveNothingBehind,
	} {
		t.Run(name, test)
	}
}

// A patient reader is answered at once by a fetch that goes anyway, and does not wait in it with the others: what
// comes for it wakes no other.
func TestPatientOnesOnlyLook(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cfg := brokertest.VirtualCell(t)
		j := NewSharedFetch(cfg)
		other := j.read(t, Options{Topic: cfg.Topics.Instances()})
		brokertest.Await(t, other.Ready(), "the reader is ready")
		src := &fetch.Source{Client: j.client, Topic: cfg.Topics.Requests()}
		v, err := src.Refresh(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		time.Sleep(DefaultWait / 2) // its fetch is open
		began, leader := time.Now(), v.Leaders[0].Broker
		f := fetch.Request{Broker: leader, View: v, From: map[int32]int64{0: 0}, Wait: 10 * DefaultWait, Least: 1}
		if a := j.Fetch(
			t.Context(), leader, src.Topic, src.Request(f, false), f.Wait, true,
		); a.Err != nil || !a.Early {
			t.Errorf("answered %+v", a)
		}
		if took := time.Since(began); took > DefaultWait/2+gatherReaders {
			t.Errorf("it waited %v, longer than the fetch that was open", took)
		}
		other.stop()
		<-other.ended
	})
}
