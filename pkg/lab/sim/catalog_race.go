// SPDX-License-Identifier: Apache-2.0

package sim

import "slices"

// racesForTheCatalog says whether the catalog was to be changed in another way, too, while
// somebody asked for a change: one of the two is told to look again.
func (r *Recording) racesForTheCatalog(a Ask) bool {
	return slices.ContainsFunc(r.Asks, func(b Ask) bool {
		switch b.Op {
		case LoadAddFlavor, LoadAddAxis, LoadDropFlavor, LoadDropAxis:
			same := b.Began.Equal(a.Began) && b.Answered.Equal(a.Answered)
			return !same && b.Began.Before(a.Answered) && (b.Answered.IsZero() || b.Answered.After(a.Began))
		}
		return false
	})
}
