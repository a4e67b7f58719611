// SPDX-License-Identifier: Apache-2.0

package main

import (
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/berth-project/berth/pkg/cli"
	"github.com/berth-project/berth/pkg/compute"
)

// What the commands have in common that show a topic's records: berth audit, berth rejected.

// window checks how far back and how much a command shows of a topic, and answers the time at which that begins.
func window(now time.Time, since string, limit int) (time.Time, error) {
	back, err := cli.ParseLife("since", since)
	if err != nil || back == 0 {
		return now, compute.Invalid("since", since, "give a time, as in 90d or 1h")
	}
	if limit < 1 || limit > cli.MaxShown {
		return now, compute.Invalid("limit", fmt.Sprint(limit), fmt.Sprintf("give 1 to %d", cli.MaxShown))
	}
	return now.Add(-back), nil
}

// tail keeps the last of what is read of a topic.
type tail[T any] struct {
	most  int
	older func(a, b T) int // the order; nil: they come in it
	all   []T
}

func newTail[T any](most int, older func(a, b T) int) *tail[T] { return &tail[T]{most, older, []T{}} }

func (t *tail[T]) add(v T) {
	if t.all = append(t.all, v); len(t.all) > 2*t.most {
		t.cut()
	}
}

// cut answers the last, in order, and forgets the others.
func (t *tail[T]) cut() []T {
	if t.older != nil {
		slices.SortStableFunc(t.all, t.older)
	}
	t.all = append(t.all[:0], t.all[max(0, len(t.all)-t.most):]...)
	return t.all
}

// printAll prints a list; for people, none says that it is empty.
func printAll[T any](w io.Writer, f cli.Format, sheet cli.Sheet[T], all []T, none string) error {
	if len(all) == 0 && (f == cli.FormatTable || f == cli.FormatWide) {
		_, err := fmt.Fprintln(w, none)
		return err
	}
	return sheet.List(w, f, all)
}

// printOne prints one thing as it comes: in a line, as YAML in a document, its name as lists do.
func printOne[T any](w io.Writer, f cli.Format, sheet cli.Sheet[T], v T) error {
	switch f {
	case cli.FormatJSON:
		return json.NewEncoder(w).Encode(v)
	case cli.FormatYAML:
		if _, err := fmt.Fprintln(w, "---"); err != nil {
			return err
		}
		return cli.PrintData(w, f, v)
	case cli.FormatTable, cli.FormatWide:
	default: // its name
		return sheet.List(w, f, []T{v})
	}
	var cells []string
	for _, c := range sheet.Columns {
		cells = append(cells, cli.OrDash(cli.Printable(c.Cell(v))))
	}
	_, err := fmt.Fprintln(w, strings.Join(cells, "  "))
	return err
}

func unreadable(notes io.Writer, err error) error {
	_, err = fmt.Fprintln(notes, "passed over:", cli.Printable(err.Error()))
	return err
}
