// SPDX-License-Identifier: Apache-2.0

package loop

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strconv"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/berth-project/berth/pkg/compute"
	"github.com/berth-project/berth/pkg/kafka"
	"github.com/berth-project/berth/pkg/kafka/access"
	"github.com/berth-project/berth/pkg/kafka/internal/fetch"
	"github.com/berth-project/berth/pkg/kafka/internal/retry"
	"github.com/berth-project/berth/pkg/kafka/read"
	"github.com/berth-project/berth/pkg/wire"
)

// Position is where the conductors go on in a partition.
type Position struct {
	Partition int32
	Inputs    []InputPosition // of requests and reports
	// Aside says that a conductor has found it behind an end, and that nobody
	// decides about the partition until it is reset. The positions are then where
	// the topics ended when that was noticed.
	Aside bool
	at    position
}

// InputPosition is a position in one topic, and where that begins and ends.
type InputPosition struct {
	Topic           string
	At, Begins, End int64 // At is -1 if nothing was ever decided
}

// BeyondEnd says whether a conductor cannot go on from there.
func (p Position) BeyondEnd() bool {
	for _, in := range p.Inputs {
		if in.At > in.End {
			return true
		}
	}
	return p.Aside
}

// ResetTo is where a position that is astray is set.
type ResetTo string

const (
	// ResetNoticed is where the topics ended when a conductor noticed, or, if none
	// has, where they end now. Nothing is decided twice or passed over that came after.
	ResetNoticed ResetTo = "noticed"
	// ResetEnd passes over all that is there: requests in it were accepted, and are
	// never decided.
	ResetEnd ResetTo = "end"
	// ResetBeginning has all decided again that the topics still have.
	ResetBeginning ResetTo = "beginning"
)

// Check refuses any other.
func (r ResetTo) Check() error {
	switch r {
	case ResetNoticed, ResetEnd, ResetBeginning:
		return nil
	}
	return compute.Invalid("to", string(r), fmt.Sprintf("use %s, %s or %s", ResetNoticed, ResetEnd, ResetBeginning))
}

// PositionOf reads the position of a partition from instances and from the group of
// the conductors.
func PositionOf(ctx context.Context, cfg kafka.Config, p int32) (Position, error) {
	const op = "read a position"
	cfg = cfg.WithDefaults()
	client, err := kafka.NewClient(cfg)
	if err != nil {
		return Position{}, err
	}
	defer client.Close()
	ask := kadm.NewClient(client)
	inLog, err := loggedPositions(ctx, cfg, read.Options{Partitions: []int32{p}})
	if err != nil {
		return Position{}, cfg.Classify(op, err)
	}
	topics := []string{cfg.Topics.Requests(), cfg.Topics.Reports()}
	needs := []access.Right{
		access.To(access.Describe, access.Topic, topics[requests]),
		access.To(access.Describe, access.Group, cfg.Topics.ConductorGroup()),
	}
	first, err := ask.ListStartOffsets(ctx, topics...)
	if err != nil {
		return Position{}, cfg.Classify(op, err, needs...)
	}
	last, err := ask.ListEndOffsets(ctx, topics...)
	if err != nil {
		return Position{}, cfg.Classify(op, err, needs...)
	}
	groups, err := ask.FetchOffsetsForTopics(ctx, cfg.Topics.ConductorGroup(), topics...)
	if err != nil {
		return Position{}, cfg.Classify(op, err, needs...)
	}
	committed := nowhere(p)
	for i, topic := range topics {
		if o, ok := groups.Lookup(topic, p); ok && o.Err == nil {
			committed.at[i], committed.wrote[i] = o.At, fetch.EpochOf(o.LeaderEpoch)
			if i == requests {
				committed.cursor, committed.reset = parseCursor(&o.Metadata), parseReset(&o.Metadata)
			}
		}
	}
	pos := Position{Partition: p, at: committed}
	if logged, ok := inLog[p]; ok {
		pos.at = logged.further(committed)
	}
	pos.Aside = pos.at.aside
	for i, topic := range topics {
		begins, ok1 := first.Lookup(topic, p)
		ends, ok2 := last.Lookup(topic, p)
		if !ok1 || !ok2 {
			remedy := "name a partition that " + topic + " has"
			return Position{}, compute.NotFound("partition", strconv.Itoa(int(p)), remedy)
		}
		if err := cmp.Or(begins.Err, ends.Err); err != nil {
			return Position{}, cfg.Classify(op, err, access.To(access.Describe, access.Topic, topic))
		}
		pos.Inputs = append(pos.Inputs, InputPosition{
			Topic: topic, At: pos.at.at[i], Begins: begins.Offset, End: ends.Offset,
		})
	}
	return pos, nil
}

