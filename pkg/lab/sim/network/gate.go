// SPDX-License-Identifier: Apache-2.0

package network

import (
	"os"
	"sync"
	"time"
)

// gate lets things through or holds them up. Several may hold it shut at once.
type gate struct {
	mu   sync.Mutex
	shut int
	open chan struct{} // closed when the last one lets go; nil: it is open
}

func (g *gate) Close() {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.shut++; g.shut == 1 {
		g.open = make(chan struct{})
	}
}

func (g *gate) Reopen() {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.shut--; g.shut == 0 {
		close(g.open)
		g.open = nil
	}
}

// opens is closed once the gate opens; nil: it is open.
func (g *gate) opens() <-chan struct{} {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.open
}

// deadline is when waiting ends; it may be moved while somebody waits.
type deadline struct {
	mu    sync.Mutex
	at    time.Time
	moved chan struct{}
}

func (d *deadline) set(at time.Time) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.at = at
	if d.moved != nil {
		close(d.moved)
		d.moved = nil
	}
}

func (d *deadline) get() (time.Time, <-chan struct{}) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.moved == nil {
		d.moved = make(chan struct{})
	}
	return d.at, d.moved
}

// wait returns nil once the gate is open, or why it waits no more.
func (d *deadline) wait(g *gate, over ...<-chan struct{}) error {
	for {
		open := g.opens()
		if open == nil {
			return nil
		}
		if err := d.until(open, over); err != nil {
			return err
		}
	}
}

// until waits for one of these, at most until the deadline. Of over there are
// two at most.
func (d *deadline) until(open <-chan struct{}, over []<-chan struct{}) error {
	at, moved := d.get()
	var up <-chan time.Time
	if !at.IsZero() {
		t := time.NewTimer(time.Until(at))
		defer t.Stop()
		up = t.C
	}
	var one, two <-chan struct{}
	if len(over) > 0 {
		one = over[0]
	}
	if len(over) > 1 {
		two = over[1]
	}
	select {
	case <-open:
	case <-moved:
	case <-one:
		return ErrDead
	case <-two:
		return ErrDead
	case <-up:
		return os.ErrDeadlineExceeded
	}
	return nil
}
