// SPDX-License-Identifier: Apache-2.0

package celltest

import (
	"fmt"
	"strings"

	"github.com/anishathalye/porcupine"

	"github.com/berth-project/berth/pkg/compute"
)

// asked is one thing that a client wants of one instance, or of all of a project.
type asked struct {
	op      string // boot, delete, claim, end, look
	project compute.Project
	n       int // which of the project's instances
	claim   compute.ClaimID
}

// standing is what the model knows of one instance.
type standing struct {
	phase   string          // empty, queued, starting, deleting, deleted, error
	claim   compute.ClaimID // granted
	decided string          // what its boot was answered
	deleted string          // what its delete was answered
}

// projectOf is the model's state: one project.
type projectOf [ids]standing

func (s projectOf) live() (n int) {
	for _, i := range s {
		if i.phase == "queued" || i.phase == "starting" || i.phase == "deleting" {
			n++
		}
	}
	return n
}

func (s projectOf) String() string {
	var words []string
	for n, i := range s {
		words = append(words, strings.TrimSpace(fmt.Sprintf("%d %s %s", n, i.phase, i.claim)))
	}
	return strings.Join(words, ", ")
}

// does is one thing after another: what it answers, and what is then.
func (s projectOf) does(a asked) (string, projectOf) {
	i := &s[a.n]
	switch a.op {
	case "boot":
		if i.decided == "" {
			i.decided, i.phase = s.admits()
		}
		return i.decided, s
	case "delete":
		return i.ends(), s
	case "claim":
		if i.phase == "queued" {
			i.phase, i.claim = "starting", a.claim
		}
		if i.phase == "starting" && i.claim == a.claim {
			return "granted", s
		}
		return "denied", s
	case "end":
		switch {
		case i.claim != a.claim:
		case i.phase == "starting":
			i.phase = "error"
		case i.phase == "deleting":
			i.phase = "deleted"
		}
		return i.phase, s
	}
	return s.String(), s
}

func (s projectOf) admits() (decided, phase string) {
	if used := s.live(); used >= roomFor {
		return fmt.Sprintf("refused, %d of %d used", used, roomFor), "error"
	}
	return "admitted", "queued"
}

func (i *standing) ends() string {
	if i.deleted != "" {
		return i.deleted
	}
	switch i.phase {
	case "starting":
		i.phase = "deleting"
	case "":
		i.phase, i.decided = "deleted", "cancelled"
	default:
		i.phase = "deleted"
	}
	i.deleted = i.phase
	return i.deleted
}

func projectModel() porcupine.Model {
	return porcupine.Model{
		Partition: func(all []porcupine.Operation) [][]porcupine.Operation {
			by := map[compute.Project][]porcupine.Operation{}
			for _, op := range all {
				p := op.Input.(asked).project
				by[p] = append(by[p], op)
			}
			var parts [][]porcupine.Operation
			for _, ops := range by {
				parts = append(parts, ops)
			}
			return parts
		},
		Init: func() any { return projectOf{} },
		Step: func(state, input, output any) (bool, any) {
			answer, next := state.(projectOf).does(input.(asked))
			return answer == output.(string), next
		},
		DescribeOperation: func(in, out any) string { return describeOp(in.(asked), out.(string)) },
	}
}

func describeOp(a asked, answer string) string {
	return fmt.Sprintf("%s %d of %s %s: %s", a.op, a.n, a.project, a.claim, answer)
}
