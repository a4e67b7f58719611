// SPDX-License-Identifier: Apache-2.0

package fetch

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/berth-project/berth/pkg/compute"
	"github.com/berth-project/berth/pkg/kafka/internal/pace"
	"github.com/berth-project/berth/pkg/unpack"
)

const (
	partitionBytes = 4 << 20  // of one partition in one answer
	AnswerBytes    = 32 << 20 // of one answer
	GatherBytes    = 1 << 20  // are enough to stop gathering
)

// Request is one request to one broker.
type Request struct {
	Broker int32
	View   View
	From   map[int32]int64 // offset by partition
	wrote  map[int32]Epoch // the leader's epoch that wrote what lies just before it
	Asked  time.Time
	Wait   time.Duration
	Least  int32 // bytes to wait for; below 1: 1
}

// At is a fetch of nothing yet.
func At(broker int32, v View) Request {
	return Request{Broker: broker, View: v, From: map[int32]int64{}, wrote: map[int32]Epoch{}}
}

// Add has a partition read on. The leader is told under which epoch what was read
// last was written (KIP-320): where another history of the log won, in an unclean
// election, it ends that epoch elsewhere, and says so, even if the log has grown
// beyond the offset again.
func (f Request) Add(p int32, c *Cursor) { f.From[p], f.wrote[p] = c.Next, c.Wrote }

// Fetched is how a fetch ended.
type Fetched struct {
	Fetch Request
	Parts []Part
	early bool  // the broker was not asked to wait for as long as the fetch says
	Err   error // of the whole; then there are no parts
}

// Said is when the broker said what it said, at the earliest. An answer may have
// been on its way for long: only where there is nothing in it is it known that the
// broker has waited as long as it was asked to.
func (f Fetched) Said() time.Time {
	waited := f.Fetch.Asked.Add(f.Fetch.Wait)
	full := func(p Part) bool { return p.Bytes > 0 || p.Err != nil }
	if f.early || f.Fetch.Least > 1 || time.Now().Before(waited) || slices.ContainsFunc(f.Parts, full) {
		return f.Fetch.Asked
	}
	return waited
}

// ErrMoved is the end of a fetch at a broker that no longer leads.
var ErrMoved = errors.New("the leader changed")

// Fetch asks a broker for records and waits. It gives up when another broker
// says that this one no longer leads, long before the request times out.
func (s *Source) Fetch(ctx context.Context, f Request, committed bool) Fetched {
	fctx, cancel := context.WithCancelCause(ctx)
	watched := make(chan struct{})
	go func() {
		defer close(watched)
		s.Watch(fctx, f, cancel)
	}()
	a := s.carry(fctx, f, s.Request(f, committed))
	resp, err := a.Resp, a.Err
	if err != nil && errors.Is(context.Cause(fctx), ErrMoved) {
		err = ErrMoved
	}
	cancel(nil)
	<-watched
	if err == nil {
		err = kerr.ErrorForCode(resp.ErrorCode)
	}
	if err != nil {
		return Fetched{Fetch: f, Err: s.denied(err)}
	}
	out := s.Parse(f, resp, committed)
	out.early = a.Early
	for i := range out.Parts {
		out.Parts[i] = s.Place(ctx, f.View, out.Parts[i])
		out.Parts[i].Err = s.denied(out.Parts[i].Err)
	}
	return out
}

// carry brings a fetch to its broker, and its answer back.
func (s *Source) carry(ctx context.Context, f Request, req *kmsg.FetchRequest) Answer {
	if s.Shared != nil {
		return s.Shared.Fetch(ctx, f.Broker, s.Topic, req, f.Wait, s.Patient)
	}
	resp, err := RequestFetch(ctx, s.broker(f.Broker), req)
	return Answer{Resp: resp, Err: err}
}

func RequestFetch(ctx context.Context, broker kmsg.Requestor, req *kmsg.FetchRequest) (*kmsg.FetchResponse, error) {
	resp, err := broker.Request(ctx, req)
	if err != nil {
		return nil, err
	}
	return resp.(*kmsg.FetchResponse), nil
}

// Place finds out what it means that a leader does not have what was asked for.
// Below the log: records were removed before they were read, and reading goes on at
// the oldest. Above it, or in another history of it: records that had been handed
// over are gone. Nobody believes that of a leader before another broker was asked
// whether it still is one: a broker that was frozen or cut off does not know.
func (s *Source) Place(ctx context.Context, v View, part Part) Part {
	if !part.diverged && !errors.Is(part.Err, kerr.OffsetOutOfRange) {
		return part
	}
	one := []int32{part.Partition}
	first, err := s.Offsets(ctx, v, one, Earliest)
	if err != nil {
		part.Err = err
		return part
	}
	last, err := s.Offsets(ctx, v, one, Latest)
	switch {
	case err != nil:
		part.Err = err
	case part.From < first[part.Partition]:
		part.Next, part.Skipped, part.Err = first[part.Partition], true, nil
	case part.diverged:
		part.Err = s.lost(ctx, v, &BeyondEnd{s.Topic, part.Partition, part.From, part.End, true})
	case part.From > last[part.Partition]:
		part.Err = s.lost(ctx, v, &BeyondEnd{s.Topic, part.Partition, part.From, last[part.Partition], false})
	case part.asked.Number() > v.Leaders[part.Partition].Epoch: // the topic was made again: nothing of before is in it
		part.Err = s.lost(ctx, v, &BeyondEnd{s.Topic, part.Partition, part.From, first[part.Partition], true})
	default: // a moment's disagreement, or a leader that knows of no such epoch
		part.Err, part.unsure = kerr.OffsetNotAvailable, true
	}
	return part
}

