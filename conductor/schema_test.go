// SPDX-License-Identifier: Apache-2.0

package conductor

import (
	"testing"

	"github.com/berth-project/berth/pkg/compute"
	"github.com/berth-project/berth/pkg/wire"
)

const newer compute.Schema = wire.Schema + 1

// newLaterCell is a cell of a conductor that reads one schema more than this version.
func newLaterCell(t *testing.T) *cell {
	k := newCell(t)
	k.reads = newer
	k.again()
	return k
}

// again is another conductor over the same log.
func (k *cell) again() {
	k.c = k.conductor(nil)
	k.c.Catalog(offers(), true)
	k.c.Queues([]wire.Record{listed("m1.small")}, true)
	k.gainAll()
}

func says(h compute.HostID, reads compute.Schema) wire.Record {
	return wire.EncodeBeacon(compute.Beacon{Host: h, Journal: "j", Reads: reads})
}

func schemaOf(rec wire.Record) string { return string(rec.Header(wire.HeaderSchema)) }

// wrote says in which schemas a turn wrote instances and effects.
func (k *cell) wrote(res wire.Result, change, effect string) {
	k.t.Helper()
	if len(res.Changes) == 0 || len(res.Effects) == 0 {
		k.t.Fatalf("%d changes, %d effects", len(res.Changes), len(res.Effects))
	}
	for _, rec := range res.Changes {
		if schemaOf(rec) != change {
			k.t.Errorf("an instance is written in schema %s, want %s", schemaOf(rec), change)
		}
	}
	for _, e := range res.Effects {
		if schemaOf(e.Record) != effect {
			k.t.Errorf("to %s is written in schema %s, want %s", e.Record.Topic, schemaOf(e.Record), effect)
		}
	}
}

// TestNewerSchemaOnlyOnceAllReadIt: instances are written in the schema that all conductors read, builds in what
// the agents of all hosts read besides, commands in what that of their host reads.
func TestNewerSchemaOnlyOnceAllReadIt(t *testing.T) {
	k := newLaterCell(t)
	k.c.Hosts([]wire.Record{says("new", newer), says("old", 0)}, true)
	k.wrote(k.read(k.boot(1, "p")), "1", "1") // nobody has said what conductors read

	k.c.Agreed(newer)
	k.wrote(k.read(k.boot(2, "p")), "2", "1") // any agent may take it, and one is older
	k.wrote(k.read(k.report(compute.ReportClaim, 1, "p", "new")), "2", "2")
	k.wrote(k.read(k.report(compute.ReportClaim, 2, "p", "old")), "2", "1")
	res := k.read(k.report(compute.ReportClaim, 2, "p", "unheard"))
	if len(res.Effects) != 1 || schemaOf(res.Effects[0].Record) != "1" {
		t.Errorf("to a host that nobody has heard of: %+v", res.Effects)
	}

	k.c.Hosts([]wire.Record{says("old", newer)}, true) // it was upgraded
	k.wrote(k.read(k.boot(3, "p")), "2", "2")
	k.wrote(k.read(k.report(compute.ReportClaim, 3, "p", "old")), "2", "2")
	k.c.Hosts([]wire.Record{says("new", wire.Schema)}, true) // back again
	k.wrote(k.read(k.boot(4, "p")), "2", "1")
	k.c.Agreed(wire.Schema) // a conductor of before has joined
	k.wrote(k.read(k.boot(5, "p")), "1", "1")
	k.c.Agreed(newer + 1) // more than it knows itself
	k.wrote(k.read(k.boot(6, "rich")), "2", "1")
}

// Before all beacons were read there may be an older agent, and a host that was forgotten holds nothing up.
func TestBuildsWaitForAllAgents(t *testing.T) {
	k := newLaterCell(t)
	k.c.Agreed(newer)
	k.c.Hosts([]wire.Record{says("new", newer)}, false)
	k.wrote(k.read(k.boot(1, "p")), "2", "1")
	k.c.Hosts([]wire.Record{says("old", 0)}, true)
	k.wrote(k.read(k.boot(2, "p")), "2", "1")
	k.now = k.now.Add(2 * compute.SilentAfter)
	k.c.Hosts([]wire.Record{wire.Tombstone(wire.KeyHost("old"))}, true)
	k.wrote(k.read(k.boot(3, "p")), "2", "2")
}

// TestLaterSchemaIsReadByOneThatKnowsIt: what was written in the later schema goes on under the next conductor that
// reads it, and is set aside by one of before.
func TestLaterSchemaIsReadByOneThatKnowsIt(t *testing.T) {
	k := newLaterCell(t)
	k.c.Agreed(newer)
	k.read(k.boot(1, "p"))
	p := wire.Partition("p", partitions)
	if got := schemaOf(k.log[p][0]); got != "2" {
		t.Fatalf("written in schema %s", got)
	}
	k.again()
	if s := k.c.states[p]; s == nil || s.Len() != 1 {
		t.Fatal("it is not read")
	}
	k.reads = wire.Schema
	k.c = k.conductor(nil)
	if res := k.gain(p, -1); res.Aside == nil {
		t.Error("it is not set aside")
	}
}
