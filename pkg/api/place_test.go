// SPDX-License-Identifier: Apache-2.0

package api

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"pgregory.net/rapid"

	"github.com/berth-project/berth/pkg/compute"
	"github.com/berth-project/berth/pkg/telemetry/telemetrytest"
	"github.com/berth-project/berth/pkg/wire"
	"github.com/berth-project/berth/pkg/wire/rest"
)

// beside are two projects of which the records are in different partitions.
func (n *node) beside() (one, other compute.Project) {
	one, other = "p0", "p0"
	for i := 1; n.partition(one) == n.partition(other); i++ {
		other = compute.Project(fmt.Sprint("p", i))
	}
	return one, other
}

func (n *node) partition(p compute.Project) int32 { return wire.Partition(p, n.config.Partitions) }

// While one partition does not answer, the projects of others boot and read as ever, the node is ready, and those of
// that partition are told at once which one it is; when it answers again they are served within a second.
func TestOnePartitionIsSilent(t *testing.T) {
	for _, alone := range []bool{false, true} { // whether nobody else asks meanwhile
		t.Run(fmt.Sprint("alone=", alone), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { onePartitionIsSilent(t, alone) })
		})
	}
}

func onePartitionIsSilent(t *testing.T, alone bool) {
	n := newNode(t)
	reg := prometheus.NewPedanticRegistry()
	n.metrics = NewMetrics(reg)
	defer n.metrics.show(n.Server)()
	n.offer()
	one, other := n.beside()
	away := n.partition(one)
	boot := func(p compute.Project) answer {
		return n.do("POST", "/v1/instances", rest.Boot{Project: p, Flavor: "m1.small"})
	}
	get := func(p compute.Project) answer { return n.do("GET", path(id1)+"?project="+string(p), nil) }
	others := func() {
		t.Helper()
		began := time.Now()
		into[rest.Instance](boot(other), 202)
		get(other).refused(404, compute.KindNotFound)
		if a := n.do("GET", "/readyz", nil); a.status != 200 {
			t.Errorf("readyz %d %s", a.status, a.body)
		}
		if took := time.Since(began); took != 0 {
			t.Errorf("others waited %s", took)
		}
	}
	n.setAway(&away)
	stop, stopped := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(stopped)
		for !alone {
			select {
			case <-stop:
				return
			case <-time.After(time.Second):
				others()
			}
		}
	}()
	if p := boot(one).refused(504, compute.KindTimeout); p.Field != "id" {
		t.Errorf("%+v", p)
	}
	get(one).refused(503, compute.KindUnavailable)
	time.Sleep(probeEvery)
	others()
	for range 3 {
		for _, ask := range []func(compute.Project) answer{boot, get} {
			ask(one).refused(503, compute.KindUnavailable) // a probe
			began := time.Now()
			p := ask(one).refused(503, compute.KindUnavailable)
			if name := fmt.Sprintf("partition %d of ", away); !strings.HasPrefix(p.Detail, name) {
				t.Errorf("%q does not say %q", p.Detail, name)
			}
			if took := time.Since(began); took != 0 {
				t.Errorf("told after %s", took)
			}
			others()
			time.Sleep(probeEvery)
		}
	}
	for _, what := range []string{"publishing", "catching_up"} {
		telemetrytest.Is(t, reg, 0, "berth_api_kafka_silent_seconds", "what", what)
		telemetrytest.Is(t, reg, 1, "berth_api_silent_partitions", "what", what)
	}
	n.setAway(nil)
	time.Sleep(probeEvery)
	into[rest.Instance](boot(one), 202)
	get(one).refused(404, compute.KindNotFound)
	telemetrytest.Is(t, reg, 0, "berth_api_silent_partitions", "what", "publishing")
	close(stop)
	<-stopped
}

// After all of Kafka was silent nothing is left of it at a node that nobody asks for the same again.
func TestPlacesAreForgotten(t *testing.T) {
	g, now := newBreaker("publishing", 100), time.Now()
	for _, at := range []place{{topic: "host.h1"}, {topic: "r", partition: 1}} {
		in, err := g.enter(now, at)
		if err != nil {
			t.Fatal(err)
		}
		defer g.leave(now, in, unanswered)
	}
	in, err := g.enter(now, place{topic: "r", partition: 0})
	if err != nil {
		t.Fatal(err)
	}
	g.leave(now, in, unanswered)
	g.answers(now.Add(time.Second), place{topic: "r", partition: 2})
	if _, silent, alone := g.state(now.Add(2 * time.Second)); silent != 0 || alone != 1 {
		t.Errorf("silent for %s, %d by themselves", silent, alone)
	}
	later := now.Add(2 * time.Second).Add(forgetAfter)
	if _, _, alone := g.state(later); alone != 0 {
		t.Errorf("%d are silent that nobody has asked for", alone)
	}
	if in, err := g.enter(later, place{topic: "r", partition: 0}); err != nil || in.probe {
		t.Errorf("%+v, %v", in, err)
	}
}

