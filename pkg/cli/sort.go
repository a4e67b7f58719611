// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"cmp"
	"math"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/berth-project/berth/pkg/compute"
)

// sorted is items in the order of a column, named by its title in any case, "-" for a space; "-" before it turns the
// order round. Items that are equal there stay as they came. Empty: as they came.
func (s Sheet[T]) sorted(items []T, by string) ([]T, error) {
	if by == "" {
		return items, nil
	}
	name, down := strings.CutPrefix(by, "-")
	i := slices.IndexFunc(s.Columns, func(c Column[T]) bool { return c.name() == strings.ToLower(name) })
	if i < 0 {
		var names []string
		for _, c := range s.Columns {
			names = append(names, c.name())
		}
		return nil, compute.Invalid("sort-by", by, "give one of "+strings.Join(names, ", ")+", or one with - before it")
	}
	c := s.Columns[i]
	out := slices.Clone(items)
	slices.SortStableFunc(out, func(a, b T) int {
		if down {
			a, b = b, a
		}
		return c.compare(a, b)
	})
	return out, nil
}

// name is how a column is called on the command line.
func (c Column[T]) name() string { return strings.ReplaceAll(strings.ToLower(c.Title), " ", "-") }

func (c Column[T]) compare(a, b T) int {
	x, y := c.Cell(a), c.Cell(b)
	if c.Right {
		return cmp.Compare(quantity(x), quantity(y))
	}
	return cmp.Compare(x, y)
}

var quantityPattern = regexp.MustCompile(`^([0-9]+(?:\.[0-9]+)?)([A-Za-z]*)`)

// quantity is the number that a cell begins with, in the unit behind it: "7/8", "12s", "in 9d", "14GiB/16GiB". What has
// none, as a dash, comes first, and what has no end last.
func quantity(cell string) float64 {
	if strings.HasPrefix(cell, unlimited) || cell == neverExpires {
		return math.Inf(1)
	}
	m := quantityPattern.FindStringSubmatch(strings.TrimPrefix(cell, "in "))
	if m == nil {
		return math.Inf(-1)
	}
	n, _ := strconv.ParseFloat(m[1], 64) // the pattern is a number's
	units := map[string]float64{
		"s": 1, "m": 60, "h": 3600, "d": 86400, "KiB": 1 << 10, "MiB": 1 << 20, "GiB": 1 << 30, "TiB": 1 << 40,
	}
	if unit, is := units[m[2]]; is {
		n *= unit
	}
	return n
}
