// SPDX-License-Identifier: Apache-2.0

package loop

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
	"go.uber.org/zap"

	"github.com/berth-project/berth/pkg/kafka"
	"github.com/berth-project/berth/pkg/kafka/internal/fetch"
	"github.com/berth-project/berth/pkg/kafka/internal/pace"
	"github.com/berth-project/berth/pkg/wire"
)

// The input topics, as indexes of inputs.sources.
const (
	requests = iota
	reports
	inputTopics
)

// inputWait is how long a broker may hold a fetch that finds nothing. A new
// partition does not wait for it: the fetch is given up and asked again.
const inputWait = 5 * time.Second

// inputs reads requests and reports of the owned partitions: one fetch at a time at each broker, for all partitions
// it leads, while the turn before is being decided. Transactions of writers there do not matter: what a broker has
// acknowledged counts, and nobody's open transaction can hold up a partition. One goroutine uses it.
type inputs struct {
	cfg      kafka.Config // for the words of errors
	sources  [inputTopics]*fetch.Source
	client   *kgo.Client
	log      *zap.Logger
	most     int                             // records to hold before nothing more is fetched
	patience func(wire.Record) time.Duration // of reports; nil: none has any

	feeds      map[inputKey]*feed
	parked     map[int32]bool // partitions of which nothing is taken
	buffered   int            // of the others
	due        time.Time      // when what is buffered should be taken; zero: nothing is
	unread     int64          // in the log, as brokers last said, and not read
	first      int            // the feed that next begins with, so that no partition is always last
	views      [inputTopics]fetch.View
	busy       map[int32]context.CancelCauseFunc // brokers with an open fetch
	refreshing bool                              // a goroutine asks for the leaders
	fails      int                               // fetches that failed in a row
	beyondEnds []*fetch.BeyondEnd                // positions that seem to lie behind an end, and are not rechecked yet
	corrupt    []*fetch.Corrupt                  // batches that could not be read again and again

	answers chan inputAnswer
	leaders chan inputLeaders
}

type inputKey struct {
	topic     int
	partition int32
}

// corruptTries is how often a batch is fetched that cannot be read: it may have been
// corrupted on its way.
const corruptTries = 3

// inputFetch is one request to one broker.
type inputFetch struct {
	broker int32
	wait   time.Duration
	of     [inputTopics]fetch.Request
}

// inputAnswer is how a fetch ended.
type inputAnswer struct {
	fetch inputFetch
	parts [inputTopics][]fetch.Part
	err   error // of the whole; then there are no parts
}

// inputLeaders is the answer to a question for the leaders.
type inputLeaders struct {
	views [inputTopics]fetch.View
	err   error
}

// errInterrupted is the end of a fetch that a new one replaces.
var errInterrupted = errors.New("there is more to ask for")

func newInputs(client *kgo.Client, sources [inputTopics]*fetch.Source, log *zap.Logger, most int) *inputs {
	in := &inputs{
		sources: sources, client: client, log: log, most: most,
		feeds: map[inputKey]*feed{}, parked: map[int32]bool{}, busy: map[int32]context.CancelCauseFunc{},
		answers: make(chan inputAnswer), leaders: make(chan inputLeaders),
	}
	for i, s := range sources {
		in.views[i] = s.Current()
	}
	return in
}

// add begins to read partition p of both topics at a position.
func (in *inputs) add(p int32, at position) {
	for topic, next := range at.at {
		wrote := at.wrote[topic]
		in.feeds[inputKey{topic, p}] = &feed{
			Cursor: fetch.Cursor{Next: next, End: -1, Wrote: wrote},
			epochs: []fetch.WrittenBy{{From: -1, Number: wrote.Number()}},
		}
		if interrupt := in.busy[in.views[topic].Leaders[p].Broker]; interrupt != nil {
			interrupt(errInterrupted)
		}
	}
}

// remove forgets partition p.
func (in *inputs) remove(p int32) {
	if !in.parked[p] {
		in.buffered -= in.bufferedOf(p)
	}
	delete(in.parked, p)
	for topic := range inputTopics {
		if f := in.feeds[inputKey{topic, p}]; f != nil {
			in.unread -= f.Behind()
			delete(in.feeds, inputKey{topic, p})
		}
	}
	in.rest()
}

