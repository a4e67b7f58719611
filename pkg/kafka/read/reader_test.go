// SPDX-License-Identifier: Apache-2.0

package read

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/berth-project/berth/pkg/compute"
	"github.com/berth-project/berth/pkg/kafka"
	"github.com/berth-project/berth/pkg/kafka/internal/brokertest"
	"github.com/berth-project/berth/pkg/kafka/internal/clienttest"
	"github.com/berth-project/berth/pkg/kafkatest"
	"github.com/berth-project/berth/pkg/wire"
)

// reading is a reader under test and what it handed over.
type reading struct {
	*Reader
	batches chan Batch
	stopped chan error
	stop    context.CancelFunc
}

// reader makes the readers under test.
var reader = NewReader

func read(t *testing.T, cfg kafka.Config, opts Options) *reading {
	t.Helper()
	return reads(t, opts, func(o Options) *Reader { return reader(cfg, o) })
}

func reads(t *testing.T, opts Options, made func(Options) *Reader) *reading {
	t.Helper()
	r := &reading{batches: make(chan Batch, 10_000), stopped: make(chan error, 1)}
	opts.Handle = func(b Batch) { r.batches <- b }
	r.Reader = made(opts)
	ctx, stop := context.WithCancel(context.Background())
	r.stop = stop
	go func() { r.stopped <- r.Run(ctx) }()
	t.Cleanup(func() {
		stop()
		<-r.ended
	})
	return r
}

// upTo collects values until one says it is the last, and says whether the
// batch that had it said End.
func (r *reading) upTo(t *testing.T, last string) (values []string, end bool) {
	t.Helper()
	ctx := brokertest.Patient(t)
	for {
		select {
		case b := <-r.batches:
			for _, rec := range b.Records {
				values = append(values, string(rec.Value))
			}
			if slices.Contains(values, last) {
				return values, b.End
			}
		case err := <-r.stopped:
			t.Fatalf("the reader ended: %v; had read %q", err, values)
		case <-ctx.Done():
			t.Fatalf("never read %q, only %q", last, values)
		}
	}
}

// now is what was handed over and not looked at yet.
func (r *reading) now() (values []string, end bool) {
	for {
		select {
		case b := <-r.batches:
			for _, rec := range b.Records {
				values = append(values, string(rec.Value))
			}
			end = b.End
		default:
			return values, end
		}
	}
}

func syncUp(t *testing.T, r *reading) {
	t.Helper()
	if err := r.Sync(brokertest.Patient(t)); err != nil {
		t.Fatal(err)
	}
}

func TestReaderReadsAllThenTheTail(t *testing.T) {
	kafkatest.Each(t, func(t *testing.T, b kafkatest.Broker) {
		cfg := brokertest.TestConfig(b)
		topic := b.Prefix + "stream"
		brokertest.MakeTopic(t, cfg, topic, 1, nil)
		var want []string
		for i := range 500 {
			want = append(want, fmt.Sprint(i))
		}
		brokertest.Put(t, cfg, topic, 0, want[:400]...)
		r := read(t, cfg, Options{Topic: topic})
		brokertest.Await(t, r.Ready(), "the reader is ready")
		got, end := r.now()
		if diff := cmp.Diff(want[:400], got); diff != "" {
			t.Fatal(diff)
		}
		if !end {
			t.Error("at the end, and no batch said so")
		}
		brokertest.Put(t, cfg, topic, 0, want[400:]...)
		tail, end := r.upTo(t, "499")
		if diff := cmp.Diff(want[400:], tail); diff != "" {
			t.Fatal(diff)
		}
		if !end {
			t.Error("the last record did not come with End")
		}
	})
}

