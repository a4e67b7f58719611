// SPDX-License-Identifier: Apache-2.0

package loop

import (
	"fmt"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/berth-project/berth/pkg/kafka/internal/brokertest"
	"github.com/berth-project/berth/pkg/wire"
)

// What cannot be written holds up its own partition and no other, whether its
// leader answers that it cannot or not at all, for less time than a turn may take
// or for more. Nothing of it is lost or decided twice.
func TestOnePartitionHoldsUpNoOther(t *testing.T) {
	const alone = 1 // the partition that cannot be written to
	for name, blocked := range map[string]time.Duration{
		"for a while": 8 * time.Second, "for longer than a turn": 40 * time.Second,
	} {
		for _, how := range []string{"refusing", "mute"} {
			t.Run(how+" "+name, func(t *testing.T) {
				brokertest.WithRefusing(t, 3, func(t *testing.T, c brokertest.Refusing) {
					h := newParking(t, c, alone)
					h.loop.effects = effectsOf(c.Cfg)
					h.loop.start(t)
					h.both(t)
					free := h.block(t, how)
					h.send(t, alone)
					brokertest.Passes(time.Second)
					for began := time.Now(); time.Since(began) < blocked; brokertest.Passes(time.Second) {
						sent := time.Now()
						h.send(t, 1-alone)
						h.done(t, 1-alone)
						if took := time.Since(sent); took > time.Second {
							t.Errorf("the other partition took %v", took)
						}
						h.send(t, alone)
					}
					free()
					h.both(t)
					h.loop.end(t)
					if h.loop.gains[1-alone] != 1 {
						t.Errorf("the other partition was gained %d times", h.loop.gains[1-alone])
					}
				})
			})
		}
	}
}

// parking is a loop over two partitions of which one has a leader of its own in
// instances, and nothing else there.
type parking struct {
	loop  *looping
	alone int32
	cut   *deaf
	n     map[int32]int
}

func newParking(t *testing.T, c brokertest.Refusing, alone int32) *parking {
	t.Helper()
	l := newLooping(t, c) // which has sent one to partition 1
	brokertest.MakeTopic(t, c.Cfg, effectsOf(c.Cfg), 2, nil)
	lone := (c.CoordinatorFor("g") + 1) % 3
	other := (lone + 1) % 3
	topics := l.Cfg.Topics
	for _, topic := range []string{topics.Requests(), topics.Reports(), topics.Instances(), effectsOf(c.Cfg)} {
		for p := range int32(2) {
			to := other
			if topic == topics.Instances() && p == alone {
				to = lone
			}
			if err := c.MoveTopicPartition(topic, p, to); err != nil {
				t.Fatal(err)
			}
		}
	}
	h := &parking{loop: l, alone: alone, cut: newDeaf(l.Cfg.Dial, c.ListenAddrs()[lone]), n: map[int32]int{}}
	l.Cfg.Dial = h.cut.dial
	return h
}

// block has nothing written to the lone partition any more until free is called.
func (h *parking) block(t *testing.T, how string) (free func()) {
	t.Helper()
	if how == "mute" {
		h.cut.deaf(true)
		return func() { h.cut.deaf(false) }
	}
	f := h.loop.Fault(kfake.Fault{
		Keys: []kmsg.Key{kmsg.Produce}, Topic: h.loop.Cfg.Topics.Instances(), Partitions: []int32{h.alone},
		Err: kerr.NotEnoughReplicas, Count: -1,
	})
	return f.Remove
}

func (h *parking) send(t *testing.T, p int32) {
	t.Helper()
	h.n[p]++
	rec := wire.Record{Key: fmt.Append(nil, "of", p, "-"), Value: fmt.Append(nil, h.n[p])}
	if err := h.loop.p.Send(t.Context(), rec.To(h.loop.Cfg.Topics.Requests(), p)); err != nil {
		t.Fatal(err)
	}
}

// done waits until what was last sent to a partition is decided, written, and its
// effect published.
func (h *parking) done(t *testing.T, p int32) {
	t.Helper()
	h.loop.await(t, fmt.Sprintf("sent of%d-%d <nil>", p, h.n[p]))
}

func (h *parking) both(t *testing.T) {
	t.Helper()
	for _, p := range []int32{1 - h.alone, h.alone} {
		h.send(t, p)
		h.done(t, p)
	}
}

// Effects that cannot be sent hold up the inputs of the partition that has them, and those of no other. Once they can
// be, all that waited is decided.
func TestUnsentEffectsHoldUpNoOther(t *testing.T) {
	const alone, most = 1, 4
	brokertest.WithRefusing(t, 3, func(t *testing.T, c brokertest.Refusing) {
		h := newParking(t, c, alone)
		h.loop.effects = effectsOf(c.Cfg)
		h.loop.startWith(t, Options{Group: "g", MaxUnsent: most, TurnRecords: 1})
		h.both(t)
		refused := c.Fault(kfake.Fault{
			Keys: []kmsg.Key{kmsg.Produce}, Topic: effectsOf(c.Cfg), Partitions: []int32{alone},
			Err: kerr.NotEnoughReplicas, Count: -1,
		})
		for range 5 * most {
			h.send(t, alone)
		}
		for range 8 { // seconds: less than a record is tried
			sent := time.Now()
			h.send(t, 1-alone)
			h.done(t, 1-alone)
			if took := time.Since(sent); took > time.Second {
				t.Errorf("the other partition took %v", took)
			}
			brokertest.Passes(time.Second)
		}
		if taken := h.loop.state()[fmt.Sprint("of", alone, "-")]; taken > 1+2*most {
			t.Errorf("%d of its own inputs were taken while none of its effects could be sent", taken)
		}
		refused.Remove()
		h.done(t, alone)
		h.both(t)
		h.loop.end(t)
	})
}

// What was taken of a partition that is parked is not passed over by an owner that
// comes before it is written: no position behind it is committed.
func TestParkedInputsAreNotPassedOver(t *testing.T) {
	brokertest.WithRefusing(t, 3, func(t *testing.T, c brokertest.Refusing) {
		h := newParking(t, c, 1)
		h.loop.effects = effectsOf(c.Cfg)
		h.loop.start(t)
		h.both(t)
		free := h.block(t, "refusing")
		h.send(t, 1)
		brokertest.Passes(5 * time.Second)
		h.loop.stop()
		if err := <-h.loop.done; err != nil {
			t.Error(err)
		}
		free()
		next := newLedger(t, "next")
		next.effects = effectsOf(c.Cfg)
		stop := startLoop(t, c.Cfg, next)
		next.await(t, fmt.Sprintf("sent of1-%d <nil>", h.n[1]))
		stop()
		h.loop.p.Close()
	})
}
