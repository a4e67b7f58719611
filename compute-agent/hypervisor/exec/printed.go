package exec

import (
	"bytes"
	"strings"
	"unicode"
)

// What is kept of what a call prints.
const (
	mostPrinted = 4 << 20
	mostSaid    = 2 << 10
	mostLines   = 5
	mostShown   = 200
)

// page keeps all that is printed; too much ends the call.
type page struct {
	b       bytes.Buffer
	full    func()
	tooMuch bool
}

func (p *page) Write(b []byte) (int, error) {
	if p.b.Len()+len(b) > mostPrinted {
		p.tooMuch = true
		p.full()
		return len(b), nil
	}
	return p.b.Write(b)
}

// tail keeps the end of what is said.
type tail struct{ kept []byte }

func (t *tail) Write(p []byte) (int, error) {
	n := len(p)
	p = p[max(0, n-mostSaid):]
	t.kept = append(t.kept, p...)
	if over := len(t.kept) - mostSaid; over > 0 {
		t.kept = append(t.kept[:0], t.kept[over:]...)
	}
	return n, nil
}

// lines are the last ones, in one.
func (t *tail) lines() string {
	all := strings.Split(strings.TrimSpace(string(t.kept)), "\n")
	all = all[max(0, len(all)-mostLines):]
	for i := range all {
		all[i] = printable(all[i])
	}
	return strings.Join(all, " / ")
}

func short(s string) string {
	if len(s) > mostShown {
		s = s[:mostShown] + "…"
	}
	return strings.ToValidUTF8(s, "?")
}

// printable is a line without what would confuse a terminal or a log.
func printable(s string) string {
	return strings.Map(func(r rune) rune {
		if unicode.IsPrint(r) {
			return r
		}
		return ' '
	}, strings.TrimSpace(strings.ToValidUTF8(s, "?")))
}
