// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/berth-project/berth/pkg/compute"
)

const (
	mib int64 = 1
	gib       = 1 << 10 * mib
	tib       = 1 << 20 * mib
)

// unit is what sizes are written in.
type unit struct {
	name string
	mib  int64
}

// units are in order. Decimal ones are refused: 2GB may mean either.
func units() [3]unit { return [...]unit{{"MiB", mib}, {"GiB", gib}, {"TiB", tib}} }

// ParseMemory reads a size in whole MiB, as memory is counted.
func ParseMemory(field, text string) (int64, error) { return parseSize(field, text, mib, "MiB") }

// parseDisk reads a size in whole GiB, as disk is counted.
func parseDisk(field, text string) (int64, error) { return parseSize(field, text, gib, "GiB") }

// parseSize reads a size and counts it in pieces of so many MiB.
func parseSize(field, text string, piece int64, counted string) (int64, error) {
	digits := strings.TrimRightFunc(text, func(r rune) bool { return r < '0' || r > '9' })
	name := strings.TrimSpace(text[len(digits):])
	n, err := strconv.ParseInt(digits, 10, 64)
	if err != nil || n < 0 {
		return 0, compute.Invalid(field, text, "give a whole number with its unit, as in 512MiB or 2GiB")
	}
	for _, u := range units() {
		switch {
		case u.name != name:
			continue
		case n > compute.MaxAmount/u.mib:
			return 0, compute.Invalid(field, text, "that is more than anything may have")
		case n*u.mib%piece != 0:
			return 0, compute.Invalid(field, text, "it is counted in whole "+counted)
		}
		return n * u.mib / piece, nil
	}
	return 0, compute.Invalid(field, text, unitRemedy(digits, name))
}

func unitRemedy(digits, name string) string {
	for _, u := range units() {
		if name != "" && strings.EqualFold(name[:1], u.name[:1]) {
			return fmt.Sprintf("write %s%s (units are MiB, GiB and TiB)", digits, u.name)
		}
	}
	return fmt.Sprintf("give its unit: %sMiB, %sGiB or %sTiB", digits, digits, digits)
}

// parseAmounts reads CUSTOM_X=1, several of them.
func parseAmounts(field string, texts []string) (compute.Resources, error) {
	out := compute.Resources{}
	for _, text := range texts {
		class, amount, found := strings.Cut(text, "=")
		n, err := strconv.ParseInt(amount, 10, 64)
		if !found || err != nil {
			return nil, compute.Invalid(field, text, "give CLASS=NUMBER, as in CUSTOM_GPU=1")
		}
		if _, twice := out[compute.ResourceClass(class)]; twice {
			return nil, compute.Invalid(field, text, "give each class once")
		}
		out[compute.ResourceClass(class)] = n
	}
	return out, nil
}

// ParsePairs reads k=v, several of them.
func ParsePairs[K, V ~string](field string, texts []string) (map[K]V, error) {
	out := map[K]V{}
	for _, text := range texts {
		k, v, found := strings.Cut(text, "=")
		if !found || k == "" {
			return nil, compute.Invalid(field, text, "give NAME=VALUE")
		}
		if old, twice := out[K(k)]; twice {
			return nil, compute.Invalid(field, text, fmt.Sprintf("%s is given twice, first as %s", k, old))
		}
		out[K(k)] = V(v)
	}
	return out, nil
}

// HumanSize says an amount of a class as a person would.
func HumanSize(class compute.ResourceClass, n int64) string {
	switch class {
	case compute.MemoryMB:
		return InUnits(n)
	case compute.DiskGB:
		if n == 0 {
			return "0GiB" // as it is counted
		}
		return InUnits(n << 10)
	}
	return strconv.FormatInt(n, 10)
}

// InUnits writes a number of MiB in the largest unit that needs no fraction.
func InUnits(n int64) string {
	best := units()[0]
	for _, u := range units() {
		if n != 0 && n%u.mib == 0 {
			best = u
		}
	}
	return strconv.FormatInt(n/best.mib, 10) + best.name
}

// humanResources is "1 vCPU, 2GiB, 20GiB disk, 1 CUSTOM_GPU".
func humanResources(r compute.Resources) string {
	var parts []string
	if n, ok := r[compute.VCPU]; ok {
		parts = append(parts, fmt.Sprintf("%d vCPU", n))
	}
	if n, ok := r[compute.MemoryMB]; ok {
		parts = append(parts, InUnits(n))
	}
	if n, ok := r[compute.DiskGB]; ok {
		parts = append(parts, InUnits(n<<10)+" disk")
	}
	for _, class := range r.Classes() {
		if class != compute.VCPU && class != compute.MemoryMB && class != compute.DiskGB {
			parts = append(parts, fmt.Sprintf("%d %s", r[class], class))
		}
	}
	return strings.Join(parts, ", ")
}
