// SPDX-License-Identifier: Apache-2.0

package loop

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/berth-project/berth/pkg/kafka"
	"github.com/berth-project/berth/pkg/kafka/internal/fetch"
	"github.com/berth-project/berth/pkg/wire"
)

var errNoMember = errors.New("no commit without a generation: nothing would fence it")

type inputTopic struct {
	name string
	id   [16]byte
}

// position is how far a partition's inputs have been dealt with, and its
// effects published.
//
// Each batch of instances carries the position behind the inputs that made it:
// the log that says what was decided says of what. Positions that moved without
// a change are committed to the group, now and then. Both only ever say what is
// true, so what is further counts.
//
// With an offset goes the epoch of the leader that wrote what lies just before it,
// if that is known. The leader of now is told with the first fetch: if its log is
// another one, because one without all records was elected, it says so, though it may
// have grown beyond the offset again (KIP-320).
//
// Unless one was reset, because it lies behind the end of its topic: what was said
// before that is true no more, wherever it is kept.
type position struct {
	partition int32
	at        [inputTopics]int64
	wrote     [inputTopics]fetch.Epoch // the last record before at
	cursor    int64
	reset     int64 // how often it was; what was reset more often counts alone
	aside     bool  // until it is reset again nobody goes on from it
}

// nowhere is the position of a partition of which nothing was ever written.
func nowhere(p int32) position {
	return position{partition: p, at: [inputTopics]int64{-1, -1}, cursor: -1}
}

// further is the later of both in each respect.
func (p position) further(q position) position {
	switch {
	case p.reset > q.reset:
		return p
	case p.reset < q.reset:
		return q
	}
	p.aside = p.aside || q.aside
	for i := range p.at {
		if q.at[i] > p.at[i] || q.at[i] == p.at[i] && q.wrote[i].Number() > p.wrote[i].Number() {
			p.at[i], p.wrote[i] = q.at[i], q.wrote[i]
		}
	}
	p.cursor = max(p.cursor, q.cursor)
	return p
}

// epochFields are the names of wrote in a header. A version that does not know them
// passes over them, and its own positions have none.
var epochFields = [inputTopics]string{requests: "requests-epoch", reports: "reports-epoch"}

// carry notes the position at the last of a batch's records.
func (p position) carry(recs []wire.Record) {
	last := &recs[len(recs)-1]
	value := fmt.Appendf(nil, "requests=%d reports=%d outbox=%d", p.at[requests], p.at[reports], p.cursor)
	for i, name := range epochFields {
		if n := p.wrote[i].Number(); n >= 0 {
			value = fmt.Appendf(value, " %s=%d", name, n)
		}
	}
	if p.reset > 0 {
		value = fmt.Appendf(value, " reset=%d", p.reset)
	}
	if p.aside {
		value = append(value, " aside=1"...)
	}
	last.Headers = append(slices.Clip(last.Headers), wire.Header{Key: wire.HeaderPosition, Value: value})
}

// carried reads what carry noted; false if it is none.
func carried(rec wire.Record) (p position, ok bool) {
	p = nowhere(rec.Partition)
	for field := range strings.FieldsSeq(string(rec.Header(wire.HeaderPosition))) {
		name, digits, _ := strings.Cut(field, "=")
		n, err := strconv.ParseInt(digits, 10, 64)
		if err != nil {
			return nowhere(rec.Partition), false
		}
		switch name {
		case "requests":
			p.at[requests] = n
		case "reports":
			p.at[reports] = n
		case epochFields[requests]:
			p.wrote[requests] = epochOf(n)
		case epochFields[reports]:
			p.wrote[reports] = epochOf(n)
		case "outbox":
			p.cursor = n
		case "reset":
			p.reset = n
		case "aside":
			p.aside = n > 0
		}
	}
	return p, p.at[requests] >= 0 && p.at[reports] >= 0
}

func epochOf(n int64) fetch.Epoch {
	if n > math.MaxInt32 {
		return fetch.Epoch{} // no leader has it
	}
	return fetch.EpochOf(int32(max(-1, n)))
}

// commitPositions commits positions to the group, which refuses them from any
// generation but the present one. One that was given up may still arrive after
// a newer one: then some inputs that changed nothing are looked at once more.
func commitPositions(
	ctx context.Context, client *kgo.Client, group string, f fence, topics [inputTopics]inputTopic, at []position,
) error {
	if f.member == "" {
		return errNoMember
	}
	req := kmsg.NewPtrOffsetCommitRequest()
	req.Group, req.MemberID, req.Generation = group, f.member, f.generation
	for i, topic := range topics {
		rt := kmsg.NewOffsetCommitRequestTopic()
		rt.Topic, rt.TopicID = topic.name, topic.id
		for _, p := range at {
			rp := kmsg.NewOffsetCommitRequestTopicPartition()
			rp.Partition, rp.Offset, rp.Metadata = p.partition, p.at[i], p.metadata(i)
			rp.LeaderEpoch = p.wrote[i].Number()
			rt.Partitions = append(rt.Partitions, rp)
		}
		req.Topics = append(req.Topics, rt)
	}
	resp, err := req.RequestWith(ctx, kafka.Prompt(client))
	if err != nil {
		return err
	}
	for _, rt := range resp.Topics {
		for _, rp := range rt.Partitions {
			if err := kerr.ErrorForCode(rp.ErrorCode); err != nil {
				return err
			}
		}
	}
	return nil
}

// What the metadata of a committed position of requests says besides.
const (
	cursorPrefix = "outbox="
	resetPrefix  = "reset="
)

func (p position) metadata(topic int) *string {
	var m []string
	if topic == requests && p.cursor >= 0 {
		m = append(m, fmt.Sprintf("%s%d", cursorPrefix, p.cursor))
	}
	if topic == requests && p.reset > 0 {
		m = append(m, fmt.Sprintf("%s%d", resetPrefix, p.reset))
	}
	return kmsg.StringPtr(strings.Join(m, " "))
}

// parseCursor reads the outbox cursor; -1 if there is none.
func parseCursor(metadata *string) int64 { return parseMetadata(metadata, cursorPrefix) }

// parseReset reads how often the position was reset.
func parseReset(metadata *string) int64 { return max(0, parseMetadata(metadata, resetPrefix)) }

func parseMetadata(metadata *string, prefix string) int64 {
	if metadata == nil {
		return -1
	}
	for field := range strings.FieldsSeq(*metadata) {
		if digits, ok := strings.CutPrefix(field, prefix); ok {
			if n, err := strconv.ParseInt(digits, 10, 64); err == nil && n >= 0 {
				return n
			}
		}
	}
	return -1
}
