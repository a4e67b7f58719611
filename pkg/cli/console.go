// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"context"
	"fmt"
	"io"
	"strings"
	"time"
	"unicode"

	"github.com/spf13/cobra"

	"github.com/berth-project/berth/pkg/client"
	"github.com/berth-project/berth/pkg/compute"
	"github.com/berth-project/berth/pkg/service"
)

// followEvery is how often --follow asks for more.
const followEvery = time.Second

func newConsole(s *settings) *cobra.Command {
	var tail int64
	var follow bool
	cmd := &cobra.Command{
		Use:   "console NAME|ID|PREFIX",
		Short: "Show what a machine printed on its serial console",
		Long: `Show what a machine printed on its serial console, as far as its host keeps it.
With --follow, go on until interrupted or the machine is gone.

What goes to a terminal is freed of control characters; a file or a pipe gets
every byte as it was printed.`,
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			c, out, err := s.open()
			if err != nil {
				return err
			}
			defer c.Close()
			data := out == FormatJSON || out == FormatYAML
			switch {
			case tail < 0:
				return compute.Invalid("tail", fmt.Sprint(tail), "give a number of bytes")
			case follow && data:
				return compute.Invalid("output", string(out), "what is followed has no end: leave out -o, or --follow")
			}
			i, err := resolve(cmd.Context(), c, cmd.ErrOrStderr(), args[0])
			if err != nil {
				return err
			}
			from := int64(0)
			if tail > 0 {
				from = -tail
			}
			if data {
				all, err := wholeConsole(cmd.Context(), c, i.ID, from)
				if err != nil {
					return err
				}
				return PrintData(cmd.OutOrStdout(), out, all)
			}
			p := printer{c: c, id: i.ID, to: cmd.OutOrStdout(), says: cmd.ErrOrStderr()}
			if isTerminal(p.to) {
				p.to = harmless{p.to}
			}
			return p.run(cmd.Context(), from, follow)
		},
	}
	cmd.Flags().Int64Var(&tail, "tail", 0, "only so many bytes before the end; 0: all that is kept")
	cmd.Flags().BoolVarP(&follow, "follow", "f", false, "go on with what it prints")
	return cmd
}

// wholeConsole is all that a machine had printed from an offset on. What its host drops while the parts are read is
// missing at the beginning, as Offset says.
func wholeConsole(ctx context.Context, c *client.Client, id compute.InstanceID, from int64) (client.Console, error) {
	all, err := c.Console(ctx, id, from, compute.MaxConsole)
	for end := all.End; err == nil; { // of what it prints meanwhile there may be no end
		next := all.Offset + int64(len(all.Data))
		if next >= end {
			return all, nil
		}
		part, failed := c.Console(ctx, id, next, compute.MaxConsole)
		switch {
		case failed != nil || len(part.Data) == 0:
			return all, failed
		case part.Offset == next:
			all.Data, all.End = append(all.Data, part.Data...), part.End
		default:
			all = part
		}
	}
	return all, err
}

// printer prints a console, part after part.
type printer struct {
	c    *client.Client
	id   compute.InstanceID
	to   io.Writer
	says io.Writer
}

// run prints from an offset to the end that there was, or for ever.
func (p printer) run(ctx context.Context, from int64, follow bool) error {
	part, err := p.c.Console(ctx, p.id, from, compute.MaxConsole)
	if err != nil {
		return err
	}
	if from >= 0 && part.Offset > from {
		fmt.Fprintf(p.says, "the first %d bytes are not kept any more\n", part.Offset)
	}
	end := part.End
	for {
		if _, err := p.to.Write(part.Data); err != nil {
			return err
		}
		next := part.Offset + int64(len(part.Data))
		caughtUp := next >= end || len(part.Data) == 0
		if caughtUp && !follow || caughtUp && !service.Sleep(ctx, followEvery) {
			return nil
		}
		if part, err = p.more(ctx, next, follow); err != nil || ctx.Err() != nil {
			return err
		}
		if part.Offset > next {
			fmt.Fprintf(p.says, "\n%d bytes were not kept\n", part.Offset-next)
		}
		if follow {
			end = part.End
		}
	}
}

// more asks for the next part. To follow is to outlast a host that is away for a while.
func (p printer) more(ctx context.Context, from int64, follow bool) (client.Console, error) {
	for {
		part, err := p.c.Console(ctx, p.id, from, compute.MaxConsole)
		switch {
		case ctx.Err() != nil:
			return part, nil
		case err == nil || !follow || !passing(err):
			return part, err
		case !service.Sleep(ctx, followEvery):
			return part, nil
		}
	}
}

// harmless frees a stream of what would command a terminal.
type harmless struct{ w io.Writer }

func (h harmless) Write(b []byte) (int, error) {
	clean := strings.Map(func(r rune) rune {
		if unicode.IsControl(r) && r != '\n' && r != '\t' && r != '\r' {
			return '\uFFFD'
		}
		return r
	}, string(b))
	if _, err := io.WriteString(h.w, clean); err != nil {
		return 0, err
	}
	return len(b), nil
}
