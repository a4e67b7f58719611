// SPDX-License-Identifier: Apache-2.0

package sim

import (
	"context"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/berth-project/berth/pkg/client"
	"github.com/berth-project/berth/pkg/compute"
	"github.com/berth-project/berth/pkg/wire/rest"
)

// FaultWord declares a host dead (Dead: "fence" or "forget") that has power: it lives, or it is
// not heard. Key says by what.
const FaultWord = "word"

// What declares a host dead.
const (
	WordRecord  = "record"  // a client that writes it to every partition of the requests
	WordAsked   = "asked"   // an operator's request, which is refused if the host was heard of lately
	WordPatient = "patient" // an operator's request after the host has been silent for long enough
)

// Word is what became of it.
type Word struct {
	Fault
	First    time.Time // when it was said first
	Began    time.Time // of the last time it was said
	Answered time.Time
	OK       bool
	Err      string
	Fates    []rest.HostFate // what was said to become of what the host had
}

// word has somebody say that a host is dead.
func (w *play) word(f Fault) {
	w.rec.came(f)
	x := Word{Fault: f, First: time.Now(), Began: time.Now()}
	var over atomic.Bool
	w.lasts(seconds(keepTime+askTime), over.Load)
	var err error
	if f.Key == WordRecord {
		err = w.wordRecord(f)
	} else {
		err = w.wordOperator(f, &x)
	}
	over.Store(true)
	if x.Answered, x.OK = time.Now(), err == nil; err != nil {
		x.Err = err.Error()
	}
	w.rec.note("operator", fmt.Sprintf("says that %s is dead (%s, %s): %v", f.Who, f.Dead, f.Key, err))
	w.rec.mu.Lock()
	defer w.rec.mu.Unlock()
	w.rec.Words = append(w.rec.Words, x)
}

func (w *play) wordRecord(f Fault) error {
	op := compute.OpFence
	if f.Dead == "forget" {
		op = compute.OpForget
	}
	ctx, cancel := context.WithTimeout(w.ours.life, askTime)
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
func (w *play) wordOperator(f Fault, x *Word) error {
	c, err := client.New(client.Config{Address: node(0), Project: "default", Timeout: keepTime, Patience: -1, Dial: w.ours.Dial})
	w.must(err)
	defer c.Close()
	for end := time.Now().Add(keepTime); ; {
		ctx, cancel := context.WithTimeout(w.ours.life, keepTime)
		say := client.DeadHost{Fenced: true, Force: f.Key == WordPatient, Reason: "simulated"}
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
