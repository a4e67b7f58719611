// SPDX-License-Identifier: Apache-2.0

package api

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/berth-project/berth/pkg/compute"
	"github.com/berth-project/berth/pkg/wire"
	"github.com/berth-project/berth/pkg/wire/rest"
)

// TestKeyOnTwoNodesAtOnce: two nodes search, find nothing and write, at the same moment.
// One is answered 202 and the other 409 where they differ, and both nodes show the one
// that is first in the log from then on.
func TestKeyOnTwoNodesAtOnce(t *testing.T) {
	for name, second := range map[string]string{"another body": other, "the same body": plain} {
		for _, first := range []int{0, 1} { // whose record comes first in the log
			t.Run(name, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) { atOnce(t, []string{plain, second}, first) })
			})
		}
	}
}

func atOnce(t *testing.T, bodies []string, first int) {
	c := newCluster(t, 2)
	answers := []chan answer{make(chan answer, 1), make(chan answer, 1)}
	for i, n := range c.nodes {
		n.holds()
		go func() { answers[i] <- n.keyedBoot(bodies[i], "deploy-42") }()
	}
	synctest.Wait() // both have looked, and write
	for _, i := range []int{first, 1 - first} {
		close(c.nodes[i].hold)
		synctest.Wait()
	}
	got := []answer{<-answers[0], <-answers[1]}
	won := into[rest.Instance](got[first], 202)
	id := wire.KeyedInstance("default", "deploy-42")
	name := map[string]string{plain: "web", other: "db"}[bodies[first]]
	if won.ID != id || won.Name != name {
		t.Errorf("the first is answered %s %s", won.ID, won.Name)
	}
	if lost := got[1-first]; bodies[0] == bodies[1] {
		if again := into[rest.Instance](lost, 202); again.ID != id || !again.AcceptedAt.Equal(won.AcceptedAt) {
			t.Errorf("the second is answered %+v", again)
		}
	} else {
		p := lost.refused(409, compute.KindConflict)
		if p.Field != keyHeader || p.Reason == nil || p.Reason.Code != compute.RequestDiffers ||
			p.Reason.Detail != "name, attempts" {
			t.Errorf("the second is answered %+v", p)
		}
	}
	for _, n := range slices.Concat(c.nodes, []*node{c.join(t)}) {
		if shown := into[rest.Instance](n.do("GET", path(id), nil), 200); shown.Name != name {
			t.Errorf("a node shows %s, want %s", shown.Name, name)
		}
		for i, body := range bodies {
			if a := n.keyedBoot(body, "deploy-42"); (a.status == 202) != (body == bodies[first]) {
				t.Errorf("repeating body %d is answered %d", i, a.status)
			}
		}
	}
}

// TestUnsettledKey: a request was written, and then Kafka does not say what else was.
// Nobody is told that it is the one; a repetition finds out.
func TestUnsettledKey(t *testing.T) {
	c := newCluster(t, 2)
	n, works := c.nodes[0], c.nodes[0].sync
	looks := 0
	n.sync = func() error {
		if looks++; looks == 2 {
			return errors.New("no leader")
		}
		return works()
	}
	a := n.keyedBoot(plain, "deploy-42")
	id := wire.KeyedInstance("default", "deploy-42")
	p := a.refused(504, compute.KindTimeout)
	if p.Field != "id" || p.Value != string(id) || !strings.Contains(p.Remedy, "repeat") ||
		a.header.Get("Retry-After") == "" {
		t.Errorf("%+v %v", p, a.header)
	}
	into[rest.Instance](c.nodes[1].keyedBoot(plain, "deploy-42"), 202)
	c.nodes[1].keyedBoot(other, "deploy-42").refused(409, compute.KindConflict)
	n.reads = newBreaker("catching_up", n.config.CatchingUp) // as if Kafka had answered since
	if again := into[rest.Instance](n.keyedBoot(plain, "deploy-42"), 202); again.ID != id {
		t.Errorf("the repetition is answered %+v", again)
	}
}
