// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"iter"
	"regexp"
	"strconv"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"go.yaml.in/yaml/v3"

	"github.com/berth-project/berth/pkg/compute"
	"github.com/berth-project/berth/pkg/terminal"
)

// Format is how results are printed. JSON and YAML are promised to scripts,
// tables are not.
type Format string

// The formats.
const (
	FormatTable Format = "table"
	FormatWide  Format = "wide"
	FormatJSON  Format = "json"
	FormatYAML  Format = "yaml"
	formatName  Format = "name"
)

// ParseFormat reads what --output says.
func ParseFormat(text string) (Format, error) {
	switch f := Format(text); f {
	case FormatTable, FormatWide, FormatJSON, FormatYAML, formatName:
		return f, nil
	}
	return "", compute.Invalid("output", text, "give table, wide, json, yaml or name")
}

// Column is one column of a table.
type Column[T any] struct {
	Title string
	Cell  func(T) string
	Right bool // numbers
	wide  bool // only with -o wide

	tone func(T) terminal.Tone // how it is to be seen; nil: as any text
}

// Sheet is how one kind of thing is printed.
type Sheet[T any] struct {
	Name    func(T) string // -o name: what other commands take
	Columns []Column[T]
	none    string // said of an empty list
}

// List prints several things.
func (s Sheet[T]) List(w io.Writer, f Format, items []T) error {
	switch f {
	case FormatJSON, FormatYAML:
		if items == nil {
			items = []T{}
		}
		return PrintData(w, f, items)
	case formatName:
		for _, item := range items {
			if _, err := fmt.Fprintln(w, s.Name(item)); err != nil {
				return err
			}
		}
		return nil
	}
	if len(items) == 0 {
		_, err := fmt.Fprintln(w, s.none)
		return err
	}
	return s.table(w, f == FormatWide, items)
}

// pages prints several things that come page by page, until the first error. Names
// are printed as they come, unless they are to be sorted. The other formats need all of them first: a column is
// as wide as its widest cell, and JSON is one list.
func (s Sheet[T]) pages(w io.Writer, f Format, by string, pages iter.Seq2[[]T, error]) error {
	var all []T
	if _, err := s.sorted(nil, by); err != nil {
		return err
	}
	for page, err := range pages {
		if err != nil {
			return err
		}
		if f != formatName || by != "" {
			all = append(all, page...)
			continue
		}
		if err := s.List(w, f, page); err != nil {
			return err
		}
	}
	if f == formatName && by == "" {
		return nil
	}
	all, err := s.sorted(all, by)
	if err != nil {
		return err
	}
	return s.List(w, f, all)
}

func (s Sheet[T]) table(w io.Writer, wide bool, items []T) error {
	t := Grid{fits: !wide}
	var titles []string
	for _, c := range s.Columns {
		if c.wide && !wide {
			continue
		}
		titles = append(titles, c.Title)
		t.Right = append(t.Right, c.Right)
	}
	t.Rows = append(t.Rows, titles)
	t.tones = append(t.tones, nil)
	for _, item := range items {
		var row []string
		var tones []terminal.Tone
		for _, c := range s.Columns {
			if c.wide && !wide {
				continue
			}
			row = append(row, OrDash(Printable(c.Cell(item))))
			tone := terminal.Plain
			if c.tone != nil {
				tone = c.tone(item)
			}
			tones = append(tones, tone)
		}
		t.Rows, t.tones = append(t.Rows, row), append(t.tones, tones)
	}
	return t.Print(w)
}

// one prints a single thing: as data, its name, or the lines of its details.
func (s Sheet[T]) one(w io.Writer, f Format, item T, details func(T) []detail) error {
	switch f {
	case FormatJSON, FormatYAML:
		return PrintData(w, f, item)
	case formatName:
		_, err := fmt.Fprintln(w, s.Name(item))
		return err
	}
	var g Grid
	for _, d := range details(item) {
		if d.value == "" {
			continue
		}
		for i, line := range strings.Split(d.value, "\n") {
			title := d.title + ":"
			if i > 0 {
				title = ""
			}
			g.Rows = append(g.Rows, []string{title, Printable(line)})
		}
	}
	return g.Print(w)
}

// did prints what a command has done: a sentence for a person, and else what it was done to.
func (s Sheet[T]) did(w io.Writer, f Format, item T, sentence string) error {
	if f == FormatTable || f == FormatWide {
		_, err := fmt.Fprintln(w, sentence)
		return err
	}
	return s.one(w, f, item, nil)
}

// detail is one line about a single thing; an empty value is left out, a line
// break goes on below.
type detail struct{ title, value string }

