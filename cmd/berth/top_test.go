// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"os"
	"strings"
	"sync"
	"testing"

	"github.com/creack/pty"

	"github.com/berth-project/berth/pkg/cell"
	"github.com/berth-project/berth/pkg/cli"
)

// A whole cell is watched on a real terminal: its queues, then its hosts, until q is pressed.
func TestTop(t *testing.T) {
	us, it, err := pty.Open()
	if err != nil {
		t.Skipf("skipped: needs a terminal: %v", err)
	}
	defer us.Close()
	if err := pty.Setsize(us, &pty.Winsize{Rows: 24, Cols: 80}); err != nil {
		t.Fatal(err)
	}
	t.Setenv("TERM", "xterm-256color")
	screen := &drawn{more: make(chan struct{})}
	read := make(chan struct{})
	go func() { defer close(read); screen.from(us) }()
	o := cell.EverythingOptions{Hosts: cell.SimulatedHosts(3), Listen: "127.0.0.1:0"}
	if err := cell.WithEverything(t.Context(), o, func(ctx context.Context, address string) error {
		saysOf(ctx, t, []string{"flavor", "add", "m1.small", "--vcpus", "1", "--memory", "1GiB"}, address)
		root := whole()
		root.SetIn(it)
		root.SetOut(it)
		ended := make(chan int, 1)
		go func() {
			ended <- cli.Execute(ctx, root, []string{"top", "--every", "100ms", "--api", "http://" + address})
		}()
		for _, step := range []struct{ want, key string }{{"m1.small", "\t"}, {"host-03", "q"}} {
			screen.await(t, step.want)
			if _, err := us.WriteString(step.key); err != nil {
				return err
			}
		}
		if code := <-ended; code != 0 {
			t.Errorf("exit code %d", code)
		}
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	if err := it.Close(); err != nil {
		t.Fatal(err)
	}
	<-read
	if code, _, errs := typed(t.Context(), []string{"top"}, newTop()); code == 0 ||
		!strings.Contains(errs, "berth queue list and berth host list print what it shows") {
		t.Errorf("where there is no terminal: exit code %d: %s", code, errs)
	}
	if code, _, errs := typed(t.Context(), []string{"top", "--every", "1ms"}, newTop()); code != 2 ||
		!strings.Contains(errs, `"1ms"`) {
		t.Errorf("every millisecond: exit code %d: %s", code, errs)
	}
}

// drawn is what was drawn on a terminal.
type drawn struct {
	mu   sync.Mutex
	text strings.Builder
	more chan struct{} // closed when there is more
}

func (d *drawn) from(terminal *os.File) {
	page := make([]byte, 4096)
	for {
		n, err := terminal.Read(page)
		if err != nil {
			return
		}
		d.mu.Lock()
		d.text.Write(page[:n])
		close(d.more)
		d.more = make(chan struct{})
		d.mu.Unlock()
	}
}

func (d *drawn) await(t *testing.T, want string) {
	t.Helper()
	for {
		d.mu.Lock()
		is, more := strings.Contains(d.text.String(), want), d.more
		d.mu.Unlock()
		if is {
			return
		}
		select {
		case <-more:
		case <-t.Context().Done():
			t.Fatalf("the test ends before %q is drawn", want)
		}
	}
}
