// SPDX-License-Identifier: Apache-2.0

package pace

import (
	"context"
	"time"

	"github.com/berth-project/berth/pkg/service"
)

const (
	// AskTimeout is how long one question for the leaders may take. A frozen broker never answers, the next one asked
	// may.
	AskTimeout = 3 * time.Second
	MostWait   = 2 * time.Second // between tries of what cannot be done yet
	// Patience is how long a broker may overstay a fetch before somebody else is
	// asked whether it still leads. A frozen broker's connections stay open.
	Patience = time.Second
)

// LogAfter failures in a row an operator hears of it: a leader change makes a few.
const LogAfter = 8

// Overdue is how long a request may be late before the leader is asked for the n-th time, from 0: brokers that have
// too much to do are not helped by questions.
func Overdue(n int) time.Duration {
	if n == 0 {
		return Patience
	}
	return service.Jitter(Patience << min(n, 3))
}

// Backoff is how long a client waits after so many failures in a row:
// 50 ms, doubled up to 1 s, so that a leader change is followed quickly and a
// dead cluster is not hammered; a part of it, so that a thousand hosts do not
// come back together.
func Backoff(fails int) time.Duration {
	const least, most = 50 * time.Millisecond, time.Second
	return service.Jitter(min(least<<min(max(fails-1, 0), 10), most))
}

// Telling says whether the n-th failure in a row is worth a line: the first, the
// second, the fourth, and so on.
func Telling(n int) bool { return n&(n-1) == 0 }

// Sleep waits, and answers why it did not wait for as long.
func Sleep(ctx context.Context, d time.Duration) error {
	if !service.Sleep(ctx, d) {
		return ctx.Err()
	}
	return nil
}
