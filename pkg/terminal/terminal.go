// SPDX-License-Identifier: Apache-2.0

package terminal

import (
	"io"
	"os"
	"strings"

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

// Fit is text that does not go beyond the end of the screen.
func (s Screen) Fit(text string) string {
	if s.Width <= 0 {
		return text
	}
	return Cut(text, s.Width)
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

// Gap is what is between two columns of a table.
const Gap = "  "

// Widen makes columns as wide as a row needs them.
func Widen(widths []int, row []string) []int {
	for i, cell := range row {
		if i == len(widths) {
			widths = append(widths, 0)
		}
		widths[i] = max(widths[i], Width(cell))
	}
	return widths
}

// Align puts a row into columns: numbers to the right, and what is wider than its column cut. paint is what becomes of a
// cell after that.
func Align(row []string, widths []int, right []bool, paint func(column int, cell string) string) string {
	var line strings.Builder
	for i, cell := range row {
		cell = Cut(cell, widths[i])
		pad := strings.Repeat(" ", widths[i]-Width(cell))
		if cell = paint(i, cell); i < len(right) && right[i] {
			line.WriteString(pad + cell + Gap)
		} else {
			line.WriteString(cell + pad + Gap)
		}
	}
	return strings.TrimRight(line.String(), " ")
}
