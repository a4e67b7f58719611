// SPDX-License-Identifier: Apache-2.0

package api

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
	"go.uber.org/zap/zaptest/observer"

	"github.com/berth-project/berth/pkg/compute"
	"github.com/berth-project/berth/pkg/wire"
	"github.com/berth-project/berth/pkg/wire/rest"
)

// on is where an instance is, claimed under a fence.
func on(h compute.HostID, fence compute.FenceEpoch) func(*compute.Instance) {
	return func(i *compute.Instance) { i.Host, i.Fence = h, fence }
}

// silentHost is a node that has not heard of h1 for long; it has three instances.
func silentHost(t *testing.T) *node {
	n := newNode(t)
	n.offer()
	n.hears(compute.Beacon{Host: "h1"})
	n.has(
		instance(id1, "a", compute.StateActive, on("h1", 0)), instance(id2, "b", compute.StateStarting, on("h1", 41)),
		instance(id3, "c", compute.StateActive, on("h1", 42)), // claimed behind the fence that is to come
		instance("44444444-4444-4444-8444-444444444444", "d", compute.StateActive, on("h2", 0)),
		instance("55555555-5555-4555-8555-555555555555", "e", compute.StateDeleted, on("h1", 0)),
	)
	time.Sleep(compute.SilentAfter + time.Second)
	return n
}

func TestDeadHost(t *testing.T) {
	for verb, op := range map[string]compute.RequestOp{"evacuate": compute.OpFence, "forget": compute.OpForget} {
		t.Run(verb, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				n := silentHost(t)
				core, logged := observer.New(zapcore.InfoLevel)
				n.log = zap.New(core)
				for range 2 { // said twice, it is done twice: nothing is lost by it
					got := into[rest.HostDead](
						n.do("POST", "/v1/hosts/h1/"+verb, rest.DeadHost{Fenced: true, Reason: "burnt", By: "eve"}),
						202,
					)
					want := rest.HostDead{
						Host: "h1", Fence: 42,
						Instances: map[string]int{"active": 1, "starting": 1}, Becomes: map[string]int{"rebuilt": 2},
						Fates: []rest.HostFate{
							{ID: id1, Project: "default", Name: "a", State: "active", Becomes: compute.FateRebuilt},
							{ID: id2, Project: "default", Name: "b", State: "starting", Becomes: compute.FateRebuilt},
						},
					}
					if op == compute.OpForget {
						want.Becomes = map[string]int{"rebuilt": 1, "ended": 1}
						want.Fates[0].Becomes, want.Fates[0].Reason = compute.FateEnded, compute.HostLost
					}
					equal(t, "answered", want, got)
					n.toldEverybody(op, verb == "forget")
				}
				entry := logged.FilterMessage("host is declared dead").All()
				if len(entry) != 2 {
					t.Fatalf("logged %v", logged.All())
				}
				about := entry[0].ContextMap()
				for field, want := range map[string]any{
					"host": "h1", "what": verb, "by_the_operators_word": true, "reason": "burnt", "by": "eve",
					"fence": uint64(42),
				} {
					if about[field] != want {
						t.Errorf("logged %s as %v, want %v", field, about[field], want)
					}
				}
				// Nor is it unknown once the first word was acted on: after a 504 it has to be said until it is answered.
				n.has(instance(id1, "a", compute.StateError, on("h1", 0)), instance(id2, "b", compute.StateQueued),
					instance(id3, "c", compute.StateDeleted, on("h1", 42)))
				n.Hosts([]wire.Record{wire.Tombstone(wire.KeyHost("h1"))}, true)
				got := into[rest.HostDead](n.do("POST", "/v1/hosts/h1/"+verb, rest.DeadHost{Fenced: true}), 202)
				equal(t, "said again", rest.HostDead{Host: "h1", Fence: 42, Instances: map[string]int{}}, got)
				n.toldEverybody(op, verb == "forget")
			})
		})
	}
}

