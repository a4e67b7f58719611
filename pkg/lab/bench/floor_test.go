// SPDX-License-Identifier: Apache-2.0

package bench

import (
	"testing"

	"github.com/berth-project/berth/pkg/wire"
)

func TestNotesComeBackAsTheyWere(t *testing.T) {
	n := floorNote{kind: floorClaim, name: "boot-12", project: "bench-03", queue: 70_000, host: 3}
	got, ok := readNote(n.record())
	if !ok || got != n {
		t.Errorf("got %+v, %v", got, ok)
	}
	if _, ok := readNote(wire.Record{Value: []byte("something else")}); ok {
		t.Error("something else was read")
	}
}

// A request makes an instance and a build, a claim an instance and a grant, a
// start an instance: the records of a boot, and nothing else.
func TestTheFloorMakesTheRecordsOfABoot(t *testing.T) {
	topics := wire.Topics{Prefix: "x."}
	h := floorHandler{topics, []queue{{name: "m1"}, {name: "m2"}}}
	n := floorNote{name: "boot-1", project: "p", queue: 1, host: 6}
	for kind, effect := range map[floorKind]string{
		floorRequest: topics.Build("m2"), floorClaim: topics.Host("host-0007"), floorStarted: "",
	} {
		rec := n.as(kind).record()
		rec.Partition = 5
		out := h.Turn(wire.Turn{Records: []wire.Record{rec}})
		if len(out.Changes) != 1 || out.Changes[0].Topic != topics.Instances() || out.Changes[0].Partition != 5 {
			t.Errorf("%d: changes %v", kind, out.Changes)
		}
		switch {
		case effect == "" && len(out.Effects) == 0:
		case len(out.Effects) != 1 || out.Effects[0].Record.Topic != effect || out.Effects[0].Partition != 5:
			t.Errorf("%d: effects %v, want one to %q", kind, out.Effects, effect)
		}
	}
}
