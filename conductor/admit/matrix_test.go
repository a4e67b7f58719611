// SPDX-License-Identifier: Apache-2.0

package admit

import (
	"fmt"
	"strings"
	"testing"

	"github.com/cockroachdb/datadriven"
)

// TestEveryStateHearsEverything puts instance 1 into every state and says
// everything that can be said to each. testdata/states.matrix lists how the
// states come about (states) and what each input leads to in each of them
// (hear); where it says (nothing), the record must be the very one it was.
func TestEveryStateHearsEverything(t *testing.T) {
	var names []string
	s := matrix{}
	datadriven.RunTest(t, "testdata/states.matrix", func(t *testing.T, d *datadriven.TestData) string {
		if d.Cmd == "states" {
			for line := range strings.Lines(d.Input) {
				name, lines, _ := strings.Cut(strings.TrimSpace(line), ":")
				names = append(names, name)
				s[name] = strings.ReplaceAll(lines, ";", "\n")
			}
			return fmt.Sprintf("%d states\n", len(names))
		}
		var out strings.Builder
		for line := range strings.Lines(d.Input) {
			line = strings.TrimSpace(line)
			fmt.Fprintln(&out, line)
			var outcomes []string
			who := map[string][]string{}
			for _, name := range names {
				said := s.outcome(t, name, line)
				if who[said] == nil {
					outcomes = append(outcomes, said)
				}
				who[said] = append(who[said], name)
			}
			for _, said := range outcomes {
				fmt.Fprintf(&out, "  %s:\n      %s\n", strings.Join(who[said], ", "), said)
			}
		}
		return out.String()
	})
}

// matrix is the story that leads to each state.
type matrix map[string]string

func (m matrix) outcome(t *testing.T, name, line string) string {
	s := newStory(t)
	s.tell(t, m[name])
	before := s.state.Instance(long("1"))
	said := strings.Join(s.do(t, line), "\n      ")
	if said == "(nothing)" && s.state.Instance(long("1")) != before {
		t.Errorf("%s in %s: ignored, but the record changed", line, name)
	}
	return said
}