// PrintData writes JSON, or the same as YAML: same fields, same order.
func PrintData(w io.Writer, f Format, v any) error {
	data, err := json.MarshalIndent(v, "", "  ")
	if err != nil {
		return err
	}
	if f == FormatJSON {
		_, err := fmt.Fprintf(w, "%s\n", data)
		return err
	}
	fields := json.NewDecoder(bytes.NewReader(data))
	fields.UseNumber()
	node, err := nodeOf(fields)
	if err != nil {
		return err
	}
	encoder := yaml.NewEncoder(w)
	encoder.SetIndent(2)
	if err := encoder.Encode(node); err != nil {
		return err
	}
	return encoder.Close()
}

// nodeOf is the next value of a JSON document as YAML, in the same order. (JSON is YAML, but for characters that JSON
// alone takes as they are, and for names of more than 1,024 characters: so the library does not read it.)
func nodeOf(d *json.Decoder) (*yaml.Node, error) {
	token, err := d.Token()
	if err != nil {
		return nil, err
	}
	n := &yaml.Node{Kind: yaml.ScalarNode}
	switch v := token.(type) {
	case string:
		n.Tag, n.Value = "!!str", v
		if olderYAML.MatchString(v) || strings.Contains(v, "\n") && strings.Contains(v, "\t") {
			n.Style = yaml.DoubleQuotedStyle // the library reads some tabs in lines as indentation
		}
	case json.Number:
		n.Value = v.String()
	case bool:
		n.Value = strconv.FormatBool(v)
	case nil:
		n.Value = "null"
	case json.Delim:
		n.Kind, n.Tag = yaml.SequenceNode, "!!seq"
		if v == '{' {
			n.Kind, n.Tag = yaml.MappingNode, "!!map"
		}
		for d.More() { // the names are values, too
			c, err := nodeOf(d)
			if err != nil {
				return nil, err
			}
			n.Content = append(n.Content, c)
		}
		_, err = d.Token()
	}
	return n, err
}

// olderYAML is text that readers of YAML 1.1 (PyYAML, Ansible, Ruby) take for something else where it has no quotes:
// booleans, marks, numbers and dates. The library quotes by itself what its own reader would take for something else.
var olderYAML = regexp.MustCompile(`^((?i:y|n|yes|no|on|off)|=|<<|` +
	`[-+]?(0[bx][0-9a-fA-F_]+|([0-9][0-9_,]*(:[0-5]?[0-9])*(\.[0-9_]*)?|\.[0-9_]+)([eE][-+]?[0-9]+)?)|` +
	`[0-9]{4}-[0-9]{1,2}-[0-9]{1,2}([Tt \t].*)?)$`)

// Printable is the text without what could steer a terminal, or has no shape, so that two names would look the same:
// users name things. Spaces stay.
func Printable(s string) string {
	return strings.Map(func(r rune) rune {
		shown := unicode.IsPrint(r) && !unicode.In(r, unicode.Other_Default_Ignorable_Code_Point, unicode.Variation_Selector)
		if r != utf8.RuneError && r != emptyBraille && (shown || unicode.Is(unicode.Zs, r)) {
			return r
		}
		return '?'
	}, s)
}

// emptyBraille is a letter of no dots.
const emptyBraille = '\u2800'

// OrDash is the text, or a dash for none.
func OrDash(s string) string {
	if s == "" {
		return "-"
	}
	return s
}

// ShownTime is a time for a person, to the second and in UTC, as data and logs have it; empty for none.
func ShownTime(t time.Time) string {
	if t.IsZero() {
		return ""
	}
	return t.UTC().Format(time.RFC3339)
}

// age is how long ago, in one unit: "12s", "5m", "3h", "2d".
func age(t, now time.Time) string {
	if t.IsZero() {
		return ""
	}
	return Short(now.Sub(t))
}

// Short is a duration in its largest unit.
func Short(d time.Duration) string {
	switch {
	case d < 0:
		return "0s"
	case d < time.Minute:
		return fmt.Sprintf("%ds", int(d.Seconds()))
	case d < time.Hour:
		return fmt.Sprintf("%dm", int(d.Minutes()))
	case d < 48*time.Hour:
		return fmt.Sprintf("%dh", int(d.Hours()))
	}
	return fmt.Sprintf("%dd", int(d.Hours()/24))
}

// shortID is enough of an id to tell it apart and to type.
func shortID(id compute.InstanceID) string {
	if len(id) <= 8 {
		return string(id)
	}
	return string(id[:8])
}

func joined[T ~string](items []T) string {
	var out []string
	for _, item := range items {
		out = append(out, string(item))
	}
	return strings.Join(out, ", ")
}
