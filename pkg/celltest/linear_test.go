// SPDX-License-Identifier: Apache-2.0

package celltest

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/anishathalye/porcupine"

	"github.com/berth-project/berth/pkg/cell"
	"github.com/berth-project/berth/pkg/compute"
)

// TestDecisionsAreLinearizable lets clients boot, delete and claim the same few
// instances at the same time, while conductors are stopped and started and
// partitions move between them. Whatever the log and the hosts' streams answered
// must be what one conductor could have answered that did one thing after another,
// each between its question and its answer.
//
// Seen to fail when quota is not checked, when it is given back twice, when a second
// claim is granted, when reports count whatever their claim id, when a delete
// of what was refused is not written down, and when a conductor goes on taking over
// partitions that it has lost meanwhile.
func TestDecisionsAreLinearizable(t *testing.T) {
	for seed := range uint64(12) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			var ops []porcupine.Operation
			inBubble(t, func(t *testing.T, n network) { ops = contend(t, n, seed) })
			if porcupine.CheckOperations(projectModel(), ops) {
				return
			}
			for _, op := range ops {
				t.Logf(
					"%d to %d, client %d: %s",
					op.Call,
					op.Return,
					op.ClientId,
					describeOp(op.Input.(asked), op.Output.(string)),
				)
			}
			t.Error("no order of these explains what was answered")
		})
	}
}

// contend is what happens in one run.
func contend(t *testing.T, n network, seed uint64) []porcupine.Operation {
	r := newRigOn(t, n, n.broker(t))
	c := newContest(r)
	defer c.to.Close()
	lives := []*life{{rig: r, name: "one"}, {rig: r, name: "two"}}
	for _, l := range lives {
		l.start()
	}
	ctx, calm := context.WithCancel(t.Context())
	var trouble, clients sync.WaitGroup
	trouble.Go(func() { upset(ctx, rand.New(rand.NewPCG(seed, 1)), lives) })
	for i := range 6 {
		clients.Go(func() { c.client(t.Context(), i, rand.New(rand.NewPCG(seed, uint64(i)+2))) })
	}
	clients.Wait()
	calm()
	trouble.Wait()
	for _, p := range contended {
		c.look(p)
	}
	for _, l := range lives {
		l.stop()
	}
	return c.ops
}

var (
	contenders = []compute.HostID{"h1", "h2"}
	contended  = []compute.Project{"p", "q"}
)

// roomFor is the quota of each project, and ids how many instances it has.
const (
	roomFor = 2
	ids     = 8
)

// life is a conductor that is stopped and started.
type life struct {
	rig  *rig
	name string
	run  *running
}

func (l *life) start() {
	c := l.rig.cell(l.name)
	part, err := cell.NewConductor(c, cell.ConductorOptions{Name: l.name})
	l.rig.must(err)
	ctx, cancel := context.WithCancel(context.Background())
	l.run = &running{cancel: cancel, done: make(chan struct{})}
	go func(run *running) {
		run.err = part.Run(ctx)
		close(run.done)
	}(l.run)
}

func (l *life) stop() {
	l.run.cancel()
	<-l.run.done
}

// upset stops conductors and starts them again, so that all partitions move.
func upset(ctx context.Context, rnd *rand.Rand, lives []*life) {
	for range 6 {
		l := lives[rnd.IntN(len(lives))]
		if !passes(ctx, time.Duration(rnd.IntN(12_000))*time.Millisecond) {
			return
		}
		l.stop()
		passes(ctx, time.Duration(rnd.IntN(8000))*time.Millisecond)
		l.start()
	}
}

// passes waits; false if ctx ended before.
func passes(ctx context.Context, d time.Duration) bool {
	select {
	case <-ctx.Done():
		return false
	case <-time.After(d):
		return true
	}
}
