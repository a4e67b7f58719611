// SPDX-License-Identifier: Apache-2.0

package sim

import (
	"context"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/berth-project/berth/pkg/client"
	"github.com/berth-project/berth/pkg/compute"
	"github.com/berth-project/berth/pkg/lab/sim/judge"
	"github.com/berth-project/berth/pkg/lab/sim/schedule"
)

// word has somebody say that a host is dead.
func (w *play) word(f schedule.Fault) {
	w.rec.CountFault(f)
	x := judge.Word{Fault: f, First: time.Now(), Began: time.Now()}
	var over atomic.Bool
	w.lasts(schedule.SecondsOf(keepTime+askTime), over.Load)
	var err error
	if f.Key == schedule.WordRecord {
		err = w.wordRecord(f)
	} else {
		err = w.wordOperator(f, &x)
	}
	over.Store(true)
	if x.Answered, x.OK = time.Now(), err == nil; err != nil {
		x.Err = err.Error()
	}
	w.rec.AddNote("operator", fmt.Sprintf("says that %s is dead (%s, %s): %v", f.Who, f.Dead, f.Key, err))
	w.rec.AddWord(x)
}

func (w *play) wordRecord(f schedule.Fault) error {
	op := compute.OpFence
	if f.Dead == "forget" {
		op = compute.OpForget
	}
	ctx, cancel := context.WithTimeout(w.ours.Life, askTime)
	defer cancel()
	for p := range w.World.Partitions {
		q := compute.Request{Op: op, Host: compute.HostID(f.Who), At: time.Now()}
		if err := w.clients.publish(ctx, q, p); err != nil {
			return err
		}
	}
	return nil
}

// wordOperator says it until it is answered with yes or no.
func (w *play) wordOperator(f schedule.Fault, x *judge.Word) error {
	c, err := client.New(
		client.Config{Address: node(0), Project: "default", Timeout: keepTime, Patience: -1, Dial: w.ours.Dial},
	)
	w.must(err)
	defer c.Close()
	for end := time.Now().Add(keepTime); ; {
		ctx, cancel := context.WithTimeout(w.ours.Life, keepTime)
		say := client.DeadHost{Fenced: true, Force: f.Key == schedule.WordPatient, Reason: "simulated"}
		x.Began = time.Now()
		do := c.Evacuate
		if f.Dead == "forget" {
			do = c.Forget
		}
		out, err := do(ctx, compute.HostID(f.Who), say)
		cancel()
		x.Fates = out.Fates
		kind := compute.KindOf(err)
		unsure := kind == compute.KindUnavailable || kind == compute.KindTimeout || kind == compute.KindInternal
		if err == nil || !unsure || time.Now().After(end) || !w.sleep(2*time.Second) {
			return err
		}
	}
}
