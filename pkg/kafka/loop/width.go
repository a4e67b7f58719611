// SPDX-License-Identifier: Apache-2.0

package loop

import (
	"time"

	"github.com/berth-project/berth/pkg/compute"
	"github.com/berth-project/berth/pkg/kafka"
)

// width is how many inputs a turn takes. A turn that changes more of a partition than a batch holds is undone, and the
// partition restored. A handler that has just restored one may put inputs off: a conductor believes no host for up to
// compute.SilentAfter that a machine is not there, and then asks all hosts at one moment. So the same inputs come at once
// again, and were the turns wide again by then, they would be undone for ever.
type width struct {
	most     int       // inputs of the next turn
	limit    int       // the most of any
	surely   int       // so many fit into a batch whatever they change: narrower is no turn for long
	took     int       // inputs of the last turn
	narrowed time.Time // when a turn was too large last
}

// narrowFor is for how long turns stay as narrow as that they fit: longer than inputs are put off.
const narrowFor = 2 * compute.SilentAfter

func newWidth(limit, bytes int) width {
	return width{most: limit, limit: limit, surely: max(1, bytes/kafka.MaxRecordBytes)}
}

// tooLarge halves what the last turn took.
func (w *width) tooLarge(now time.Time) {
	w.most, w.narrowed = max(1, min(w.most, w.took)/2), now
}

// fitted lets the next turn take one more.
func (w *width) fitted(now time.Time) {
	if w.most < w.surely || now.Sub(w.narrowed) >= narrowFor {
		w.most = min(w.most+1, w.limit)
	}
}