// lost is the error of a partition after its leader has lost records, if that still leads.
func (s *Source) lost(ctx context.Context, v View, why *BeyondEnd) error {
	if err := s.VerifyLeaders(ctx); err != nil {
		return err
	}
	if s.Current().Leaders[why.Partition] != v.Leaders[why.Partition] {
		return ErrMoved
	}
	lost := compute.Conflict(
		"topic", s.Topic, "lost records that had been read", "start again with nothing known of it",
	)
	lost.Cause = why
	return lost
}

// BeyondEnd is a position that lies behind the end of its topic: the records before
// it are gone, and what is written next would be passed over.
type BeyondEnd struct {
	Topic     string
	Partition int32
	At, End   int64
	Parted    bool // the log has grown beyond the position since; it is another one from end on
}

func (a *BeyondEnd) Error() string {
	if a.Parted {
		return fmt.Sprintf(
			"partition %d was read up to offset %d, and is another log from %d on",
			a.Partition, a.At, a.End,
		)
	}
	return fmt.Sprintf("partition %d was read up to offset %d, and ends at %d", a.Partition, a.At, a.End)
}

// Watch ends a fetch at a broker that no longer leads: when that becomes known,
// and if the fetch takes too long it asks.
func (s *Source) Watch(ctx context.Context, f Request, cancel context.CancelCauseFunc) {
	late := time.NewTimer(f.Wait + pace.Overdue(0))
	defer late.Stop()
	for now, asked := f.View, 1; ; {
		select {
		case <-ctx.Done():
			return
		case <-s.change(now):
		case <-late.C:
			late.Reset(pace.Overdue(asked))
			asked++
			if len(now.Brokers) < 2 {
				continue // nobody else could lead
			}
			_, _ = s.Refresh(ctx) // what it learned is in the view
		}
		now = s.Current()
		for p := range f.From {
			if now.Leaders[p] != f.View.Leaders[p] {
				cancel(ErrMoved)
				return
			}
		}
	}
}

func (s *Source) Request(f Request, committed bool) *kmsg.FetchRequest {
	req := kmsg.NewPtrFetchRequest()
	req.MaxWaitMillis = int32(f.Wait.Milliseconds())
	req.MinBytes, req.MaxBytes = max(1, f.Least), AnswerBytes
	req.SessionEpoch = -1 // no fetch session: the request says it all
	if committed {
		req.IsolationLevel = 1
	}
	rt := kmsg.NewFetchRequestTopic()
	rt.Topic, rt.TopicID = s.Topic, f.View.Id
	for p, offset := range f.From {
		rp := kmsg.NewFetchRequestTopicPartition()
		rp.Partition, rp.FetchOffset, rp.PartitionMaxBytes = p, offset, partitionBytes
		rp.CurrentLeaderEpoch, rp.LastFetchedEpoch = f.View.Leaders[p].Epoch, f.wrote[p].Number()
		rt.Partitions = append(rt.Partitions, rp)
	}
	req.Topics = append(req.Topics, rt)
	return req
}

func (s *Source) Parse(f Request, resp *kmsg.FetchResponse, committed bool) Fetched {
	out, room := Fetched{Fetch: f}, unpack.NewRoom()
	for _, t := range resp.Topics {
		for i := range t.Partitions {
			from, asked := f.From[t.Partitions[i].Partition]
			if !asked {
				continue
			}
			part := s.part(&t.Partitions[i], from, committed, room)
			part.asked = f.wrote[part.Partition]
			part.Alone = len(f.From) == 1 && (s.Shared == nil || f.Wait == 0)
			out.Parts = append(out.Parts, part)
		}
	}
	return out
}

func (s *Source) part(p *kmsg.FetchResponseTopicPartition, from int64, committed bool, room *unpack.Room) Part {
	part := Part{Partition: p.Partition, From: from, Next: from, End: p.HighWatermark, Bytes: len(p.RecordBatches)}
	if part.Err = kerr.ErrorForCode(p.ErrorCode); part.Err != nil {
		return part
	}
	if part.diverged = Diverges(p); part.diverged {
		part.End = p.DivergingEpoch.EndOffset
		return part
	}
	if committed {
		part.End = p.LastStableOffset
	}
	read := s.unpack.Part(
		p, unpack.Asked{Topic: s.Topic, Partition: p.Partition, From: from, Committed: committed}, room,
	)
	part.Next, part.wrote, part.Epochs = read.Next, EpochOf(read.Epoch), read.Epochs
	for _, r := range read.Records {
		if s.Takeovers || !r.IsTakeover() { // between conductors
			part.Records = append(part.Records, r)
		}
	}
	if read.Err != nil && part.Next == from {
		part.Err = &compute.Error{
			Op: "read " + s.Topic, Kind: compute.KindUnavailable, Message: "a record batch cannot be read",
			Remedy: "have another replica lead the partition, or restore its log; it is tried again meanwhile",
			Cause:  &Corrupt{s.Topic, p.Partition, from, read.Err},
		}
	}
	return part
}

// Corrupt is a batch that is not what was written: what that was, another replica may have. So its partition is as one
// without a leader, which no other has to wait for.
type Corrupt struct {
	topic     string
	Partition int32
	at        int64
	why       error
}

func (s *Corrupt) Error() string {
	return fmt.Sprintf("offset %d of %s, partition %d, cannot be read: %v", s.at, s.topic, s.Partition, s.why)
}

// Diverges says whether a leader answers that its log is another than the one that
// was read.
func Diverges(p *kmsg.FetchResponseTopicPartition) bool {
	return p.ErrorCode == 0 && p.DivergingEpoch.Epoch >= 0 && p.DivergingEpoch.EndOffset >= 0
}
