// SPDX-License-Identifier: Apache-2.0

package service_test

import (
	"context"
	"errors"
	"os"
	"slices"
	"sync"
	"testing"

	"github.com/berth-project/berth/pkg/leaktest"
	"github.com/berth-project/berth/pkg/service"
)

func TestMain(m *testing.M) { os.Exit(leaktest.Main(m.Run)) }

// diary is what several parts did, in order.
type diary struct {
	mu    sync.Mutex
	lines []string
}

func (d *diary) write(line string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.lines = append(d.lines, line)
}

// part writes down when it starts and stops.
type part struct {
	name  string
	diary *diary
	ready chan struct{}
	fails chan error // ends by itself with what comes
}

func newPart(d *diary, name string) *part {
	return &part{name: name, diary: d, ready: make(chan struct{}), fails: make(chan error, 1)}
}

func (p *part) Ready() <-chan struct{} { return p.ready }

func (p *part) Run(ctx context.Context) error {
	p.diary.write("start " + p.name)
	close(p.ready)
	defer p.diary.write("stop " + p.name)
	select {
	case <-ctx.Done():
		return nil
	case err := <-p.fails:
		return err
	}
}

func TestGroupStartsInOrderAndStopsInReverse(t *testing.T) {
	var d diary
	g := service.NewGroup()
	for _, name := range []string{"a", "b", "c"} {
		g.Add(name, newPart(&d, name))
	}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error)
	go func() { done <- g.Run(ctx) }()
	<-g.Ready()
	cancel()
	if err := <-done; err != nil {
		t.Fatal(err)
	}
	want := []string{"start a", "start b", "start c", "stop c", "stop b", "stop a"}
	if !slices.Equal(d.lines, want) {
		t.Errorf("got %v, want %v", d.lines, want)
	}
}

func TestGroupEndsWithThePartThatFails(t *testing.T) {
	var d diary
	broken := errors.New("disk full")
	a, b := newPart(&d, "a"), newPart(&d, "b")
	g := service.NewGroup()
	g.Add("a", a)
	g.Add("b", b)
	done := make(chan error)
	go func() { done <- g.Run(t.Context()) }()
	<-g.Ready()
	b.fails <- broken
	if err := <-done; !errors.Is(err, broken) || err.Error() != "b: disk full" {
		t.Errorf("got %v, want b's error with its name", err)
	}
	if !slices.Contains(d.lines, "stop a") {
		t.Errorf("a was not stopped: %v", d.lines)
	}
}

// never is never ready.
type never struct{ part *part }

func (n never) Ready() <-chan struct{}        { return nil }
func (n never) Run(ctx context.Context) error { return n.part.Run(ctx) }

func TestGroupStopsWhileStarting(t *testing.T) {
	var d diary
	slow := newPart(&d, "slow")
	g := service.NewGroup()
	g.Add("slow", never{slow})
	g.Add("next", newPart(&d, "next"))
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error)
	go func() { done <- g.Run(ctx) }()
	<-slow.ready
	cancel()
	if err := <-done; err != nil {
		t.Fatal(err)
	}
	if want := []string{"start slow", "stop slow"}; !slices.Equal(d.lines, want) {
		t.Errorf("got %v, want %v", d.lines, want)
	}
}

func TestTogetherIsReadyWhenAllAreAndEndsWithTheFirst(t *testing.T) {
	var d diary
	broken := errors.New("disk full")
	a, b := newPart(&d, "a"), newPart(&d, "b")
	both := service.Together(a, b)
	done := make(chan error)
	go func() { done <- both.Run(t.Context()) }()
	<-both.Ready()
	if len(d.lines) != 2 {
		t.Errorf("ready, and only %v", d.lines)
	}
	b.fails <- broken
	if err := <-done; !errors.Is(err, broken) {
		t.Errorf("got %v, want %v", err, broken)
	}
	if !slices.Contains(d.lines, "stop a") {
		t.Errorf("a was not stopped: %v", d.lines)
	}
}

// stopsEarly runs a group and stops it while part first still starts.
func stopsEarly(t *testing.T, g *service.Group, first *part) error {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	done := make(chan error)
	go func() { done <- g.Run(ctx) }()
	<-first.ready
	cancel()
	return <-done
}

// slow is a part that is never ready.
type slow struct{ *part }

func (slow) Ready() <-chan struct{} { return nil }

func TestGroupClosesWhatPartsShareHoweverFarItCame(t *testing.T) {
	var d diary
	first, broken := newPart(&d, "first"), errors.New("disk full")
	g := service.NewGroup()
	g.Closes("lower", func() error { d.write("close lower"); return broken })
	g.Closes("upper", func() error { d.write("close upper"); return nil })
	g.Add("first", slow{first})
	g.Add("never", newPart(&d, "never"))
	if err := stopsEarly(t, g, first); !errors.Is(err, broken) {
		t.Errorf("got %v, want %v", err, broken)
	}
	want := []string{"start first", "stop first", "close upper", "close lower"}
	if !slices.Equal(d.lines, want) {
		t.Errorf("got %v, want %v", d.lines, want)
	}
	if err := g.Close(); err != nil || len(d.lines) != len(want) {
		t.Errorf("closed twice: %v, %v", err, d.lines)
	}
}

func TestMadeIsMadeOnlyWhenItRuns(t *testing.T) {
	var d diary
	first := newPart(&d, "first")
	g := service.NewGroup()
	g.Add("first", slow{first})
	g.Add("made", service.Made(func(context.Context) (service.Part, error) {
		d.write("make")
		return newPart(&d, "made"), nil
	}))
	if err := stopsEarly(t, g, first); err != nil {
		t.Fatal(err)
	}
	if want := []string{"start first", "stop first"}; !slices.Equal(d.lines, want) {
		t.Errorf("got %v, want %v", d.lines, want)
	}
}

func TestMadeRunsWhatItMade(t *testing.T) {
	var d diary
	ctx, cancel := context.WithCancel(t.Context())
	m := service.Made(func(context.Context) (service.Part, error) { return newPart(&d, "made"), nil })
	done := make(chan error)
	go func() { done <- m.Run(ctx) }()
	<-m.Ready()
	cancel()
	if err := <-done; err != nil {
		t.Fatal(err)
	}
	if want := []string{"start made", "stop made"}; !slices.Equal(d.lines, want) {
		t.Errorf("got %v, want %v", d.lines, want)
	}
}

func TestMadeEndsWhenItCannotBeMade(t *testing.T) {
	broken := errors.New("disk full")
	cannot := func(ctx context.Context) (service.Part, error) {
		return nil, errors.Join(broken, ctx.Err())
	}
	if err := service.Made(cannot).Run(t.Context()); !errors.Is(err, broken) {
		t.Errorf("got %v, want %v", err, broken)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := service.Made(cannot).Run(ctx); err != nil {
		t.Errorf("called off, and %v", err)
	}
}