func (in *inputs) bufferedOf(p int32) (n int) {
	for topic := range inputTopics {
		if f := in.feeds[inputKey{topic, p}]; f != nil {
			n += len(f.buffer)
		}
	}
	return n
}

// park has nothing taken of a partition until unpark. It is still read, for a while. A second call does nothing.
func (in *inputs) park(p int32) {
	if in.parked[p] {
		return
	}
	in.parked[p] = true
	in.buffered -= in.bufferedOf(p)
	in.rest()
}

func (in *inputs) unpark(p int32) {
	if !in.parked[p] {
		return
	}
	delete(in.parked, p)
	n, now := in.bufferedOf(p), time.Now()
	in.buffered += n
	if n > 0 && (in.due.IsZero() || now.Before(in.due)) {
		in.due = now
	}
}

// at is the positions of partition p.
func (in *inputs) at(p int32) (at [inputTopics]int64) {
	for topic := range at {
		at[topic] = in.feeds[inputKey{topic, p}].position()
	}
	return at
}

// wrote is the epochs of the leaders that wrote what lies just before those.
func (in *inputs) wrote(p int32) (wrote [inputTopics]fetch.Epoch) {
	for topic := range wrote {
		wrote[topic] = in.feeds[inputKey{topic, p}].wrote()
	}
	return wrote
}

// beyondEnd says that a position of partition p seems to lie behind an end.
func (in *inputs) beyondEnd(p int32) bool {
	for topic := range inputTopics {
		if in.feeds[inputKey{topic, p}].beyond != nil {
			return true
		}
	}
	return false
}

// next hands out what was read, most records at most, and the partitions it is of. What does not all go is shared: a
// flood of one partition keeps no other out of a turn.
func (in *inputs) next(most int) ([]wire.Record, map[int32]bool) {
	if in.buffered == 0 {
		return nil, nil
	}
	keys, full := make([]inputKey, 0, len(in.feeds)), 0
	for k, f := range in.feeds {
		if in.parked[k.partition] {
			continue
		}
		keys = append(keys, k)
		if len(f.buffer) > 0 {
			full++
		}
	}
	slices.SortFunc(keys, func(a, b inputKey) int {
		return int(a.partition-b.partition)*inputTopics + a.topic - b.topic
	})
	records, of := make([]wire.Record, 0, min(most, in.buffered)), map[int32]bool{}
	for _, share := range []int{max(1, most/full), most} { // a share for each, and then what is left
		for i := range keys {
			k := keys[(i+in.first)%len(keys)]
			if some := in.feeds[k].shift(min(share, most-len(records))); len(some) > 0 {
				records = append(records, some...)
				of[k.partition] = true
			}
		}
	}
	in.buffered -= len(records)
	in.first++
	in.rest()
	return records, of
}

// wants notes when these records should be taken at the latest.
func (in *inputs) wants(topic int, recs []wire.Record) {
	now := time.Now()
	for _, rec := range recs {
		due := now
		if topic == reports && in.patience != nil {
			due = now.Add(in.patience(rec))
		}
		if in.due.IsZero() || due.Before(in.due) {
			in.due = due
		}
	}
}

// rest is when nothing has to be taken any more.
func (in *inputs) rest() {
	if in.buffered == 0 {
		in.due = time.Time{}
	}
}

func (in *inputs) dueBy(now time.Time) bool { return !in.due.IsZero() && !now.Before(in.due) }