// A write that reading cannot probe, and that hangs, holds up nobody once another place has answered.
func TestAWriteThatHangsAfterItsProbe(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newNode(t)
		n.offer()
		n.silence(true)
		n.do("POST", "/v1/instances", rest.Boot{Flavor: "m1.small"}).refused(504, compute.KindTimeout)
		n.silence(false)
		time.Sleep(probeEvery)
		hangs := make(chan error, 1)
		go func() {
			hangs <- n.withBreaker(t.Context(), place{topic: "host.h1", partition: 0}, func(ctx context.Context) error {
				<-ctx.Done()
				return ctx.Err()
			})
		}()
		synctest.Wait()
		_, other := n.beside()
		into[rest.Instance](n.do("POST", "/v1/instances", rest.Boot{Project: other, Flavor: "m1.small"}), 202)
		if err := <-hangs; compute.KindOf(err) != compute.KindTimeout {
			t.Error(err)
		}
	})
}

// While nobody else asks for anything, the node finds out that it is one partition alone that is silent.
func TestOnePartitionIsSilentInAQuietCell(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newNode(t)
		n.offer()
		one, _ := n.beside()
		away := n.partition(one)
		n.setAway(&away)
		boot := func() answer { return n.do("POST", "/v1/instances", rest.Boot{Project: one, Flavor: "m1.small"}) }
		boot().refused(504, compute.KindTimeout)
		time.Sleep(probeEvery)
		boot().refused(503, compute.KindUnavailable) // a probe
		if _, silent, alone := n.writes.state(time.Now()); silent != 0 || alone != 1 {
			t.Errorf("silent for %s, %d by themselves", silent, alone)
		}
	})
}

// What waits for all partitions, as an evacuation does, is refused while one does not answer, and closes nothing for
// others.
func TestAllPartitionsWhileOneIsSilent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newNode(t)
		n.offer()
		one, other := n.beside()
		away := n.partition(one)
		n.setAway(&away)
		for range 3 {
			n.do("POST", "/v1/hosts/h1/evacuate", nil).refused(503, compute.KindUnavailable)
			time.Sleep(probeEvery)
			into[rest.Instance](n.do("POST", "/v1/instances", rest.Boot{Project: other, Flavor: "m1.small"}), 202)
			n.do("GET", path(id1)+"?project="+string(other), nil).refused(404, compute.KindNotFound)
		}
	})
}

// Whatever places are silent: what answers is refused only until another place has answered since the node last found
// nobody, and everything is let in again within two probes of it after all have come back.
func TestPlacesHoldUpNoOthers(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		g, now := newBreaker("publishing", 100), start
		at := []place{{topic: "r"}, {topic: "r", partition: 1}, {topic: "r", partition: 2}}
		silent := make([]bool, len(at))
		ask := func(i int) error {
			in, err := g.enter(now, at[i])
			if err != nil {
				return err
			}
			o := answered
			if silent[i] {
				o, now = unanswered, now.Add(time.Second)
			}
			g.leave(now, in, o)
			return nil
		}
		for range rapid.IntRange(1, 40).Draw(rt, "steps") {
			i := rapid.IntRange(0, len(at)-1).Draw(rt, "place")
			switch rapid.IntRange(0, 3).Draw(rt, "what") {
			case 0:
				silent[i] = !silent[i]
			default:
				_ = ask(i)
			}
			now = now.Add(time.Duration(rapid.IntRange(0, 700).Draw(rt, "ms")) * time.Millisecond)
		}
		for i := range silent {
			silent[i] = i == 0
		}
		for range 2 {
			now = now.Add(probeEvery)
			for i := range at {
				_ = ask(i)
			}
		}
		for i := 1; i < len(at); i++ {
			if err := ask(i); err != nil {
				rt.Fatalf("%s answers, and is refused: %v", at[i], err)
			}
		}
	})
}

// That the topic of the catalog is silent says nothing of what readers catch up with: it alone has a circuit.
func TestAPlaceApart(t *testing.T) {
	for _, apart := range []bool{true, false} {
		g, now := newBreaker("catching_up", 100), time.Now()
		in, err := g.enter(now, place{topic: "catalog", partition: everyPartition, apart: apart})
		if err != nil {
			t.Fatal(err)
		}
		g.leave(now.Add(10*time.Second), in, unanswered)
		if _, silent, alone := g.state(now.Add(11 * time.Second)); (silent == 0) != apart || (alone == 1) != apart {
			t.Errorf("apart: %t: the node is silent for %s, and %d places by themselves", apart, silent, alone)
		}
	}
}