func TestReaderHandsOverTheWholeRecord(t *testing.T) {
	kafkatest.Each(t, func(t *testing.T, b kafkatest.Broker) {
		cfg := brokertest.TestConfig(b)
		topic := b.Prefix + "stream"
		brokertest.MakeTopic(t, cfg, topic, 3, nil)
		p := clienttest.Producer(t, cfg)
		sent := []wire.Record{
			{
				Key: []byte("a"), Value: []byte("v"),
				Headers: []wire.Header{{Key: "h", Value: []byte("1")}, {Key: "h", Value: []byte("2")}},
			},
			{Key: []byte("b"), Value: nil},
			{Key: []byte("c"), Value: []byte{}},
		}
		before := time.Now().Add(-time.Second)
		for _, s := range sent {
			if err := p.Send(brokertest.Patient(t), s.To(topic, 2)); err != nil {
				t.Fatal(err)
			}
		}
		r := read(t, cfg, Options{Topic: topic})
		syncUp(t, r)
		var got []wire.Record
		for len(r.batches) > 0 {
			got = append(got, (<-r.batches).Records...)
		}
		for i := range got {
			if got[i].Time.Before(before) || got[i].Time.After(time.Now().Add(time.Second)) {
				t.Errorf("record %d is of %v", i, got[i].Time)
			}
			got[i].Time = time.Time{}
			sent[i] = sent[i].To(topic, 2)
			sent[i].Offset = int64(i)
		}
		if diff := cmp.Diff(sent, got); diff != "" {
			t.Error(diff)
		}
	})
}

func TestReaderOfAnEmptyTopicIsAtItsEnd(t *testing.T) {
	kafkatest.Each(t, func(t *testing.T, b kafkatest.Broker) {
		cfg := brokertest.TestConfig(b)
		topic := b.Prefix + "stream"
		brokertest.MakeTopic(t, cfg, topic, 2, nil)
		r := read(t, cfg, Options{Topic: topic})
		brokertest.Await(t, r.Ready(), "the reader is ready")
		select {
		case got := <-r.batches:
			if !got.End || len(got.Records) > 0 {
				t.Errorf("got %+v, want an empty batch at the end", got)
			}
		default:
			t.Fatal("ready, and no batch has said End")
		}
	})
}

func TestReaderStarts(t *testing.T) {
	kafkatest.Each(t, func(t *testing.T, b kafkatest.Broker) {
		cfg := brokertest.TestConfig(b)
		for name, c := range map[string]struct {
			from   Start
			want   []string
			missed []int64
		}{
			"beginning": {Beginning(), []string{"2", "3", "4", "5"}, nil},
			"end":       {End(), []string{"5"}, nil},
			"at":        {At(map[int32]int64{0: 3}), []string{"3", "4", "5"}, nil},
			"oldest":    {At(map[int32]int64{0: 2}), []string{"2", "3", "4", "5"}, nil},
			"removed":   {At(map[int32]int64{0: 1}), []string{"2", "3", "4", "5"}, []int64{2}},
			"unheard":   {At(map[int32]int64{0: 99}), []string{"2", "3", "4", "5"}, []int64{2}},
			"unnamed":   {At(map[int32]int64{7: 3}), []string{"2", "3", "4", "5"}, nil},
		} {
			t.Run(name, func(t *testing.T) {
				topic := b.Prefix + name
				brokertest.MakeTopic(t, cfg, topic, 1, nil)
				brokertest.Put(t, cfg, topic, 0, "0", "1", "2", "3", "4")
				brokertest.RemoveBelow(t, cfg, topic, 2)
				var missed []int64
				r := read(t, cfg, Options{Topic: topic, From: c.from, Missed: func(_ int32, next int64) {
					missed = append(missed, next)
				}})
				brokertest.Await(t, r.Ready(), "the reader is ready")
				brokertest.Put(t, cfg, topic, 0, "5")
				got, _ := r.upTo(t, "5")
				if diff := cmp.Diff(c.want, got); diff != "" {
					t.Error(diff)
				}
				if diff := cmp.Diff(c.missed, missed); diff != "" {
					t.Error("missed", diff)
				}
			})
		}
	})
}

