// SPDX-License-Identifier: Apache-2.0

package agent

import (
	"slices"
	"time"
)

// Bounds of what a beacon says is lacking: whoever writes boots can name any key.
const (
	mostLacking = 4
	lackingFor  = time.Hour   // after the last work with that key
	lackingSure = time.Minute // likewise; after it another key takes the place
)

// lacking is why the user data of some work could not be opened here: once for each key, the one seen longest ago
// first.
type lacking []lack

type lack struct {
	why  string
	seen time.Time
}

// note remembers a reason, and says whether it is new.
func (l *lacking) note(why string, now time.Time) bool {
	l.drop(now)
	was := slices.IndexFunc(*l, func(x lack) bool { return x.why == why })
	switch {
	case was >= 0:
		*l = slices.Delete(*l, was, was+1)
	case len(*l) >= mostLacking && now.Sub((*l)[0].seen) < lackingSure:
		return false
	case len(*l) >= mostLacking:
		*l = slices.Delete(*l, 0, 1)
	}
	*l = append(*l, lack{why, now})
	return was < 0
}

// list is what is lacking now, in an order that does not change by what comes again.
func (l *lacking) list(now time.Time) (all []string) {
	l.drop(now)
	for _, x := range *l {
		all = append(all, x.why)
	}
	slices.Sort(all)
	return all
}

// drop forgets what was seen long ago.
func (l *lacking) drop(now time.Time) {
	*l = slices.DeleteFunc(*l, func(x lack) bool { return now.Sub(x.seen) >= lackingFor })
}
