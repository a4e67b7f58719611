// SPDX-License-Identifier: Apache-2.0

package events

import "testing"

// FuzzPositions is what callers say where they stopped: it is refused, or means the same as what it is written as.
func FuzzPositions(f *testing.F) {
	for _, text := range []string{"3:1843", "0:12,1:44", "", "3:1,3:1", "-0:+1", "03:1"} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		p, err := ParsePositions(text)
		if err != nil {
			return
		}
		again, err := ParsePositions(p.String())
		if err != nil || again.String() != p.String() {
			t.Errorf("%q is %v, and then %v, %v", text, p, again, err)
		}
	})
}

// FuzzID is what callers send as Last-Event-ID.
func FuzzID(f *testing.F) {
	for _, text := range []string{"3:1843", "0:12,1:44@9f3c21ab", "@", "3:1@", "3:1@a@b"} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		id, err := ParseID(text)
		if err != nil {
			return
		}
		again, err := ParseID(id.String())
		if err != nil || again.String() != id.String() || again.Log != id.Log {
			t.Errorf("%q is %v, and then %v, %v", text, id, again, err)
		}
	})
}