// What becomes of each is told: pinned ones, those that are no longer offered, and, last
// and not all of them, those that wait for this host.
func TestFatesOfADeadHost(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newNode(t)
		n.offer()
		n.hears(compute.Beacon{Host: "h1"})
		pinned := func(i *compute.Instance) { i.Boot.Host = "h1" }
		gone := func(i *compute.Instance) { i.Boot.Flavor, i.Queue = "m0", "m0" }
		id := func(begin, n int) compute.InstanceID {
			return compute.InstanceID(fmt.Sprintf("%08d-0000-4000-8000-%012d", begin, n))
		}
		var all []compute.Instance
		for n := range maxFates + 3 {
			all = append(all, instance(id(0, n), fmt.Sprint("q", n), compute.StateQueued, pinned))
		}
		for i, c := range []struct {
			state  compute.State
			change func(*compute.Instance)
		}{
			{compute.StateActive, on("h1", 0)}, {compute.StateActive, pinned}, {compute.StateActive, gone},
			{compute.StateStarting, pinned}, {compute.StateDeleting, pinned},
		} {
			all = append(all, instance(id(99999999, i), fmt.Sprint("h", i), c.state, c.change))
		}
		n.has(all...)
		time.Sleep(compute.SilentAfter + time.Second)
		got := into[rest.HostDead](n.do("POST", "/v1/hosts/h1/evacuate", rest.DeadHost{Fenced: true}), 202)
		equal(t, "becomes", map[string]int{"rebuilt": 1, "ended": 2, "deleted": 1, "waits": maxFates + 4}, got.Becomes)
		if len(got.Fates) != maxFates || got.Total() != len(all) {
			t.Errorf("%d fates of %d instances", len(got.Fates), got.Total())
		}
		var first []string
		for _, f := range got.Fates[:6] {
			first = append(first, f.Name+" "+string(f.Becomes)+" "+string(f.Reason))
		}
		equal(t, "fates", []string{
			"h0 rebuilt ", "h1 ended HostLost", "h2 ended HostLost", "h3 waits ", "h4 deleted ", "q0 waits ",
		}, first)
	})
}

// What ends with its set is told, on whatever host it is.
func TestFatesOfASet(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newNode(t)
		n.offer()
		n.hears(compute.Beacon{Host: "h1"})
		of := func(host compute.HostID, ran bool) func(*compute.Instance) {
			return func(i *compute.Instance) {
				on(host, 0)(i)
				i.Boot.Rules = compute.RulesOf("", compute.Set{ID: id1, Size: 3, Granted: true}, 0)
				if ran {
					i.ActiveAt = time.Now()
				}
			}
		}
		n.has(
			instance(id1, "a", compute.StateActive, of("h1", true)), instance(id2, "b", compute.StateStarting, of("h1", false)),
			instance(id3, "c", compute.StateActive, of("h2", true)), instance(id4, "d", compute.StateActive, on("h2", 0)),
		)
		time.Sleep(compute.SilentAfter + time.Second)
		got := into[rest.HostDead](n.do("POST", "/v1/hosts/h1/forget", rest.DeadHost{Fenced: true}), 202)
		equal(t, "becomes", map[string]int{"ended": 1, "deleted": 1}, got.Becomes)
		equal(t, "others", 1, got.Others)
		var fates []string
		for _, f := range got.Fates {
			fates = append(fates, fmt.Sprint(f.Name, " ", f.Becomes, " ", f.Reason, " ", f.Other))
		}
		equal(t, "fates", []string{
			"a " + compute.FateEnded.String() + " HostLost false", "b " + compute.FateDeleted.String() + " SetFailed false",
			"c " + compute.FateDeleted.String() + " SetFailed true",
		}, fates)
	})
}

// toldEverybody wants the fence first, then the request in every partition once.
func (n *node) toldEverybody(op compute.RequestOp, gone bool) {
	n.Helper()
	recs := n.published()
	if len(recs) == 0 || recs[0].Topic != "test.host.h1" || recs[0].Partition != 0 {
		n.Fatalf("first: %+v", recs)
	}
	if cmd, err := wire.DecodeCommand(recs[0]); err != nil || cmd.Op != compute.CommandFenced {
		n.Fatalf("first: %+v, %v", cmd, err)
	}
	told := map[int32]int{}
	for _, rec := range recs[1:] {
		if rec.Topic == "test.hosts" {
			if rec.Value != nil || string(rec.Key) != "h1" || !gone {
				n.Errorf("in hosts: %+v", rec)
			}
			gone = false
			continue
		}
		q, err := wire.DecodeRequest(rec)
		if err != nil || rec.Topic != "test.requests" || q.Op != op || q.Host != "h1" || q.Fence != 42 {
			n.Errorf("told %+v in %s: %v", q, rec.Topic, err)
		}
		told[rec.Partition]++
	}
	equal(n.TB, "told", map[int32]int{0: 1, 1: 1, 2: 1, 3: 1}, told)
	if gone {
		n.Error("the host is still listed")
	}
}

