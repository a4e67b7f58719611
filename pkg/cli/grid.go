// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"io"
	"strings"

	"github.com/berth-project/berth/pkg/terminal"
)

// Grid is text in columns as wide as they need to be.
type Grid struct {
	Rows  [][]string // the first is the head
	Right []bool     // columns of numbers

	tones [][]terminal.Tone // of the cells, where there are any
	fits  bool              // on a terminal that is too narrow the last column is cut
}

// leastCell is how narrow the last column may become: what is left of it says something still.
const leastCell = 12

// Print writes the rows in columns that align.
func (g Grid) Print(w io.Writer) error {
	screen := terminal.Of(w)
	widths := g.widths()
	if last := len(widths) - 1; g.fits && screen.Width > 0 && last > 0 {
		before := 0
		for _, width := range widths[:last] {
			before += width + len(terminal.Gap)
		}
		widths[last] = min(widths[last], max(screen.Width-before, leastCell))
	}
	var b strings.Builder
	for n, row := range g.Rows {
		b.WriteString(g.line(screen, widths, n, row))
	}
	_, err := io.WriteString(w, b.String())
	return err
}

// line is a row as it is printed.
func (g Grid) line(screen terminal.Screen, widths []int, n int, row []string) string {
	paint := func(i int, cell string) string { return screen.Paint(cell, g.tone(n, i)) }
	return terminal.Align(row, widths, g.Right, paint) + "\n"
}

func (g Grid) widths() (widths []int) {
	for _, row := range g.Rows {
		widths = terminal.Widen(widths, row)
	}
	return widths
}

func (g Grid) tone(row, column int) terminal.Tone {
	if row < len(g.tones) && column < len(g.tones[row]) {
		return g.tones[row][column]
	}
	return terminal.Plain
}
