// SPDX-License-Identifier: Apache-2.0

package bench

import (
	"encoding/binary"
	"time"

	"github.com/berth-project/berth/pkg/compute"
	"github.com/berth-project/berth/pkg/wire"
)

// floorKind is what a record of the floor says.
type floorKind byte

const (
	floorRequest floorKind = iota + 1
	floorBuild
	floorClaim
	floorGrant
	floorStarted
)

// floorState is what an instance is after the loop has taken a record.
var floorState = map[floorKind]compute.State{
	floorRequest: compute.StateQueued, floorClaim: compute.StateStarting, floorStarted: compute.StateActive,
}

// floorNote is every record of the floor: all that is needed to hand it on.
type floorNote struct {
	kind    floorKind
	name    string // of the boot
	project compute.Project
	queue   int
	host    int
}

// floorBytes is about what a record of Berth has.
const floorBytes = 300

func (n floorNote) record() wire.Record {
	value := make([]byte, 0, floorBytes)
	value = append(value, byte(n.kind))
	value = binary.BigEndian.AppendUint32(value, uint32(n.queue))
	value = binary.BigEndian.AppendUint32(value, uint32(n.host))
	for _, text := range []string{n.name, string(n.project)} {
		value = append(value, byte(len(text)))
		value = append(value, text...)
	}
	return wire.Record{Key: []byte(n.project), Value: value[:floorBytes]} // zeros to the end
}

// readNote reads what record wrote. Nobody else writes to the floor's topics; a
// record of another length is somebody's mistake.
func readNote(rec wire.Record) (floorNote, bool) {
	v := rec.Value
	if len(v) != floorBytes {
		return floorNote{}, false
	}
	n := floorNote{
		kind:  floorKind(v[0]),
		queue: int(binary.BigEndian.Uint32(v[1:])),
		host:  int(binary.BigEndian.Uint32(v[5:])),
	}
	v = v[9:]
	n.name = string(v[1 : 1+v[0]])
	v = v[1+v[0]:]
	n.project = compute.Project(v[1 : 1+v[0]])
	return n, true
}

// as is the same note with another kind.
func (n floorNote) as(k floorKind) floorNote { n.kind = k; return n }

// floorHandler hands records on, where the conductor would decide.
type floorHandler struct {
	topics wire.Topics
	queues []queue
}

// Gain has nothing to begin.
func (floorHandler) Gain(int32) {}

// Restore has nothing to know.
func (floorHandler) Restore(int32, wire.Record) {}

// Restored has nothing to send again.
func (floorHandler) Restored(int32, int64, time.Time) wire.Result { return wire.Result{} }

// Lose has nothing to forget.
func (floorHandler) Lose(int32) {}

// Turn writes each record's instance and sends what comes next.
func (h floorHandler) Turn(in wire.Turn) wire.Result {
	var out wire.Result
	for _, rec := range in.Records {
		n, ok := readNote(rec)
		if !ok {
			continue
		}
		change := n.record()
		change.Key = wire.KeyInstance(n.project, compute.InstanceID(n.name))
		out.Changes = append(out.Changes, change.To(h.topics.Instances(), rec.Partition))
		switch n.kind {
		case floorRequest:
			h.send(&out, rec.Partition, n.as(floorBuild).record().To(h.topics.Build(h.queues[n.queue].name), 0))
		case floorClaim:
			h.send(&out, rec.Partition, n.as(floorGrant).record().To(h.topics.Host(floorHostID(n.host)), 0))
		}
	}
	return out
}

func (floorHandler) send(out *wire.Result, partition int32, rec wire.Record) {
	out.Effects = append(out.Effects, wire.Effect{Partition: partition, Record: rec})
}