func TestDeadHostRefusals(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := silentHost(t)
		p := n.do("POST", "/v1/hosts/h1/evacuate", nil).refused(409, compute.KindConflict)
		if !strings.Contains(p.Remedy, "--fenced") || !strings.Contains(p.Remedy, "fence.command") {
			t.Errorf("the remedy is %q", p.Remedy)
		}
		n.do("POST", "/v1/hosts/h9/evacuate", rest.DeadHost{Fenced: true}).refused(404, compute.KindNotFound)
		n.do("POST", "/v1/hosts/H!/evacuate", rest.DeadHost{Fenced: true}).refused(422, compute.KindInvalid)
		n.hears(compute.Beacon{Host: "h1"})
		for _, verb := range []string{"evacuate", "forget"} {
			p = n.do("POST", "/v1/hosts/h1/"+verb, rest.DeadHost{Fenced: true}).refused(409, compute.KindConflict)
			if !strings.Contains(p.Message, "alive") || !strings.Contains(p.Remedy, "drain") {
				t.Errorf("%s: %+v", verb, p)
			}
		}
		// Nor is one taken for dead that lives and that somebody took off the list.
		n.Hosts([]wire.Record{wire.Tombstone(wire.KeyHost("h1"))}, true)
		n.do("POST", "/v1/hosts/h1/evacuate", rest.DeadHost{Fenced: true}).refused(409, compute.KindConflict)
		if recs := n.published(); len(recs) != 0 {
			t.Fatalf("a refusal published %+v", recs)
		}
		// With force it is done once the host has been silent for long enough.
		began := time.Now()
		into[rest.HostDead](n.do("POST", "/v1/hosts/h1/evacuate", rest.DeadHost{Fenced: true, Force: true}), 202)
		if waited := time.Since(began); waited < compute.SilentAfter || waited > compute.SilentAfter+2*time.Second {
			t.Errorf("it has waited for %s", waited)
		}
		// A host that is not listed any more, but has something, is known.
		n.Hosts([]wire.Record{wire.Tombstone(wire.KeyHost("h1"))}, true)
		into[rest.HostDead](n.do("POST", "/v1/hosts/h1/evacuate", rest.DeadHost{Fenced: true}), 202)
	})
}

// TestHostThatIsNotListedAnyMore: what waits until nothing is left on it is told of what is left, and is not told that
// there is no such host before that.
func TestHostThatIsNotListedAnyMore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := silentHost(t)
		n.Hosts([]wire.Record{wire.Tombstone(wire.KeyHost("h1"))}, true)
		h := into[rest.HostView](n.do("GET", "/v1/hosts/h1?fence=42", nil), 200)
		equal(t, "left", map[string]int{"active": 1, "starting": 1}, h.Instances)
		if h.State != "silent" || h.Reason == "" || time.Duration(h.HeardFor) != compute.SilentAfter+time.Second {
			t.Errorf("%+v", h)
		}
		if all := into[rest.Instances](n.do("GET", "/v1/hosts/h1/instances", nil), 200); len(all.Items) != 3 {
			t.Errorf("it has %+v", all.Items)
		}
		h = into[rest.HostView](n.do("GET", "/v1/hosts/h2", nil), 200)
		if h.State != "silent" || h.Instances["active"] != 1 {
			t.Errorf("one that was never heard of: %+v", h)
		}
		n.do("POST", "/v1/hosts/h1/drain", nil).refused(404, compute.KindNotFound)
		n.has(
			instance(id1, "a", compute.StateActive, on("h2", 1)), instance(id2, "b", compute.StateDeleted, on("h1", 41)),
			instance(id3, "c", compute.StateError, on("h1", 42)),
		)
		for _, path := range []string{"/v1/hosts/h1?fence=42", "/v1/hosts/h1/instances"} {
			n.do("GET", path, nil).refused(404, compute.KindNotFound)
		}
	})
}