// asideTail is more than conductors write to a partition after it was noted that it is set aside: takeovers, each with
// the note again.
const asideTail = 10

// SetAside lists the partitions that are written down as set aside. It reads only the ends of instances.
func SetAside(ctx context.Context, cfg kafka.Config) ([]int32, error) {
	const op = "look for partitions that are set aside"
	cfg = cfg.WithDefaults()
	client, err := kafka.NewClient(cfg)
	if err != nil {
		return nil, err
	}
	defer client.Close()
	topic := cfg.Topics.Instances()
	ends, err := kadm.NewClient(client).ListEndOffsets(ctx, topic)
	if err == nil {
		err = ends.Error()
	}
	if err != nil {
		return nil, cfg.Classify(op, err, access.To(access.Describe, access.Topic, topic))
	}
	from := map[int32]int64{}
	for p, end := range ends[topic] {
		from[p] = max(0, end.Offset-asideTail)
	}
	at, err := loggedPositions(ctx, cfg, read.Options{From: read.At(from)})
	if err != nil {
		return nil, cfg.Classify(op, err)
	}
	var aside []int32
	for p, pos := range at {
		if pos.aside {
			aside = append(aside, p)
		}
	}
	slices.Sort(aside)
	return aside, nil
}

// loggedPositions reads partitions of instances to their ends, as far as of tells which and from where.
func loggedPositions(ctx context.Context, cfg kafka.Config, of read.Options) (map[int32]position, error) {
	at := map[int32]position{}
	of.Handle = func(b read.Batch) {
		for _, rec := range b.Records {
			said, ok := carried(rec)
			if !ok {
				continue
			}
			if before, known := at[rec.Partition]; known {
				said = before.further(said)
			}
			at[rec.Partition] = said
		}
	}
	if ready, err := readInstances(ctx, cfg, of); !ready {
		return nil, cmp.Or(err, ctx.Err())
	}
	return at, nil
}

// Reset is what a position becomes.
func (p Position) Reset(to ResetTo) (Position, error) {
	if !p.BeyondEnd() {
		return p, compute.Conflict("partition", strconv.Itoa(int(p.Partition)),
			"has a position that conductors can go on from", "leave it as it is")
	}
	if err := to.Check(); err != nil {
		return p, err
	}
	next := p
	next.Inputs = nil
	next.Aside, next.at.aside = false, false
	next.at.reset++
	for i, in := range p.Inputs {
		switch to {
		case ResetNoticed:
			in.At = min(in.At, in.End)
		case ResetEnd:
			in.At = in.End
		case ResetBeginning:
			in.At = in.Begins
		}
		in.At = max(in.At, in.Begins)
		if next.at.at[i] != in.At {
			next.at.at[i], next.at.wrote[i] = in.At, fetch.Epoch{}
		}
		next.Inputs = append(next.Inputs, in)
	}
	return next, nil
}

// ResetPosition writes down a position that Reset has made, in one record that is a takeover too: it fences the
// partition's owner. A conductor that has set the partition aside takes it over again within seconds.
func ResetPosition(ctx context.Context, cfg kafka.Config, to Position) error {
	const op = "reset a position"
	cfg = cfg.WithDefaults()
	client, err := kafka.NewClient(cfg, kgo.RequestRetries(0))
	if err != nil {
		return err
	}
	defer client.Close()
	topic := &fetch.Source{Client: client, Topic: cfg.Topics.Instances(), Log: cfg.Log}
	if err := topic.Open(ctx); err != nil {
		return cfg.Classify(op, err)
	}
	s := &fencedWriter{
		cfg: cfg, group: cfg.Topics.ConductorGroup(), name: "reset-position",
		most: DefaultTurnBytes, client: client, topic: topic,
	}
	raise := func() (producerEpoch, error) {
		ctx, cancel := context.WithTimeout(ctx, takeOverTimeout)
		defer cancel()
		return s.raise(ctx, to.Partition, noEpoch)
	}
	with, err := retry.Do(ctx, cfg.Log, "waiting for the right to write to instances", nil, raise)
	if err != nil {
		return cfg.Classify(op, err)
	}
	note := &entry{epoch: with, records: []wire.Record{wire.Takeover(s.name)}}
	to.at.carry(note.records)
	return cfg.Classify(op, s.write(ctx, map[int32]*entry{to.Partition: note}))
}
