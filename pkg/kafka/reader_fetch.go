package kafka

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/berth-project/berth/pkg/compute"
	"github.com/berth-project/berth/pkg/unpack"
)

const (
	partitionBytes = 4 << 20  // of one partition in one answer
	answerBytes    = 32 << 20 // of one answer
	gatherBytes    = 1 << 20  // are enough to stop gathering
)

// fetch is one request to one broker.
type fetch struct {
	broker int32
	view   view
	from   map[int32]int64 // offset by partition
	wrote  map[int32]term  // who wrote what lies just before it
	asked  time.Time
	wait   time.Duration
	least  int32 // bytes to wait for; below 1: 1
}

// fetchAt is a fetch of nothing yet.
func fetchAt(broker int32, v view) fetch {
	return fetch{broker: broker, view: v, from: map[int32]int64{}, wrote: map[int32]term{}}
}

// add has a partition read on. The leader is told under which epoch what was read
// last was written (KIP-320): where another history of the log won, in an unclean
// election, it ends that epoch elsewhere, and says so, even if the log has grown
// beyond the offset again.
func (f fetch) add(p int32, c *cursor) { f.from[p], f.wrote[p] = c.next, c.wrote }

// fetched is how a fetch ended.
type fetched struct {
	fetch fetch
	parts []fetchedPart
	early bool  // the broker was not asked to wait for as long as the fetch says
	err   error // of the whole; then there are no parts
}

// said is when the broker said what it said, at the earliest. An answer may have
// been on its way for long: only where there is nothing in it is it known that the
// broker has waited as long as it was asked to.
func (f fetched) said() time.Time {
	waited := f.fetch.asked.Add(f.fetch.wait)
	full := func(p fetchedPart) bool { return p.bytes > 0 || p.err != nil }
	if f.early || f.fetch.least > 1 || time.Now().Before(waited) || slices.ContainsFunc(f.parts, full) {
		return f.fetch.asked
	}
	return waited
}

// errMoved is the end of a fetch whose broker no longer leads.
var errMoved = errors.New("the leader changed")

// fetch asks a broker for records and waits. It gives up when another broker
// says that this one no longer leads, long before the request times out.
func (s *source) fetch(ctx context.Context, f fetch, committed bool) fetched {
	fctx, cancel := context.WithCancelCause(ctx)
	watched := make(chan struct{})
	go func() {
		defer close(watched)
		s.watch(fctx, f, cancel)
	}()
	a := s.carry(fctx, f, s.request(f, committed))
	resp, err := a.resp, a.err
	if err != nil && errors.Is(context.Cause(fctx), errMoved) {
		err = errMoved
	}
	cancel(nil)
	<-watched
	if err == nil {
		err = kerr.ErrorForCode(resp.ErrorCode)
	}
	if err != nil {
		return fetched{fetch: f, err: err}
	}
	out := s.parse(f, resp, committed)
	out.early = a.early
	for i := range out.parts {
		out.parts[i] = s.place(ctx, f.view, out.parts[i])
	}
	return out
}

// carry brings a fetch to its broker, and its answer back.
func (s *source) carry(ctx context.Context, f fetch, req *kmsg.FetchRequest) answer {
	if s.shared != nil {
		return s.shared.fetch(ctx, f.broker, s.topic, req, f.wait, s.patient)
	}
	resp, err := requestFetch(ctx, s.broker(f.broker), req)
	return answer{resp: resp, err: err}
}

func requestFetch(ctx context.Context, broker kmsg.Requestor, req *kmsg.FetchRequest) (*kmsg.FetchResponse, error) {
	resp, err := broker.Request(ctx, req)
	if err != nil {
		return nil, err
	}
	return resp.(*kmsg.FetchResponse), nil
}

// place finds out what it means that a leader does not have what was asked for.
// Below the log: records were removed before they were read, and reading goes on at
// the oldest. Above it, or in another history of it: records that had been handed
// over are gone. Nobody believes that of a leader before another broker was asked
// whether it still is one: a broker that was frozen or cut off does not know.
func (s *source) place(ctx context.Context, v view, part fetchedPart) fetchedPart {
	if !part.diverged && !errors.Is(part.err, kerr.OffsetOutOfRange) {
		return part
	}
	one := []int32{part.partition}
	first, err := s.offsets(ctx, v, one, earliest)
	if err != nil {
		part.err = err
		return part
	}
	last, err := s.offsets(ctx, v, one, latest)
	switch {
	case err != nil:
		part.err = err
	case part.from < first[part.partition]:
		part.next, part.skipped, part.err = first[part.partition], true, nil
	case part.diverged:
		part.err = s.lost(ctx, v, &astray{s.topic, part.partition, part.from, part.end, true})
	case part.from > last[part.partition]:
		part.err = s.lost(ctx, v, &astray{s.topic, part.partition, part.from, last[part.partition], false})
	default: // a moment's disagreement, or a leader that knows of no such epoch
		part.err, part.unsure = kerr.OffsetNotAvailable, true
	}
	return part
}

