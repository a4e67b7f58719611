// SPDX-License-Identifier: Apache-2.0

package exec

import (
	"bytes"
	"strings"
)

// What is kept of what a call prints.
const (
	mostPrinted = 4 << 20
	mostShown   = 200
	mostNames   = 1 << 10
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

func short(s string) string {
	if len(s) > mostShown {
		s = s[:mostShown] + "…"
	}
	return strings.ToValidUTF8(s, "?")
}
