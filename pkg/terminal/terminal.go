// SPDX-License-Identifier: Apache-2.0

package terminal

import (
	"io"
	"os"

	"github.com/rivo/uniseg"
	"golang.org/x/term"
)

// Screen is what text is printed on. The zero value is no terminal.
type Screen struct {
	Width  int  // in columns; 0: no end
	Colour bool // colours are wanted
}

// Of is the screen behind a writer. NO_COLOR with any text in it, and TERM=dumb, want no colours (no-color.org).
func Of(w io.Writer) Screen {
	f, is := w.(*os.File)
	if !is || !term.IsTerminal(int(f.Fd())) {
		return Screen{}
	}
	width, _, err := term.GetSize(int(f.Fd()))
	if err != nil {
		width = 0
	}
	return Screen{Width: width, Colour: os.Getenv("NO_COLOR") == "" && os.Getenv("TERM") != "dumb"}
}

// Tone is what a word is to be seen as.
type Tone string

// The tones, as what select graphic rendition calls colours: they follow the terminal's own, dark or light.
const (
	Plain  Tone = ""
	Good   Tone = "32"
	Busy   Tone = "33"
	Bad    Tone = "31"
	Gone   Tone = "2"
	Strong Tone = "1"
)

// Paint is text in a tone.
func (s Screen) Paint(text string, t Tone) string {
	if !s.Colour || t == Plain || text == "" {
		return text
	}
	return "\x1b[" + string(t) + "m" + text + "\x1b[0m"
}

// Width is how many columns text takes: an ideograph takes two, an accent that is put on a letter none.
func Width(text string) int { return uniseg.StringWidth(text) }

// Cut is text that takes at most so many columns; an ellipsis says that there is more.
func Cut(text string, most int) string {
	if Width(text) <= most {
		return text
	}
	if most < 1 {
		return ""
	}
	cut, used, state := 0, 0, -1
	for rest := text; rest != ""; {
		var cluster string
		var width int
		cluster, rest, width, state = uniseg.FirstGraphemeClusterInString(rest, state)
		if used+width > most-1 {
			break
		}
		used, cut = used+width, cut+len(cluster)
	}
	return text[:cut] + "…"
}
