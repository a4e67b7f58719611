// SPDX-License-Identifier: Apache-2.0

package agent

import "time"

// hearing is whether what is said to the host is read; a host that does not read it is deaf. Where the broker that
// leads its stream cannot be reached, others may be: the host would take work there and claim it, never hear the grant,
// and give it back, which counts as an attempt.
type hearing struct{ deaf bool }

// deafAfter is longer than an idle stream may seem unread, which is twice as long as a broker holds a fetch, and than
// a claim waits for its answer.
const deafAfter = 90 * time.Second

const deafWhy = "what is said to this host cannot be read: see that the topic of its stream is there, and that it " +
	"reaches the broker that leads that"

// changed says whether the host has become deaf, or hears again. heard is up to when all that was said was read; nil:
// nobody knows; zero: nothing was read yet.
func (h *hearing) changed(heard func() time.Time, now time.Time) bool {
	was := h.deaf
	h.deaf = false
	if heard != nil {
		at := heard()
		h.deaf = !at.IsZero() && now.Sub(at) >= deafAfter
	}
	return h.deaf != was
}