// TestForceIsNoWordAgainstBeacons: a host that goes on to be heard is not declared dead, and does not read
// that it is.
func TestForceIsNoWordAgainstBeacons(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := silentHost(t)
		stop := make(chan struct{})
		defer close(stop)
		beats := func() {
			for {
				n.hears(compute.Beacon{Host: "h1"})
				select {
				case <-time.After(15 * time.Second):
				case <-stop:
					return
				}
			}
		}
		go beats()
		synctest.Wait()
		p := n.do("POST", "/v1/hosts/h1/evacuate", rest.DeadHost{Fenced: true, Force: true}).refused(409,
			compute.KindConflict)
		if !strings.Contains(p.Message, "alive") {
			t.Errorf("%+v", p)
		}
		if recs := n.published(); len(recs) != 0 {
			t.Fatalf("a refusal published %+v", recs)
		}
	})
}

// TestANodeThatWasCutOffKnowsOfNoSilence: a node that read nothing for longer than hosts may be silent reads what
// they said before it believes that one is dead or switches one off. If it cannot, it refuses.
func TestANodeThatWasCutOffKnowsOfNoSilence(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := silentHost(t)
		n.config.Fencer = hook(func(context.Context, compute.HostID) error {
			t.Error("a host that lives is switched off")
			return nil
		})
		beacon := func(context.Context) error { n.hears(compute.Beacon{Host: "h1"}); return nil }
		n.behind = beacon
		for verb, word := range map[string]any{"evacuate": nil, "forget": rest.DeadHost{Fenced: true}} {
			time.Sleep(compute.SilentAfter + time.Second)
			p := n.do("POST", "/v1/hosts/h1/"+verb, word).refused(409, compute.KindConflict)
			if !strings.Contains(p.Message, "alive") {
				t.Errorf("%s: %+v", verb, p)
			}
		}
		time.Sleep(compute.SilentAfter + time.Second)
		n.behind = func(ctx context.Context) error { <-ctx.Done(); return ctx.Err() }
		for _, word := range []rest.DeadHost{{}, {Fenced: true}, {Fenced: true, Force: true}} {
			n.do("POST", "/v1/hosts/h1/evacuate", word).refused(503, compute.KindUnavailable)
		}
		if recs := n.published(); len(recs) != 0 {
			t.Fatalf("a refusal published %+v", recs)
		}
	})
}

// TestCutOffWhileSilenceIsAwaited: a node is cut off while it waits for a host to be silent, or while the fence
// command runs, and the host goes on to be heard of.
func TestCutOffWhileSilenceIsAwaited(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := silentHost(t)
		asked := 0
		n.behind = func(context.Context) error {
			if asked++; asked > 1 { // first it asks whether the host is alive, and nothing is known of it
				n.hears(compute.Beacon{Host: "h1"})
			}
			return nil
		}
		p := n.do("POST", "/v1/hosts/h1/evacuate", rest.DeadHost{Fenced: true, Force: true}).refused(409,
			compute.KindConflict)
		if !strings.Contains(p.Message, "alive") || asked < 3 {
			t.Errorf("asked %d times: %+v", asked, p)
		}
		if recs := n.published(); len(recs) != 0 {
			t.Fatalf("a refusal published %+v", recs)
		}
	})
}

func TestFenceCommandOfTheNode(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := silentHost(t)
		var asked []compute.HostID
		var why error
		n.config.Fencer = hook(func(_ context.Context, h compute.HostID) error {
			if len(n.sent) != 0 {
				t.Error("something is published before the host is dead")
			}
			asked = append(asked, h)
			return why
		})
		why = compute.Invalid("host", "h1", "no power switch answers")
		n.do("POST", "/v1/hosts/h1/evacuate", nil).refused(422, compute.KindInvalid)
		if recs := n.published(); len(recs) != 0 {
			t.Fatalf("published %+v", recs)
		}
		why = nil
		into[rest.HostDead](n.do("POST", "/v1/hosts/h1/evacuate", nil), 202)
		n.toldEverybody(compute.OpFence, false)
		into[rest.HostDead](n.do("POST", "/v1/hosts/h1/evacuate", rest.DeadHost{Fenced: true}), 202)
		equal(t, "asked", []compute.HostID{"h1", "h1"}, asked)
	})
}

