// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"image/color"
	"slices"

	xfont "golang.org/x/image/font"
	"gonum.org/v1/plot"
	"gonum.org/v1/plot/font"
	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/text"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
	"gonum.org/v1/plot/vg/vgsvg"
)

// figure is one file: lines that say what was measured above panels side by side.
type figure struct {
	title  string
	lines  []string
	panels []panel
}

type panel struct {
	title  string
	x, y   axis
	series []series
	mark   *mark
}

// series are the points of one colour, and a line through the medians of those
// that share a value.
type series struct {
	name   string
	look   look
	points []point
}

type point struct{ x, y float64 }

// mark is a value that a line and a word point out.
type mark struct {
	x    float64
	name string
}

// look is how a series is drawn.
type look int

const (
	first look = iota
	second
	reference // what was asked for, not measured
)

// color is one that the colour-blind can tell from the others, also in grey.
func (l look) color() color.Color {
	switch l {
	case first:
		return color.RGBA{R: 0x00, G: 0x5a, B: 0x9c, A: 0xff}
	case second:
		return color.RGBA{R: 0xd5, G: 0x5e, B: 0x00, A: 0xff}
	}
	return color.Gray{Y: 0x80}
}

func (l look) line() draw.LineStyle {
	s := draw.LineStyle{Color: l.color(), Width: vg.Points(1.5)}
	if l == reference {
		s.Width, s.Dashes = vg.Points(1), []vg.Length{vg.Points(4), vg.Points(3)}
	}
	return s
}

// Sizes, in points.
const (
	panelWidth  = 290
	panelHeight = 230
	loneWidth   = 480 // of a panel without others
	lineHeight  = 14
	gap         = 12
	textSize    = 10
)

// ink is what words and axes are drawn with, and faint what lies behind all.
func ink() color.Color   { return color.Gray{Y: 0x20} }
func faint() color.Color { return color.Gray{Y: 0xe0} }

func words(size float64, bold bool, x text.XAlignment) text.Style {
	f := font.From(plot.DefaultFont, font.Length(size))
	f.Variant = "Sans"
	if bold {
		f.Weight = xfont.WeightBold
	}
	return text.Style{Color: ink(), Font: f, XAlign: x, YAlign: draw.YBottom, Handler: plot.DefaultTextHandler}
}

// svg draws it. The same figure makes the same bytes.
func (f figure) svg() ([]byte, error) {
	width := vg.Length(panelWidth*len(f.panels) + gap*(len(f.panels)+1))
	if len(f.panels) == 1 {
		width = loneWidth + 2*gap
	}
	head := vg.Length((len(f.lines)+1)*lineHeight + gap)
	canvas := vgsvg.New(width, head+panelHeight+2*gap)
	all := draw.New(canvas)
	all.SetColor(color.White)
	all.Fill(all.Path())
	y := all.Max.Y - gap
	y -= lineHeight
	all.FillText(words(textSize+2, true, draw.XLeft), vg.Point{X: gap, Y: y}, f.title)
	for _, line := range f.lines {
		y -= lineHeight
		all.FillText(words(textSize, false, draw.XLeft), vg.Point{X: gap, Y: y}, line)
	}
	below := draw.Crop(all, gap, -gap, gap, -head-gap)
	tiles := draw.Tiles{Cols: len(f.panels), Rows: 1, PadX: gap}
	for i, p := range f.panels {
		if err := p.draw(tiles.At(below, i, 0)); err != nil {
			return nil, err
		}
	}
	var out bytes.Buffer
	if _, err := canvas.WriteTo(&out); err != nil {
		return nil, err
	}
	return readable(out.Bytes()), nil
}

// readable names fonts of the same widths for those who do not have ours.
func readable(svg []byte) []byte {
	return bytes.ReplaceAll(svg, []byte("font-family:Liberation Sans;"),
		[]byte("font-family:'Liberation Sans',Arial,Helvetica,sans-serif;"))
}

