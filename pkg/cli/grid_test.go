// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"bufio"
	"bytes"
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/creack/pty"

	"github.com/berth-project/berth/pkg/compute"
	"github.com/berth-project/berth/pkg/terminal"
)

type cell [3]string

func cells() Sheet[cell] {
	column := func(title string, n int, right bool) Column[cell] {
		return Column[cell]{Title: title, Right: right, Cell: func(c cell) string { return c[n] }}
	}
	s := Sheet[cell]{Columns: []Column[cell]{column("NAME", 0, false), column("MEMORY FREE", 1, true),
		column("WHY", 2, false)}}
	s.Columns[0].tone = func(c cell) terminal.Tone { return ToneOf(c[0]) }
	return s
}

// On a terminal states have colours, columns align under wide letters, and lines end where the terminal does.
func TestTableOnATerminal(t *testing.T) {
	us, it, err := pty.Open()
	if err != nil {
		t.Skipf("skipped: needs a terminal: %v", err)
	}
	defer us.Close()
	if err := pty.Setsize(us, &pty.Winsize{Rows: 24, Cols: 40}); err != nil {
		t.Fatal(err)
	}
	t.Setenv("TERM", "xterm")
	t.Setenv("NO_COLOR", "")
	rows := []cell{{"active", "1GiB", ""}, {"機械", "2GiB", strings.Repeat("because ", 9)}}
	if err := cells().List(it, FormatTable, rows); err != nil {
		t.Fatal(err)
	}
	if err := it.Close(); err != nil {
		t.Fatal(err)
	}
	var lines []string
	for in := bufio.NewScanner(us); in.Scan(); {
		lines = append(lines, in.Text())
	}
	want := []string{
		"NAME    MEMORY FREE  WHY",
		"\x1b[32mactive\x1b[0m         1GiB  -",
		"\x1b[33m機械\x1b[0m           2GiB  because because be…",
	}
	if !slices.Equal(lines, want) {
		t.Errorf("printed\n%q, want\n%q", lines, want)
	}
}

// What is not a terminal gets all of it.
func TestTableInAFile(t *testing.T) {
	var out bytes.Buffer
	why := strings.Repeat("because ", 99) + "so"
	if err := cells().List(&out, FormatTable, []cell{{"active", "1GiB", why}}); err != nil {
		t.Fatal(err)
	}
	if text := out.String(); !strings.HasSuffix(text, why+"\n") || strings.Contains(text, "\x1b") {
		t.Errorf("printed %q", text)
	}
}

func TestSortBy(t *testing.T) {
	rows := []cell{
		{"b", "900MiB/2GiB", "0"}, {"a", "2GiB/2GiB", "1"}, {"c", "-", "2"}, {"a", "unlimited", "3"}, {"d", "0/8", "4"},
		{"e", "12s", "5"}, {"f", "5m", "6"},
	}
	for by, want := range map[string]string{
		"": "0123456", "name": "1302456", "NAME": "1302456", "memory-free": "2456013", "-memory-free": "3106542",
		"-name": "6542013",
	} {
		sorted, err := cells().sorted(rows, by)
		order := ""
		for _, row := range sorted {
			order += row[2]
		}
		if err != nil || order != want {
			t.Errorf("by %q the order is %s, %v; want %s", by, order, err, want)
		}
	}
	var e *compute.Error
	if _, err := cells().sorted(rows, "age"); !errors.As(err, &e) || e.Field != "sort-by" ||
		!strings.Contains(err.Error(), "name, memory-free, why") {
		t.Errorf("by a column that there is not: %v", err)
	}
}
