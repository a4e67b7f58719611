// SPDX-License-Identifier: Apache-2.0

package events

import (
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/berth-project/berth/pkg/compute"
)

// ID is the id of an event: where a listener goes on, and in which log. As text it is "3:1843@9f3c21ab", or
// "0:12,1:44@9f3c21ab" where a listener follows several partitions. Offsets of one log say nothing of another one, as
// that of a cell that was made anew: so an id names its own.
type ID struct {
	Log string // NameOf its topic; empty where logs have no names
	Positions
}

// NameOf is what ids call the log that is a topic.
func NameOf(topic compute.TopicID) string {
	const most = 8
	return string(topic[:min(len(topic), most)])
}

// String is the text.
func (id ID) String() string {
	if id.Log == "" {
		return id.Positions.String()
	}
	return id.Positions.String() + "@" + id.Log
}

// ParseID reads what String wrote.
func ParseID(text string) (ID, error) {
	positions, log, _ := strings.Cut(text, "@")
	p, err := ParsePositions(positions)
	return ID{log, p}, err
}

// Positions are the offset of the next record, by partition. As text they are "3:1843", or "0:12,1:44".
type Positions map[int32]int64

// mostPositions bounds what is read of a text.
const mostPositions = 10_000

// String is the text, the partitions in order.
func (p Positions) String() string {
	var b strings.Builder
	for i, partition := range slices.Sorted(maps.Keys(p)) {
		if i > 0 {
			b.WriteByte(',')
		}
		b.WriteString(strconv.FormatInt(int64(partition), 10))
		b.WriteByte(':')
		b.WriteString(strconv.FormatInt(p[partition], 10))
	}
	return b.String()
}

// ParsePositions reads what String wrote.
func ParsePositions(text string) (Positions, error) {
	refused := compute.Invalid("Last-Event-ID", shortened(text), "give the id of an event as it came, or none")
	parts := strings.Split(text, ",")
	if len(parts) > mostPositions {
		return nil, refused
	}
	out := make(Positions, len(parts))
	for _, part := range parts {
		left, right, ok := strings.Cut(part, ":")
		partition, err := strconv.ParseInt(left, 10, 32)
		offset, bad := strconv.ParseInt(right, 10, 64)
		if _, twice := out[int32(partition)]; !ok || err != nil || bad != nil || partition < 0 || offset < 0 || twice {
			return nil, refused
		}
		out[int32(partition)] = offset
	}
	return out, nil
}

func shortened(text string) string {
	const most = 60
	if len(text) > most {
		return text[:most] + "…"
	}
	return text
}
