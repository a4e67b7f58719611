// SPDX-License-Identifier: Apache-2.0

package terminal

import (
	"bytes"
	"os"
	"testing"
	"unicode/utf8"

	"github.com/creack/pty"
	"pgregory.net/rapid"
)

func TestScreenOfATerminal(t *testing.T) {
	us, it, err := pty.Open()
	if err != nil {
		t.Skipf("skipped: needs a terminal: %v", err)
	}
	defer us.Close()
	defer it.Close()
	if err := pty.Setsize(us, &pty.Winsize{Rows: 24, Cols: 80}); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		noColour, kind string
		want           Screen
	}{
		{"", "xterm", Screen{80, true}}, {"1", "xterm", Screen{80, false}}, {"", "dumb", Screen{80, false}},
	} {
		t.Setenv("NO_COLOR", c.noColour)
		t.Setenv("TERM", c.kind)
		if is := Of(it); is != c.want {
			t.Errorf("with NO_COLOR=%q and TERM=%q it is %+v", c.noColour, c.kind, is)
		}
	}
}

func TestNoTerminal(t *testing.T) {
	file, err := os.Create(t.TempDir() + "/out")
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	if is := Of(file); is != (Screen{}) {
		t.Errorf("a file is %+v", is)
	}
	if is := Of(&bytes.Buffer{}); is != (Screen{}) {
		t.Errorf("a buffer is %+v", is)
	}
}

func TestWidthAndCut(t *testing.T) {
	for _, c := range []struct {
		text  string
		width int
		most  int
		cut   string
	}{
		{"web-1", 5, 5, "web-1"}, {"web-1", 5, 4, "web…"}, {"web-1", 5, 0, ""}, {"機械", 4, 3, "機…"},
		{"機械", 4, 2, "…"}, {"e\u0301te\u0301", 3, 2, "e\u0301…"}, {"", 0, 0, ""},
	} {
		if w := Width(c.text); w != c.width {
			t.Errorf("%q takes %d columns", c.text, w)
		}
		if cut := Cut(c.text, c.most); cut != c.cut {
			t.Errorf("%q cut to %d is %q", c.text, c.most, cut)
		}
	}
	rapid.Check(t, func(t *rapid.T) {
		text, most := rapid.String().Draw(t, "text"), rapid.IntRange(0, 20).Draw(t, "most")
		cut := Cut(text, most)
		if Width(cut) > max(most, 0) || utf8.ValidString(text) && !utf8.ValidString(cut) {
			t.Fatalf("%q cut to %d is %q", text, most, cut)
		}
	})
}

func TestPaint(t *testing.T) {
	if s := (Screen{Colour: true}).Paint("active", Good); s != "\x1b[32mactive\x1b[0m" {
		t.Errorf("painted %q", s)
	}
	if s := (Screen{}).Paint("active", Good); s != "active" {
		t.Errorf("not to be painted, and is %q", s)
	}
}