// dispatch begins a fetch at every broker that has none open.
func (in *inputs) dispatch(ctx context.Context) {
	if in.buffered >= in.most {
		return
	}
	fetches := map[int32]*inputFetch{}
	for k, f := range in.feeds {
		broker := in.views[k.topic].Leaders[k.partition].Broker
		// All that are parked hold no more together than all that are not.
		full := in.parked[k.partition] && len(f.buffer) >= max(1, in.most/len(in.feeds))
		if f.Lost || f.beyond != nil || in.busy[broker] != nil || full {
			continue
		}
		plan := fetches[broker]
		if plan != nil && in.aloneIn(plan) {
			continue
		}
		if plan == nil || f.Alone {
			plan = in.plan(broker)
			fetches[broker] = plan
		}
		plan.of[k.topic].Add(k.partition, &f.Cursor)
		if f.End < 0 || f.Next < f.End {
			plan.wait = 0 // there is something to know at once
		}
	}
	for broker, plan := range fetches {
		fctx, cancel := context.WithCancelCause(ctx)
		in.busy[broker] = cancel
		go func() { in.answers <- in.fetch(fctx, cancel, *plan) }()
	}
}

func (in *inputs) plan(broker int32) *inputFetch {
	plan := &inputFetch{broker: broker, wait: inputWait}
	for topic := range plan.of {
		plan.of[topic] = fetch.At(broker, in.views[topic])
	}
	return plan
}

// aloneIn says whether a fetch is for a partition that must be asked for alone.
func (in *inputs) aloneIn(f *inputFetch) bool {
	for topic, of := range f.of {
		for p := range of.From {
			if in.feeds[inputKey{topic, p}].Alone {
				return true
			}
		}
	}
	return false
}

// receive takes what a fetch brought.
func (in *inputs) receive(ctx context.Context, a inputAnswer) error {
	in.busy[a.fetch.broker](nil)
	delete(in.busy, a.fetch.broker)
	if errors.Is(a.err, errInterrupted) {
		return nil
	}
	var trouble error
	if a.err != nil {
		for topic, of := range a.fetch.of {
			for p := range of.From {
				in.lost(inputKey{topic, p})
			}
		}
		trouble = a.err
	}
	for topic, parts := range a.parts {
		for _, part := range parts {
			if err := in.put(topic, part); err != nil && (trouble == nil || kafka.IsFatal(err)) {
				trouble = err
			}
		}
	}
	if trouble != nil {
		return in.refreshLeaders(ctx, trouble)
	}
	in.fails = 0
	in.sources[requests].Outage.Fine()
	in.verifyLeaders(ctx)
	return nil
}

// verifyLeaders asks now and then whether the brokers that answer still lead.
func (in *inputs) verifyLeaders(ctx context.Context) {
	now := time.Now()
	if in.refreshing || !in.sources[requests].VerifyDue(now) && !in.sources[reports].VerifyDue(now) {
		return
	}
	in.refreshing = true
	go func() {
		var l inputLeaders
		for topic, s := range in.sources {
			if err := s.VerifyLeaders(ctx); kafka.IsFatal(err) {
				l.err = err
			}
			l.views[topic] = s.Current()
		}
		in.leaders <- l
	}()
}

// put keeps what was read of one partition.
func (in *inputs) put(topic int, part fetch.Part) error {
	k := inputKey{topic, part.Partition}
	f := in.feeds[k]
	if f == nil || f.Next != part.From {
		return nil // it was removed, or even added again, since
	}
	if errors.As(part.Err, &f.beyond) {
		in.beyondEnds = append(in.beyondEnds, f.beyond)
		return nil
	}
	var bad *fetch.Corrupt
	if errors.As(part.Err, &bad) {
		f.MarkLost(part)
		if f.corrupt++; f.corrupt >= corruptTries {
			in.corrupt = append(in.corrupt, bad)
		}
		return bad // which passes, for others
	}
	if part.Err != nil {
		if f.MarkLost(part); f.Wrote.Number() < 0 {
			f.epochs = nil // no leader knows
		}
		return part.Err
	}
	f.corrupt = 0
	if part.Skipped {
		in.log.Warn("inputs were removed before they were read", zap.String("topic", in.sources[topic].Topic),
			zap.Int32("partition", part.Partition), zap.Int64("from", part.From), zap.Int64("to", part.Next))
	}
	in.unread -= f.Behind()
	f.advance(part)
	in.unread += f.Behind()
	f.buffer = append(f.buffer, part.Records...)
	if !in.parked[part.Partition] {
		in.buffered += len(part.Records)
		in.wants(topic, part.Records)
	}
	return nil
}

