// SPDX-License-Identifier: Apache-2.0

package hypervisor

import (
	"strings"
	"unicode"
)

// What is kept of what a program says: of a tool in an error, and of all that an agent
// writes into its journal, its reports and its log.
const (
	mostSaid  = 2 << 10
	mostLines = 5
	mostWords = 4 << 10
)

// Said keeps the end of what a program prints, however much that is: an image that
// was made for it has qemu-img complain for megabytes.
type Said struct{ kept []byte }

// Write takes all, and keeps the end.
func (s *Said) Write(p []byte) (int, error) {
	n := len(p)
	p = p[max(0, n-mostSaid):]
	s.kept = append(s.kept, p...)
	if over := len(s.kept) - mostSaid; over > 0 {
		s.kept = append(s.kept[:0], s.kept[over:]...)
	}
	return n, nil
}

// Lines are the last ones, in one.
func (s *Said) Lines() string {
	all := strings.Split(strings.TrimSpace(string(s.kept)), "\n")
	all = all[max(0, len(all)-mostLines):]
	for i := range all {
		all[i] = Printable(all[i])
	}
	return strings.Join(all, " / ")
}

// Printable is a line without what would confuse a terminal or a log.
func Printable(line string) string {
	return strings.Map(func(r rune) rune {
		if unicode.IsPrint(r) {
			return r
		}
		return ' '
	}, strings.TrimSpace(strings.ToValidUTF8(line, "?")))
}

// Brief is words of a driver as they are kept and passed on: their beginning and
// their end, if there are too many.
func Brief(words string) string { return Shorten(words, mostWords) }

// Shorten keeps the beginning and the end of words that are longer than so many bytes.
func Shorten(words string, most int) string {
	if len(words) <= most {
		return words
	}
	each := most/2 - 8
	return strings.ToValidUTF8(words[:each], "") + " [...] " + strings.ToValidUTF8(words[len(words)-each:], "")
}
