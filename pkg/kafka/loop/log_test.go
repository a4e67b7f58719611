// SPDX-License-Identifier: Apache-2.0

package loop

import (
	"strconv"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"

	"github.com/berth-project/berth/pkg/kafka"
	"github.com/berth-project/berth/pkg/kafka/internal/brokertest"
	"github.com/berth-project/berth/pkg/kafka/internal/readtest"
	"github.com/berth-project/berth/pkg/kafka/read"
	"github.com/berth-project/berth/pkg/wire"
)

// log is a topic as it is read committed, as it grows.
type log struct {
	t    testing.TB
	r    *readtest.Followed
	seen map[string][]int // numbers by key
	recs []wire.Record
}

func openLog(t *testing.T, cfg kafka.Config, topic string) *log {
	t.Helper()
	return &log{
		t:    t,
		r:    readtest.Follow(t, cfg, read.Options{Topic: topic, Committed: true, MaxWait: 250 * time.Millisecond}),
		seen: map[string][]int{},
	}
}

// until reads until want is true of it.
func (l *log) until(what string, want func() bool) {
	l.t.Helper()
	ctx := brokertest.Patient(l.t)
	for !want() {
		select {
		case b := <-l.r.Batches:
			l.add(b)
		case <-ctx.Done():
			l.t.Fatalf("the log never %s; it has %d records", what, len(l.recs))
		}
	}
}

// sync reads what is there.
func (l *log) sync() {
	l.t.Helper()
	if err := l.r.Sync(brokertest.Patient(l.t)); err != nil {
		l.t.Fatal(err)
	}
	for {
		select {
		case b := <-l.r.Batches:
			l.add(b)
		default:
			return
		}
	}
}

func (l *log) add(b read.Batch) {
	l.recs = append(l.recs, b.Records...)
	for _, rec := range b.Records {
		if n, err := strconv.Atoi(string(rec.Value)); err == nil {
			l.seen[string(rec.Key)] = append(l.seen[string(rec.Key)], n)
		}
	}
}

// exact says that every number of every key is there once, in order.
func (l *log) exact(want map[string]int) {
	l.t.Helper()
	for key, n := range want {
		if len(l.seen[key]) != n {
			l.t.Errorf("%s: %d records of %d", key, len(l.seen[key]), n)
		}
		for i, got := range l.seen[key] {
			if got != i+1 {
				l.t.Errorf("%s: record %d is number %d", key, i+1, got)
				break
			}
		}
	}
}

// committed is the group's position and cursor for partition p.
func committedOf(t testing.TB, cfg kafka.Config, p int32) (at [inputTopics]int64, cursor int64) {
	t.Helper()
	cl, err := kafka.NewClient(cfg)
	if err != nil {
		t.Fatal(err)
	}
	defer cl.Close()
	all, err := kadm.NewClient(cl).FetchOffsets(brokertest.Patient(t), cfg.Topics.ConductorGroup())
	if err != nil {
		return [inputTopics]int64{-1, -1}, -1
	}
	for i, topic := range []string{cfg.Topics.Requests(), cfg.Topics.Reports()} {
		o, ok := all.Lookup(topic, p)
		if !ok {
			at[i] = -1
			continue
		}
		at[i] = o.At
		if i == requests {
			cursor = parseCursor(&o.Metadata)
		}
	}
	return at, cursor
}