func (in *inputs) lost(k inputKey) {
	if f := in.feeds[k]; f != nil {
		f.Lost = true
	}
}

// refreshLeaders asks for the leaders, because of an error that will pass; other errors it returns.
func (in *inputs) refreshLeaders(ctx context.Context, why error) error {
	if kafka.IsFatal(why) {
		return in.cfg.Classify("read inputs", why)
	}
	in.fails++
	if in.fails >= pace.LogAfter {
		in.sources[requests].Outage.Failed(why)
	}
	if in.refreshing {
		return nil
	}
	in.refreshing = true
	wait := min(pace.MostWait, pace.Backoff(in.fails))
	go func() {
		var l inputLeaders
		if l.err = pace.Sleep(ctx, wait); l.err == nil {
			l.views, l.err = in.refresh(ctx)
		}
		in.leaders <- l
	}()
	return nil
}

func (in *inputs) refresh(ctx context.Context) (views [inputTopics]fetch.View, err error) {
	for topic, s := range in.sources {
		if views[topic], err = s.RefreshKnown(ctx); err != nil {
			return views, err
		}
	}
	return views, nil
}

// setLeaders takes the leaders as they are now, and asks again if there is no answer.
func (in *inputs) setLeaders(ctx context.Context, l inputLeaders) error {
	in.refreshing = false
	if l.err != nil {
		return in.refreshLeaders(ctx, l.err)
	}
	in.views = l.views
	for _, f := range in.feeds {
		f.Lost = false
	}
	return nil
}

// drain waits for the goroutines, which end because their context has.
func (in *inputs) drain() {
	for len(in.busy) > 0 || in.refreshing {
		select {
		case a := <-in.answers:
			delete(in.busy, a.fetch.broker)
		case <-in.leaders:
			in.refreshing = false
		}
	}
}

// fetch asks a broker for records of both topics and waits. It gives up when
// another broker says that this one no longer leads.
func (in *inputs) fetch(ctx context.Context, cancel context.CancelCauseFunc, f inputFetch) inputAnswer {
	wctx, stop := context.WithCancel(ctx)
	var watching sync.WaitGroup
	for topic, s := range in.sources {
		of := f.of[topic]
		of.Wait = f.wait
		if len(of.From) > 0 {
			watching.Go(func() { s.Watch(wctx, of, cancel) })
		}
	}
	resp, err := in.client.Broker(int(f.broker)).Request(ctx, in.request(f))
	stop()
	watching.Wait()
	if cause := context.Cause(ctx); err != nil && cause != nil {
		err = cause
	}
	if err == nil {
		err = kerr.ErrorForCode(resp.(*kmsg.FetchResponse).ErrorCode)
	}
	if err != nil {
		return inputAnswer{fetch: f, err: err}
	}
	return in.parse(ctx, f, resp.(*kmsg.FetchResponse))
}

func (in *inputs) request(f inputFetch) *kmsg.FetchRequest {
	var req *kmsg.FetchRequest
	for topic, s := range in.sources {
		if len(f.of[topic].From) == 0 {
			continue
		}
		one := s.Request(f.of[topic], false)
		if req != nil {
			one.Topics = append(req.Topics, one.Topics...)
		}
		req = one
	}
	req.MaxWaitMillis = int32(f.wait.Milliseconds())
	return req
}

func (in *inputs) parse(ctx context.Context, f inputFetch, resp *kmsg.FetchResponse) inputAnswer {
	a := inputAnswer{fetch: f}
	alone := len(f.of[requests].From)+len(f.of[reports].From) == 1
	for _, t := range resp.Topics {
		for topic, s := range in.sources {
			if t.Topic != s.Topic && t.TopicID != f.of[topic].View.Id {
				continue
			}
			parts := s.Parse(f.of[topic], &kmsg.FetchResponse{Topics: []kmsg.FetchResponseTopic{t}}, false).Parts
			for i := range parts {
				parts[i].Alone = alone
				parts[i] = s.Place(ctx, f.of[topic].View, parts[i])
			}
			a.parts[topic] = append(a.parts[topic], parts...)
		}
	}
	return a
}
