// SPDX-License-Identifier: Apache-2.0

package conductor

import (
	"strconv"
	"testing"

	"github.com/berth-project/berth/pkg/compute"
	"github.com/berth-project/berth/pkg/wire"
)

// laterSchema is the schema that the conductors of these tests play.
var laterSchema = strconv.Itoa(wire.Schema + 1)

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
	k.wrote(k.read(k.boot(2, "p")), laterSchema, "1") // any agent may take it, and one is older
	k.wrote(k.read(k.report(compute.ReportClaim, 1, "p", "new")), laterSchema, laterSchema)
	k.wrote(k.read(k.report(compute.ReportClaim, 2, "p", "old")), laterSchema, "1")
	res := k.read(k.report(compute.ReportClaim, 2, "p", "unheard"))
	if len(res.Effects) != 1 || schemaOf(res.Effects[0].Record) != "1" {
		t.Errorf("to a host that nobody has heard of: %+v", res.Effects)
	}

	k.c.Hosts([]wire.Record{says("old", newer)}, true) // it was upgraded
	k.wrote(k.read(k.boot(3, "p")), laterSchema, laterSchema)
	k.wrote(k.read(k.report(compute.ReportClaim, 3, "p", "old")), laterSchema, laterSchema)
	k.c.Hosts([]wire.Record{says("new", wire.Schema)}, true) // back again
	k.wrote(k.read(k.boot(4, "p")), laterSchema, "1")
	k.c.Agreed(wire.Schema) // a conductor of before has joined
	k.wrote(k.read(k.boot(5, "p")), "1", "1")
	k.c.Agreed(newer + 1) // more than it knows itself
	k.wrote(k.read(k.boot(6, "rich")), laterSchema, "1")
}

// Before all beacons were read there may be an older agent, and a host that was forgotten holds nothing up.
func TestBuildsWaitForAllAgents(t *testing.T) {
	k := newLaterCell(t)
	k.c.Agreed(newer)
	k.c.Hosts([]wire.Record{says("new", newer)}, false)
	k.wrote(k.read(k.boot(1, "p")), laterSchema, "1")
	k.c.Hosts([]wire.Record{says("old", 0)}, true)
	k.wrote(k.read(k.boot(2, "p")), laterSchema, "1")
	k.now = k.now.Add(2 * compute.SilentAfter)
	k.c.Hosts([]wire.Record{wire.Tombstone(wire.KeyHost("old"))}, true)
	k.wrote(k.read(k.boot(3, "p")), laterSchema, laterSchema)
}

// TestLaterSchemaIsReadByOneThatKnowsIt: what was written in the later schema goes on under the next conductor that
// reads it, and is set aside by one of before.
func TestLaterSchemaIsReadByOneThatKnowsIt(t *testing.T) {
	k := newLaterCell(t)
	k.c.Agreed(newer)
	k.read(k.boot(1, "p"))
	p := wire.Partition("p", partitions)
	if got := schemaOf(k.log[p][0]); got != laterSchema {
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

// TestSealedUserDataNeedsAllConductors: what has sealed user data is written in schema 2, and refused as long as one
// conductor of the group would set its partition aside. What has none is written in the first, and so can be read by
// versions of before.
func TestSealedUserDataNeedsAllConductors(t *testing.T) {
	k := newCell(t)
	k.c.Hosts([]wire.Record{says("new", wire.Schema), says("old", 0)}, true)
	sealed := func(n int) wire.Record {
		return k.requested(compute.Request{
			Op: compute.OpBoot, Project: "p", Instance: id(n),
			Boot: &compute.Boot{Flavor: "m1.small", Sealed: compute.Sealed("sealed")},
		})
	}
	for n, agreed := range []compute.Schema{0, compute.FirstSchema} {
		if n > 0 {
			k.c.Agreed(agreed)
		}
		res := k.read(sealed(1))
		if len(res.Changes)+len(res.Effects) > 0 || len(res.Rejects) != 1 {
			t.Fatalf("where %d is read by all: %d changes, %d effects", agreed, len(res.Changes), len(res.Effects))
		}
		x, err := wire.DecodeRejected(res.Rejects[0])
		if err != nil || x.Reason.Code != compute.Malformed || len(x.Value) > 0 {
			t.Errorf("rejected as %+v, %v", x, err)
		}
	}
	k.c.Agreed(wire.Schema)
	res := k.read(sealed(1))
	k.wrote(res, "2", "2") // an agent that does not read it leaves it to others
	build, err := wire.DecodeBuild(res.Effects[0].Record)
	if err != nil || string(build.Sealed) != "sealed" || build.UserData != nil {
		t.Errorf("the build has %q and %q, %v", build.Sealed, build.UserData, err)
	}
	k.wrote(k.read(k.boot(2, "p")), "1", "1")
	k.c.Agreed(compute.FirstSchema) // a conductor of before has joined
	k.wrote(k.read(k.report(compute.ReportClaim, 1, "p", "old")), "2", "1")
	if got := k.last("p", 1); string(got.Boot.Sealed) != "sealed" {
		t.Errorf("it has lost its user data: %q", got.Boot.Sealed)
	}
	k.read(k.requested(compute.Request{Op: compute.OpDelete, Project: "p", Instance: id(1)}))
	if gone := k.read(k.report(compute.ReportGone, 1, "p", "old")); schemaOf(gone.Changes[0]) != "1" {
		t.Errorf("an instance that has ended is written in schema %s", schemaOf(gone.Changes[0]))
	}
	if got := k.last("p", 1); got.State != compute.StateDeleted || got.Boot.Sealed != "" {
		t.Errorf("%s, with sealed user data %q", got.State, got.Boot.Sealed)
	}
}
