// SPDX-License-Identifier: Apache-2.0

package top

import (
	"context"
	"errors"
	"io"
	"strings"
	"time"

	tea "charm.land/bubbletea/v2"

	"github.com/berth-project/berth/pkg/terminal"
)

// Options are what is shown, and where.
type Options struct {
	API   string        // the name of the API node
	Every time.Duration // how often it is asked
	Look  func(context.Context) (Cell, error)
	In    io.Reader
	Out   io.Writer
}

// Run shows it until q is pressed or ctx ends.
func Run(ctx context.Context, o Options) error {
	screen := terminal.Of(o.Out)
	m := model{o: o, ctx: ctx, page: page{api: o.API, screen: screen, height: 24}}
	_, err := tea.NewProgram(m, tea.WithContext(ctx), tea.WithInput(o.In), tea.WithOutput(o.Out)).Run()
	if errors.Is(err, tea.ErrInterrupted) || ctx.Err() != nil {
		return nil // that is how one leaves
	}
	return err
}

// model is the page and what it is asked by.
type model struct {
	o    Options
	ctx  context.Context
	page page
}

// looked is the end of a look.
type looked struct {
	cell Cell
	err  error
}

// due says that it is time to look again.
type due struct{}

// Init looks for the first time.
func (m model) Init() tea.Cmd { return m.look }

func (m model) look() tea.Msg {
	cell, err := m.o.Look(m.ctx)
	return looked{cell, err}
}

// Update takes a key, a size, or the end of a look.
func (m model) Update(msg tea.Msg) (tea.Model, tea.Cmd) {
	switch msg := msg.(type) {
	case tea.WindowSizeMsg:
		m.page.screen.Width, m.page.height = msg.Width, msg.Height
	case looked:
		m.page.failed, m.page.now = msg.err, time.Now()
		if msg.err == nil {
			m.page.cell = msg.cell
		}
		return m, tea.Tick(m.o.Every, func(time.Time) tea.Msg { return due{} })
	case due:
		return m, m.look
	case tea.KeyPressMsg:
		if key := msg.String(); key == "q" || key == "ctrl+c" || key == "esc" {
			return m, tea.Quit
		}
		m.page = m.page.press(msg.String())
	}
	return m, nil
}

// View draws the page.
func (m model) View() tea.View {
	v := tea.NewView(strings.Join(m.page.lines(), "\n"))
	v.AltScreen = true
	return v
}

// press is the page after a key.
func (p page) press(key string) page {
	last := max(len(p.table().rows)-p.rows(), 0)
	switch key {
	case "tab", "left", "right", "h", "l":
		p.hosts, p.order, p.from = !p.hosts, 0, 0
		return p
	case "s":
		p.order, p.from = (p.order+1)%len(p.orders()), 0
		return p
	case "down", "j":
		p.from++
	case "up", "k":
		p.from--
	case "pgdown", "space":
		p.from += p.rows()
	case "pgup":
		p.from -= p.rows()
	case "home", "g":
		p.from = 0
	case "end", "G":
		p.from = last
	}
	p.from = max(0, min(p.from, last))
	return p
}
