// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"bytes"
	"io"
	"strings"
	"testing"
	"time"

	"github.com/berth-project/berth/pkg/client"
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

// TestPrintable: no character that cannot be seen makes one name look like another, or steers a terminal.
func TestPrintable(t *testing.T) {
	for text, want := range map[string]string{
		"web\u200b-1": "web?-1", "\ufeffweb": "?web", "we\u00adb": "we?b", "a\u2060b\u200dc": "a?b?c", "a\U000e0041": "a?",
		"a\u2028b": "a?b", "\ue000": "?", "a\x1bb\tc": "a?b?c", "\u202eab": "?ab", "\xffa": "?a",
		"näme 名前 \u00a0a\u0308\u3000№ 😀": "näme 名前 \u00a0a\u0308\u3000№ 😀",
	} {
		if got := Printable(text); got != want {
			t.Errorf("%q is printed as %q, want %q", text, got, want)
		}
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

// elsewhere is a time as a machine in another zone has it.
var elsewhere = time.Date(2026, 3, 4, 7, 6, 7, 8, time.FixedZone("", 2*60*60))

// TestTimesAreUTC: whatever the zone of this machine is, one time reads the same in all that is printed.
func TestTimesAreUTC(t *testing.T) {
	const want = "2026-03-04T05:06:07Z"
	if ShownTime(elsewhere) != want || ShownTime(time.Time{}) != "" {
		t.Errorf("%q, and %q for none", ShownTime(elsewhere), ShownTime(time.Time{}))
	}
	var said strings.Builder
	i := client.Instance{AcceptedAt: elsewhere, Notice: &client.Notice{Until: elsewhere}}
	for _, d := range instanceDetails(i, elsewhere) {
		said.WriteString(d.title + ": " + d.value + "\n")
	}
	for _, d := range callerDetails(client.Caller{Expires: elsewhere}) {
		said.WriteString(d.title + ": " + d.value + "\n")
	}
	made := client.NewToken{}
	made.ExpiresAt = elsewhere
	if err := PrintNewToken(io.Discard, &said, FormatTable, made); err != nil {
		t.Error(err)
	}
	for _, line := range []string{
		"Accepted: " + want + " (0s ago)", "may run until " + want, "Expires: " + want, "counts until " + want,
	} {
		if !strings.Contains(said.String(), line) {
			t.Errorf("%q is not in\n%s", line, said.String())
		}
	}
}
