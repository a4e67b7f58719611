// SPDX-License-Identifier: Apache-2.0

// Package service starts and stops long-lived parts: in order, once, and
// without leaving a goroutine behind.
package service

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
)

// Part is one long-lived piece of a process.
type Part interface {
	// Run works until ctx ends, then cleans up and returns nil. An error means
	// that it ended by itself and the process should too. It is called once.
	Run(ctx context.Context) error
	// Ready is closed once the part does what it is for. It never is if Run
	// ends before.
	Ready() <-chan struct{}
}

// Func makes a part of a function that is ready as soon as it runs.
type Func func(ctx context.Context) error

// Run calls the function.
func (f Func) Run(ctx context.Context) error { return f(ctx) }

// Ready is closed from the beginning.
func (f Func) Ready() <-chan struct{} { return closed }

var closed = func() chan struct{} { c := make(chan struct{}); close(c); return c }()

// Group is a part made of parts. They start in the order they were added, each
// once the one before is ready, and stop in the reverse order, each before the
// one it stands on. What the parts share is closed after them.
type Group struct {
	parts  []named
	shared []closer
	ready  chan struct{}
	once   sync.Once
}

type named struct {
	name string
	part Part
}

type closer struct {
	name  string
	close func() error
}

// NewGroup is an empty group.
func NewGroup() *Group { return &Group{ready: make(chan struct{})} }

// Add appends a part; the name appears in its errors. Not after Run.
func (g *Group) Add(name string, p Part) { g.parts = append(g.parts, named{name, p}) }

// Closes gives the group something that its parts use and that is open already:
// it is closed when Run ends, after all parts, the last given first, and however
// far the parts came in starting. Not after Run.
func (g *Group) Closes(name string, end func() error) {
	g.shared = append(g.shared, closer{name, end})
}

// Close closes what the group was given. It is for a group that never runs: Run
// does so itself. A second call does nothing.
func (g *Group) Close() error {
	var errs []error
	for _, c := range slices.Backward(g.shared) {
		if err := c.close(); err != nil {
			errs = append(errs, fmt.Errorf("%s: %w", c.name, err))
		}
	}
	g.shared = nil
	return errors.Join(errs...)
}

// Ready is closed when every part is ready.
func (g *Group) Ready() <-chan struct{} { return g.ready }

// Run starts the parts and keeps them until ctx ends or one of them does; then
// it stops them and answers what went wrong, nil if nothing did.
func (g *Group) Run(ctx context.Context) error {
	err := g.run(ctx)
	return errors.Join(err, g.Close())
}

func (g *Group) run(ctx context.Context) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	var running []runner
	for _, n := range g.parts {
		r := start(ctx, n, cancel)
		running = append(running, r)
		select {
		case <-n.part.Ready():
			continue
		case <-ctx.Done():
		}
		break
	}
	if ctx.Err() == nil {
		g.once.Do(func() { close(g.ready) })
		<-ctx.Done()
	}
	var errs []error
	for i := len(running) - 1; i >= 0; i-- {
		errs = append(errs, running[i].stop())
	}
	return errors.Join(errs...)
}

type runner struct {
	cancel context.CancelFunc
	done   chan struct{}
	err    *error
}

// start runs a part under a context of its own, so that the end of the group's
// does not stop all parts at once. A part that ends by itself ends the group.
func start(group context.Context, n named, end context.CancelCauseFunc) runner {
	ctx, cancel := context.WithCancel(context.WithoutCancel(group))
	r := runner{cancel: cancel, done: make(chan struct{}), err: new(error)}
	go func() {
		defer close(r.done)
		if err := n.part.Run(ctx); err != nil {
			*r.err = fmt.Errorf("%s: %w", n.name, err)
		}
		end(*r.err)
	}()
	return r
}

func (r runner) stop() error {
	r.cancel()
	<-r.done
	return *r.err
}