// Whatever goes wrong once the fence may be there, it has to be said again.
func TestHalfToldFence(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for _, deaf := range []string{"test.host.h1", "test.requests"} {
			n := silentHost(t)
			n.deaf = deaf
			p := n.do("POST", "/v1/hosts/h1/evacuate", rest.DeadHost{Fenced: true}).refused(504, compute.KindTimeout)
			if !strings.Contains(p.Remedy, "again") {
				t.Errorf("%s: the remedy is %q", deaf, p.Remedy)
			}
		}
		n := silentHost(t)
		n.fail = wire.ErrNoTopic
		n.do("POST", "/v1/hosts/h1/evacuate", rest.DeadHost{Fenced: true}).refused(503, compute.KindUnavailable)
	})
}

// TestDeadWhileTheNodeWasCutOff: a node that reads what was written while it was cut off does not take a host that died
// meanwhile for one that was heard just now. What it reads from then on was heard, whatever the clock of a broker says.
func TestDeadWhileTheNodeWasCutOff(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n, began := unreadNode(t), time.Now()
		now := func() time.Time { return start.Add(time.Since(began)) }
		n.config.Now = now
		n.read()
		says := func(end bool, ago time.Duration, hosts ...compute.HostID) {
			var recs []wire.Record
			for _, h := range hosts {
				recs = append(recs, appended(wire.EncodeBeacon(offering(h, 8)), now().Add(-ago)))
			}
			n.Hosts(recs, end)
		}
		says(true, 0, "h1", "h2")
		time.Sleep(time.Hour)
		says(false, time.Hour/2, "h1", "h2")
		says(true, time.Second, "h2")
		for h, want := range map[compute.HostID]rest.HostView{
			"h1": {State: "silent", HeardFor: rest.Duration(time.Hour / 2)},
			"h2": {State: "enabled", HeardFor: rest.Duration(time.Second)},
		} {
			if got := into[rest.HostView](n.do("GET", "/v1/hosts/"+string(h), nil), 200); got.State != want.State ||
				got.HeardFor != want.HeardFor {
				t.Errorf("%s is %s, and was heard %s ago", h, got.State, time.Duration(got.HeardFor))
			}
		}
		n.do("POST", "/v1/hosts/h2/evacuate", rest.DeadHost{Fenced: true}).refused(409, compute.KindConflict)
		into[rest.HostDead](n.do("POST", "/v1/hosts/h1/evacuate", rest.DeadHost{Fenced: true}), 202)
		says(true, time.Hour/2, "h1")
		n.do("POST", "/v1/hosts/h1/evacuate", rest.DeadHost{Fenced: true}).refused(409, compute.KindConflict)
	})
}

// TestDeadBeforeTheNodeBegan: a host of which the log heard last an hour before a node began has been silent for that
// hour. One that was heard of a second before, or since, has not.
func TestDeadBeforeTheNodeBegan(t *testing.T) {
	for name, c := range map[string]struct {
		last   time.Duration // before the node began
		since  bool          // it is heard again
		status int
	}{
		"dead for an hour":       {time.Hour, false, 202},
		"heard a second before":  {time.Second, false, 409},
		"back after an hour":     {time.Hour, true, 409},
		"just not silent enough": {compute.SilentAfter, false, 409},
	} {
		for _, verb := range []string{"evacuate", "forget"} {
			synctest.Test(t, func(t *testing.T) {
				n := unreadNode(t)
				n.config.Now = func() time.Time { return start }
				n.Hosts([]wire.Record{
					appended(wire.EncodeBeacon(offering("h1", 8)), start.Add(-c.last)),
					appended(wire.EncodeBeacon(offering("h2", 8)), start),
				}, false)
				n.do("POST", "/v1/hosts/h1/"+verb, rest.DeadHost{Fenced: true}).refused(503, compute.KindUnavailable)
				n.read()
				if c.since { // before it is asked, the node reads to the end
					n.behind = func(context.Context) error {
						n.Hosts([]wire.Record{appended(wire.EncodeBeacon(offering("h1", 8)), start)}, true)
						return nil
					}
				}
				a := n.do("POST", "/v1/hosts/h1/"+verb, rest.DeadHost{Fenced: true})
				if a.status != c.status || (len(n.published()) > 0) != (c.status == 202) {
					t.Errorf("%s, %s: %d %s", name, verb, a.status, a.body)
				}
			})
		}
	}
}