// A marker, committed or aborted, is the last thing in the log; no record sits
// at the end offset.
func TestReaderPassesMarkersAtTheTail(t *testing.T) {
	kafkatest.Each(t, func(t *testing.T, b kafkatest.Broker) {
		cfg := brokertest.TestConfig(b)
		for name, c := range map[string]struct {
			commit    kgo.TransactionEndTry
			committed bool
			want      []string
		}{
			"committed":               {kgo.TryCommit, true, []string{"before", "in"}},
			"committed, read anyway":  {kgo.TryCommit, false, []string{"before", "in"}},
			"aborted":                 {kgo.TryAbort, true, []string{"before"}},
			"aborted, read all of it": {kgo.TryAbort, false, []string{"before", "in"}},
		} {
			t.Run(name, func(t *testing.T) {
				topic := fmt.Sprintf("%s%t.%t", b.Prefix, c.commit, c.committed)
				brokertest.MakeTopic(t, cfg, topic, 1, nil)
				brokertest.Put(t, cfg, topic, 0, "before")
				brokertest.Transact(t, cfg, topic, c.commit, "in")
				r := read(t, cfg, Options{Topic: topic, Committed: c.committed})
				brokertest.Await(t, r.Ready(), "the reader is ready")
				got, end := r.now()
				if diff := cmp.Diff(c.want, got); diff != "" {
					t.Error(diff)
				}
				if !end {
					t.Error("no batch said End")
				}
				syncUp(t, r)
			})
		}
	})
}

func TestCommittedReaderWaitsForOpenTransactions(t *testing.T) {
	kafkatest.Each(t, func(t *testing.T, b kafkatest.Broker) {
		cfg, tap := brokertest.TestConfig(b), &brokertest.WireTap{}
		topic := b.Prefix + "instances"
		brokertest.MakeTopic(t, cfg, topic, 1, nil)
		brokertest.Put(t, cfg, topic, 0, "before")
		decide := brokertest.Begin(t, cfg, topic, "in")
		tapped := cfg
		tapped.Dial = tap.Dial
		r := read(t, tapped, Options{Topic: topic, Committed: true, MaxWait: 100 * time.Millisecond})
		got, end := r.upTo(t, "before")
		if !cmp.Equal(got, []string{"before"}) || !end {
			t.Fatalf("got %q, end %t: want what is decided, and its end", got, end)
		}
		synced := make(chan error, 1)
		go func() { synced <- r.Sync(brokertest.Patient(t)) }()
		brokertest.Put(t, cfg, topic, 0, "after") // behind the open transaction: not stable either
		fetch := new(kmsg.FetchRequest).Key()
		tap.Expect(t, fetch, tap.Count(fetch)+4, func() {}) // three that began after that have found nothing
		select {
		case <-r.Ready():
			t.Error("ready with an undecided transaction before the end seen at start")
		case err := <-synced:
			t.Errorf("synced (%v) with an undecided transaction before the end", err)
		case got := <-r.batches:
			t.Errorf("handed over what is not decided: %+v", got)
		default:
		}
		decide(kgo.TryCommit)
		got, _ = r.upTo(t, "after")
		if diff := cmp.Diff([]string{"in", "after"}, got); diff != "" {
			t.Error(diff)
		}
		brokertest.Await(t, r.Ready(), "the reader is ready")
		if err := <-synced; err != nil {
			t.Error(err)
		}
	})
}

// A gathering reader hears of many records at once, and of all of them.
func TestReaderGathers(t *testing.T) {
	kafkatest.Each(t, func(t *testing.T, b kafkatest.Broker) {
		cfg := brokertest.TestConfig(b)
		topic := b.Prefix + "table"
		brokertest.MakeTopic(t, cfg, topic, 1, nil)
		r := read(t, cfg, Options{Topic: topic, Gather: 5 * time.Second})
		brokertest.Await(t, r.Ready(), "the reader is ready")
		var want []string
		for i := range 50 {
			want = append(want, fmt.Sprint(i))
		}
		brokertest.Put(t, cfg, topic, 0, want...) // one by one
		syncUp(t, r)
		var got []string
		filled := 0
		for len(r.batches) > 0 {
			if batch := <-r.batches; len(batch.Records) > 0 {
				filled++
				for _, rec := range batch.Records {
					got = append(got, string(rec.Value))
				}
			}
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Error(diff)
		}
		if filled > 10 {
			t.Errorf("50 records came in %d batches", filled)
		}
	})
}

