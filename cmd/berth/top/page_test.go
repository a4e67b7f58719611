// SPDX-License-Identifier: Apache-2.0

package top

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/berth-project/berth/pkg/client"
	"github.com/berth-project/berth/pkg/compute"
	"github.com/berth-project/berth/pkg/terminal"
	"github.com/berth-project/berth/pkg/wire/rest"
)

var noon = time.Date(2026, 11, 24, 12, 0, 0, 0, time.UTC)

func some() Cell {
	queue := func(name string, queued int, waits time.Duration, now uint32) client.Queue {
		return client.Queue{
			Name: compute.QueueName(name), State: "open", Queued: queued, Hosts: &rest.HostCounts{Eligible: now, Full: 2},
			Capacity: &rest.Capacity{Room: int64(now)}, Advice: &rest.QueueAdvice{Oldest: noon.Add(-waits)},
		}
	}
	host := func(name, state string, free int64, active int) client.Host {
		return client.Host{
			Host: compute.HostID(name), State: state, Totals: compute.Resources{compute.VCPU: 8, compute.MemoryMB: 16 << 10},
			Free:      compute.Resources{compute.VCPU: free, compute.MemoryMB: 8 << 10},
			Instances: map[string]int{"active": active}, HeardFor: rest.Duration(2 * time.Second),
		}
	}
	return Cell{
		At: noon,
		Queues: []client.Queue{
			queue("m1.small", 0, 0, 1), queue("m1.big", 3, time.Minute, 0),
			queue("m1.huge.gpu-a100.disk-nvme.net-100g.zone-north-1", 1, time.Hour, 1),
		},
		Hosts: []client.Host{host("a", "enabled", 2, 6), host("b", "silent", 8, 0), host("c", "draining", 6, 2)},
	}
}

func TestQueuesAtEightyColumns(t *testing.T) {
	p := page{
		api: "http://127.0.0.1:7070", cell: some(), now: noon.Add(time.Second), height: 14,
		screen: terminal.Screen{Width: 80},
	}
	want := []string{
		"Berth at http://127.0.0.1:7070, 12:00:00",
		"Hosts      1 draining, 1 enabled, 1 silent",
		"Instances  8 active",
		"Waiting    4 in 2 queues, the oldest since 1h",
		"Used       vCPU ███░░ 8/16   memory ███░░ 16GiB/32GiB",
		"",
		"QUEUES   tab: hosts   s: by age   arrows: scroll   q: quit",
		"QUEUE                       STATE  WAITING  OLDEST  HOSTS NOW  FULL  NEVER  ROOM",
		"m1.big                      open         3      1m          0     2      0     0",
		"m1.huge.gpu-a100.disk-nvm…  open         1      1h          1     2      0     1",
		"m1.small                    open         0       -          1     2      0     1",
		"",
		"",
		"1 to 3 of 3, by waiting",
	}
	if diff := cmp.Diff(want, p.lines()); diff != "" {
		t.Error(diff)
	}
}

// What is not known is not shown as none, and what is old says so.
func TestWhatIsNotKnown(t *testing.T) {
	p := page{api: "a", now: noon, height: 24, screen: terminal.Screen{Width: 80}}
	has := func(when string, want ...string) {
		t.Helper()
		text := strings.Join(p.lines(), "\n")
		for _, w := range want {
			if !strings.Contains(text, w) {
				t.Errorf("%s it has no %q:\n%s", when, w, text)
			}
		}
		for _, none := range []string{"No queues", "No hosts", "nothing", "none"} {
			if strings.Contains(text, none) {
				t.Errorf("%s it says %q:\n%s", when, none, text)
			}
		}
	}
	has("before the first answer", "Berth at a: asking", "Not known yet.")
	p.failed = errors.New("no API node answers")
	has("without one", "Berth at a: no API node answers", "Not known yet.")
	p.cell = some()
	has("after a later look has failed", "As of 12:00:00, for Berth at a: no API node answers", "m1.big")
	p.failed, p.cell.Hosts, p.cell.Hidden = nil, nil, true
	has("for a project", "they are shown to operators", "m1.big", "4 in 2 queues")
	p.hosts = true
	has("for a project", "Hosts: they are shown to operators.")
	p.screen.Width = 0
	has("on a screen without an end", "they are shown to operators")
}

func TestOrders(t *testing.T) {
	p := page{cell: some(), now: noon, height: 24, screen: terminal.Screen{Width: 80}}
	first := func() string {
		name, _, _ := strings.Cut(p.lines()[head], " ")
		return name
	}
	for _, c := range []struct{ key, want string }{
		{"", "m1.big"}, {"s", "m1.huge.gpu-a100.disk-nvm…"}, {"s", "m1.big"}, {"tab", "b"}, {"s", "b"}, {"s", "a"},
		{"s", "a"}, {"s", "b"}, {"tab", "m1.big"},
	} {
		if p = p.press(c.key); first() != c.want {
			t.Errorf("after %q the first is %s, want %s:\n%s", c.key, first(), c.want, strings.Join(p.lines(), "\n"))
		}
	}
}

// However narrow the terminal and whatever is pressed, lines fit, and there are no more of them than it has.
func TestPagesFit(t *testing.T) {
	long := some()
	for n := range 100 {
		long.Queues = append(long.Queues, client.Queue{Name: compute.QueueName(fmt.Sprint("q", n))})
	}
	rapid.Check(t, func(t *rapid.T) {
		p := page{
			cell: rapid.SampledFrom([]Cell{{}, some(), long}).Draw(t, "cell"), now: noon,
			height: rapid.IntRange(1, 40).Draw(t, "height"),
			screen: terminal.Screen{Width: rapid.IntRange(1, 200).Draw(t, "width")},
			failed: rapid.SampledFrom([]error{nil, errors.New("no API node\x1b[2J answers\n" + strings.Repeat("x", 99))}).
				Draw(t, "error"),
		}
		keys := []string{"tab", "s", "down", "up", "pgdown", "pgup", "home", "end", "x"}
		for _, key := range rapid.SliceOf(rapid.SampledFrom(keys)).Draw(t, "keys") {
			p = p.press(key)
		}
		lines := p.lines()
		if len(lines) > p.height {
			t.Fatalf("%d lines on %d", len(lines), p.height)
		}
		for _, line := range lines {
			if terminal.Width(line) > p.screen.Width {
				t.Fatalf("%q is wider than %d", line, p.screen.Width)
			}
			if strings.ContainsAny(line, "\x1b\n") {
				t.Fatalf("%q steers the terminal", line)
			}
		}
	})
}