// lost is the error of a partition whose leader has lost records, if it is the leader.
func (s *source) lost(ctx context.Context, v view, why *astray) error {
	if err := s.doubt(ctx); err != nil {
		return err
	}
	if s.current().leaders[why.partition] != v.leaders[why.partition] {
		return errMoved
	}
	lost := compute.Conflict("topic", s.topic, "lost records that had been read", "start again with nothing known of it")
	lost.Cause = why
	return lost
}

// astray is a position that lies behind the end of its topic: the records before
// it are gone, and what is written next would be passed over.
type astray struct {
	topic     string
	partition int32
	at, end   int64
	parted    bool // the log has grown beyond the position since; it is another one from end on
}

func (a *astray) Error() string {
	if a.parted {
		return fmt.Sprintf("partition %d was read up to offset %d, and is another log from %d on", a.partition, a.at, a.end)
	}
	return fmt.Sprintf("partition %d was read up to offset %d, and ends at %d", a.partition, a.at, a.end)
}

// watch ends a fetch at a broker that no longer leads: when that becomes known,
// and if the fetch takes too long it asks.
func (s *source) watch(ctx context.Context, f fetch, cancel context.CancelCauseFunc) {
	late := time.NewTimer(f.wait + overdue(0))
	defer late.Stop()
	for now, asked := f.view, 1; ; {
		select {
		case <-ctx.Done():
			return
		case <-s.change(now):
		case <-late.C:
			late.Reset(overdue(asked))
			asked++
			if len(now.brokers) < 2 {
				continue // nobody else could lead
			}
			if _, err := s.refresh(ctx); err != nil {
				continue
			}
		}
		now = s.current()
		for p := range f.from {
			if now.leaders[p] != f.view.leaders[p] {
				cancel(errMoved)
				return
			}
		}
	}
}

func (s *source) request(f fetch, committed bool) *kmsg.FetchRequest {
	req := kmsg.NewPtrFetchRequest()
	req.MaxWaitMillis = int32(f.wait.Milliseconds())
	req.MinBytes, req.MaxBytes = max(1, f.least), answerBytes
	req.SessionEpoch = -1 // no fetch session: the request says it all
	if committed {
		req.IsolationLevel = 1
	}
	rt := kmsg.NewFetchRequestTopic()
	rt.Topic, rt.TopicID = s.topic, f.view.id
	for p, offset := range f.from {
		rp := kmsg.NewFetchRequestTopicPartition()
		rp.Partition, rp.FetchOffset, rp.PartitionMaxBytes = p, offset, partitionBytes
		rp.CurrentLeaderEpoch, rp.LastFetchedEpoch = f.view.leaders[p].epoch, f.wrote[p].number()
		rt.Partitions = append(rt.Partitions, rp)
	}
	req.Topics = append(req.Topics, rt)
	return req
}

func (s *source) parse(f fetch, resp *kmsg.FetchResponse, committed bool) fetched {
	out, room := fetched{fetch: f}, unpack.NewRoom()
	for _, t := range resp.Topics {
		for i := range t.Partitions {
			from, asked := f.from[t.Partitions[i].Partition]
			if !asked {
				continue
			}
			part := s.part(&t.Partitions[i], from, committed, room)
			part.alone = len(f.from) == 1 && (s.shared == nil || f.wait == 0)
			out.parts = append(out.parts, part)
		}
	}
	return out
}

func (s *source) part(p *kmsg.FetchResponseTopicPartition, from int64, committed bool, room *unpack.Room) fetchedPart {
	part := fetchedPart{partition: p.Partition, from: from, next: from, end: p.HighWatermark, bytes: len(p.RecordBatches)}
	if part.err = kerr.ErrorForCode(p.ErrorCode); part.err != nil {
		return part
	}
	if part.diverged = diverges(p); part.diverged {
		part.end = p.DivergingEpoch.EndOffset
		return part
	}
	if committed {
		part.end = p.LastStableOffset
	}
	read := s.unpack.Part(p, unpack.Asked{Topic: s.topic, Partition: p.Partition, From: from, Committed: committed}, room)
	part.next, part.wrote = read.Next, termOf(read.Epoch)
	for _, r := range read.Records {
		if s.takeovers || !r.IsTakeover() { // between conductors
			part.records = append(part.records, r)
		}
	}
	if read.Err != nil && part.next == from {
		part.err = &compute.Error{
			Op: "read " + s.topic, Kind: compute.KindInternal, Message: "a record batch cannot be read",
			Cause: &spoilt{s.topic, p.Partition, from, read.Err},
		}
	}
	return part
}

// spoilt is a batch that is not what was written: what that was, another replica may have.
type spoilt struct {
	topic     string
	partition int32
	at        int64
	why       error
}

func (s *spoilt) Error() string {
	return fmt.Sprintf("offset %d of %s, partition %d, cannot be read: %v", s.at, s.topic, s.partition, s.why)
}

// diverges says whether a leader answers that its log is another than the one that
// was read.
func diverges(p *kmsg.FetchResponseTopicPartition) bool {
	return p.ErrorCode == 0 && p.DivergingEpoch.Epoch >= 0 && p.DivergingEpoch.EndOffset >= 0
}
