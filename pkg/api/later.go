// SPDX-License-Identifier: Apache-2.0

package api

import (
	"errors"
	"fmt"

	"github.com/berth-project/berth/pkg/compute"
	"github.com/berth-project/berth/pkg/wire"
)

// An instance whose record a later Berth wrote is in no list and in no count of this
// node, for what is known of it from before is not true any more. A request for it
// by its id is refused, and /readyz and a metric say that there are any.

var errLaterSchema = errors.New("a later version of Berth wrote it: upgrade this node")

// checkReadable refuses to say anything of an instance that only a later Berth can read.
func (v *instances) checkReadable(at instanceKey) error {
	v.mu.RLock()
	defer v.mu.RUnlock()
	if !v.later[at] {
		return nil
	}
	return &compute.Error{
		Kind: compute.KindUnavailable, Field: "id", Value: string(at.id),
		Message: fmt.Sprintf("its record is of a later schema than %d, the newest that this node reads", wire.Schema),
		Remedy:  "ask a node of the later version, or upgrade this one",
	}
}

// unreadable is how many there are.
func (v *instances) unreadable() int {
	v.mu.RLock()
	defer v.mu.RUnlock()
	return len(v.later)
}

// trouble is what this node cannot do though it is ready.
func (s *Server) trouble() (lines []string) {
	if n := s.views.instances.unreadable(); n > 0 {
		lines = append(lines,
			fmt.Sprintf(
				"the records of %d instances are of a later schema than %d, the newest that this node reads: "+
					"upgrade it",
				n, wire.Schema,
			))
	}
	return lines
}
