// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"bytes"
	"testing"
	"time"
)

func TestTablesAlign(t *testing.T) {
	s := Sheet[[2]string]{Columns: []Column[[2]string]{
		{Title: "NAME", Cell: func(r [2]string) string { return r[0] }},
		{Title: "N", Right: true, Cell: func(r [2]string) string { return r[1] }},
		{Title: "WIDE", wide: true, Cell: func([2]string) string { return "w" }},
		{Title: "LAST", Cell: func(r [2]string) string { return r[0] }},
	}}
	rows := [][2]string{{"ä", "1"}, {"long name", "100"}, {"", "7"}, {"bad\x1b[31m\nname\u202e", "2"}}
	var out bytes.Buffer
	if err := s.List(&out, FormatTable, rows); err != nil {
		t.Fatal(err)
	}
	const want = "" +
		"NAME              N  LAST\n" +
		"ä                 1  ä\n" +
		"long name       100  long name\n" +
		"-                 7  -\n" +
		"bad?[31m?name?    2  bad?[31m?name?\n"
	if out.String() != want {
		t.Errorf("got\n%s\nwant\n%s", out.String(), want)
	}
}

func TestAges(t *testing.T) {
	now := time.Date(2026, 3, 4, 5, 6, 7, 0, time.UTC)
	for d, want := range map[time.Duration]string{
		-time.Hour: "0s", 0: "0s", 59 * time.Second: "59s", 60 * time.Second: "1m",
		59*time.Minute + 59*time.Second: "59m",
		time.Hour:                       "1h", 47 * time.Hour: "47h", 48 * time.Hour: "2d", 1000 * time.Hour: "41d",
	} {
		if got := age(now.Add(-d), now); got != want {
			t.Errorf("%s: %s, want %s", d, got, want)
		}
	}
	if age(time.Time{}, now) != "" {
		t.Error("never is no age")
	}
}

func TestLiveLine(t *testing.T) {
	var out bytes.Buffer
	l := &liveLine{w: &out, terminal: true}
	l.show(waitStatus{"one", "one"})
	l.show(waitStatus{"one", "one"})
	l.show(waitStatus{"two", "two"})
	l.end()
	l.end()
	if got, want := out.String(), "\r\x1b[K\x1b[?7lone\x1b[?7h\r\x1b[K\x1b[?7ltwo\x1b[?7h\n"; got != want {
		t.Errorf("on a terminal %q, want %q", got, want)
	}
	out.Reset()
	l = newLiveLine(&out)
	l.show(waitStatus{"one", "one"})
	l.show(waitStatus{"one", "one"})
	l.show(waitStatus{"two", "two"})
	l.end()
	if got, want := out.String(), "one\ntwo\n"; got != want {
		t.Errorf("elsewhere %q, want %q", got, want)
	}
}