func TestReaderSyncSeesWhatWasAcknowledged(t *testing.T) {
	kafkatest.Each(t, func(t *testing.T, b kafkatest.Broker) {
		cfg := brokertest.TestConfig(b)
		topic := b.Prefix + "table"
		brokertest.MakeTopic(t, cfg, topic, 4, nil)
		r := read(t, cfg, Options{Topic: topic})
		p := clienttest.Producer(t, cfg)
		for i := range 20 {
			v := fmt.Sprint(i)
			if err := p.Send(brokertest.Patient(t), wire.Record{Value: []byte(v)}.To(topic, int32(i%4))); err != nil {
				t.Fatal(err)
			}
			syncUp(t, r)
			if got, _ := r.now(); !cmp.Equal(got, []string{v}) {
				t.Fatalf("after the sync behind %q the table has %q more", v, got)
			}
		}
		r.stop()
		<-r.ended
		if err := r.Sync(brokertest.Patient(t)); compute.KindOf(err) != compute.KindUnavailable {
			t.Errorf("sync of an ended reader: %v", err)
		}
	})
}

func TestSyncsAtTheSameTimeShareOneQuestion(t *testing.T) {
	cfg, tap := brokertest.TestConfig(kafkatest.Embedded(t)), &brokertest.WireTap{}
	cfg.Dial = tap.Dial
	topic := cfg.Topics.Hosts()
	brokertest.MakeTopic(t, cfg, topic, 1, nil)
	r := read(t, cfg, Options{Topic: topic})
	syncUp(t, r)
	key := new(kmsg.ListOffsetsRequest).Key()
	asked := tap.Count(key)
	const calls = 200
	var wg sync.WaitGroup
	for range calls {
		wg.Go(func() {
			if err := r.Sync(brokertest.Patient(t)); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	if n := tap.Count(key) - asked; n > calls/2 {
		t.Errorf("%d questions for %d calls", n, calls)
	}
}

func TestReaderOfSomePartitions(t *testing.T) {
	kafkatest.Each(t, func(t *testing.T, b kafkatest.Broker) {
		cfg := brokertest.TestConfig(b)
		topic := b.Prefix + "table"
		brokertest.MakeTopic(t, cfg, topic, 3, nil)
		for p := range int32(3) {
			brokertest.Put(t, cfg, topic, p, fmt.Sprint("of ", p))
		}
		r := read(t, cfg, Options{Topic: topic, Partitions: []int32{2}})
		syncUp(t, r)
		if got, _ := r.now(); !cmp.Equal(got, []string{"of 2"}) {
			t.Errorf("got %q", got)
		}
		wrong := NewReader(cfg, Options{Topic: topic, Partitions: []int32{3}})
		if err := wrong.Run(brokertest.Patient(t)); compute.KindOf(err) != compute.KindNotFound {
			t.Errorf("a partition that is not there: %v", err)
		}
	})
}

func TestReaderWaitsForItsTopic(t *testing.T) {
	kafkatest.Each(t, func(t *testing.T, b kafkatest.Broker) {
		cfg := brokertest.TestConfig(b)
		topic := b.Prefix + "late"
		logs, logged := brokertest.LogTo(&cfg)
		r := read(t, cfg, Options{Topic: topic})
		brokertest.Await(t, logged, "the log says that the reader waits")
		brokertest.MakeTopic(t, cfg, topic, 1, nil)
		brokertest.Put(t, cfg, topic, 0, "first")
		r.upTo(t, "first")
		brokertest.Await(t, r.Ready(), "the reader is ready")
		if n := logs.FilterMessage("waiting for a topic").Len(); n != 1 {
			t.Errorf("logged %d lines for one wait: %v", n, logs.All())
		}
	})
}

func TestReaderEndsWhenItsTopicIsAnother(t *testing.T) {
	kafkatest.Each(t, func(t *testing.T, b kafkatest.Broker) {
		cfg := brokertest.TestConfig(b)
		topic := b.Prefix + "gone"
		brokertest.MakeTopic(t, cfg, topic, 1, nil)
		brokertest.Put(t, cfg, topic, 0, "old")
		r := read(t, cfg, Options{Topic: topic, MaxWait: 200 * time.Millisecond})
		r.upTo(t, "old")
		if err := clienttest.Admin(t, cfg).DeleteTopics(brokertest.Patient(t), topic); err != nil {
			t.Fatal(err)
		}
		brokertest.MakeTopic(t, cfg, topic, 1, nil)
		select {
		case err := <-r.stopped:
			if compute.KindOf(err) != compute.KindConflict || !strings.Contains(err.Error(), "made again") {
				t.Errorf("ended with %v", err)
			}
		case <-brokertest.Patient(t).Done():
			t.Fatal("reads on as if nothing were")
		}
	})
}