// draw puts the panel's title and its names above the plot, where no line can
// cross them.
func (p panel) draw(c draw.Canvas) error {
	c.FillText(words(textSize+1, true, draw.XLeft), vg.Point{X: c.Min.X, Y: c.Max.Y - lineHeight}, p.title)
	x, y := c.Min.X, c.Max.Y-2*lineHeight
	for _, s := range p.series {
		c.StrokeLine2(s.look.line(), x, y+4, x+18, y+4)
		named := words(textSize, false, draw.XLeft)
		c.FillText(named, vg.Point{X: x + 23, Y: y}, s.name)
		x += 23 + named.Width(s.name) + 14
	}
	drawn, err := p.plot()
	if err != nil {
		return err
	}
	drawn.Draw(draw.Crop(c, 0, -gap, 0, -2*lineHeight-gap))
	return nil
}

func (p panel) plot() (*plot.Plot, error) {
	out := plot.New()
	var xs, ys []float64
	for _, s := range p.series {
		for _, at := range s.points {
			xs, ys = append(xs, at.x), append(ys, at.y)
		}
	}
	p.x.set(&out.X, xs, atValues)
	p.y.set(&out.Y, ys, rounded)
	grid := plotter.NewGrid()
	grid.Vertical.Color, grid.Horizontal.Color = faint(), faint()
	out.Add(grid)
	if p.mark != nil {
		if err := p.mark.add(out); err != nil {
			return nil, err
		}
	}
	for _, s := range p.series {
		if err := s.add(out); err != nil {
			return nil, err
		}
	}
	return out, nil
}

func (s series) add(to *plot.Plot) error {
	line, err := plotter.NewLine(xys(medians(s.points)))
	if err != nil {
		return err
	}
	line.LineStyle = s.look.line()
	to.Add(line)
	if s.look == reference {
		return nil
	}
	dots, err := plotter.NewScatter(xys(s.points))
	if err != nil {
		return err
	}
	dots.GlyphStyle = draw.GlyphStyle{Color: s.look.color(), Radius: vg.Points(2.5), Shape: draw.CircleGlyph{}}
	to.Add(dots)
	return nil
}

// add draws a line across the plot. Its name is on the left, for curves rise to the
// right, unless there is no room.
func (m mark) add(to *plot.Plot) error {
	line, err := plotter.NewLine(plotter.XYs{{X: m.x, Y: to.Y.Min}, {X: m.x, Y: to.Y.Max}})
	if err != nil {
		return err
	}
	line.LineStyle = draw.LineStyle{Color: ink(), Width: vg.Points(1), Dashes: []vg.Length{vg.Points(2), vg.Points(2)}}
	name, err := plotter.NewLabels(plotter.XYLabels{XYs: plotter.XYs{{X: m.x, Y: to.Y.Max}}, Labels: []string{m.name}})
	if err != nil {
		return err
	}
	style := words(textSize, false, draw.XLeft)
	name.Offset = vg.Point{X: 4, Y: -4}
	if to.X.Norm(m.x) > 0.25 {
		style.XAlign, name.Offset.X = draw.XRight, -4
	}
	style.YAlign = draw.YTop
	name.TextStyle = []text.Style{style}
	to.Add(line, name)
	return nil
}

func xys(points []point) plotter.XYs {
	out := make(plotter.XYs, 0, len(points))
	for _, p := range points {
		out = append(out, plotter.XY{X: p.x, Y: p.y})
	}
	return out
}

// medians are a point for each value, from the lowest value to the highest.
func medians(points []point) []point {
	at := map[float64][]float64{}
	for _, p := range points {
		at[p.x] = append(at[p.x], p.y)
	}
	var out []point
	for x, ys := range at {
		slices.Sort(ys)
		half := len(ys) / 2
		y := ys[half]
		if len(ys)%2 == 0 {
			y = (ys[half-1] + ys[half]) / 2
		}
		out = append(out, point{x, y})
	}
	slices.SortFunc(out, func(a, b point) int {
		if a.x < b.x {
			return -1
		}
		return 1
	})
	return out
}
