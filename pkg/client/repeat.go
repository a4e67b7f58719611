// SPDX-License-Identifier: Apache-2.0

package client

import (
	"context"
	"errors"
	"math/rand/v2"
	"net"
	"net/http"
	"strconv"
	"time"

	"github.com/berth-project/berth/pkg/compute"
)

// defaultRetryFor is how long a call may be repeated if Config does not say.
const defaultRetryFor = 10 * time.Second

// firstBackoff is how long to wait after a connection broke; then twice as long
// each time.
const firstBackoff = 200 * time.Millisecond

// attempt is how one try of a call ended.
type attempt struct {
	err   error
	again bool          // trying again may help
	after time.Duration // but not earlier
}

// repeat tries until it works, trying again cannot help, or the next try would
// be too late. Pauses are what the API asked for and up to half as much again,
// so that requests refused together do not come back together.
func repeat(ctx context.Context, patience time.Duration, try func() attempt) error {
	last := time.Now().Add(patience)
	var unsure error
	for pause := firstBackoff; ; pause *= 2 {
		a := try()
		wait := max(pause, a.after)
		wait += rand.N(wait/2 + 1) // #nosec G404 -- jitter
		if a.err != nil && a.again && !time.Now().Add(wait).After(last) && sleep(ctx, wait) {
			if compute.KindOf(a.err) == compute.KindTimeout {
				unsure = a.err
			}
			continue
		}
		if unsure != nil && compute.KindOf(a.err) == compute.KindUnavailable {
			return unsure // that the last try did nothing says nothing about those before
		}
		return a.err
	}
}

// asksToRepeat says whether an answer asks the caller to come again, and when.
func asksToRepeat(resp *http.Response) (after time.Duration, ok bool) {
	switch resp.StatusCode {
	case http.StatusTooManyRequests, http.StatusServiceUnavailable, http.StatusGatewayTimeout:
	default:
		return 0, false
	}
	seconds, err := strconv.Atoi(resp.Header.Get("Retry-After"))
	if err != nil || seconds < 0 || seconds > 3600 {
		return 0, false
	}
	return time.Duration(seconds) * time.Second, true
}

// brokeOff says that there was an API node, and that it went away before it
// answered.
func brokeOff(err error) bool {
	var op *net.OpError
	var slow net.Error
	return !errors.Is(err, context.Canceled) && !errors.Is(err, context.DeadlineExceeded) &&
		!(errors.As(err, &slow) && slow.Timeout()) && !(errors.As(err, &op) && op.Op == "dial")
}

// sleep waits unless ctx ends before; it says whether the time has passed.
func sleep(ctx context.Context, d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return true
	case <-ctx.Done():
		return false
	}
}
