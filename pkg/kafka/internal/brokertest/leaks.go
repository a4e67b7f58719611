// SPDX-License-Identifier: Apache-2.0

package brokertest

import (
	"testing"

	"go.uber.org/goleak"

	"github.com/berth-project/berth/pkg/leaktest"
)

// LeavesNothing fails if goroutines stay that were not there before, which goleak.IgnoreCurrent has noted.
func LeavesNothing(t testing.TB, before goleak.Option) {
	t.Helper()
	const conn = "github.com/twmb/franz-go/pkg/kfake.(*clientConn)." // the broker's side, until it notices
	if err := leaktest.Find(
		before, goleak.IgnoreAnyFunction(conn+"read.func1"), goleak.IgnoreAnyFunction(conn+"read"),
		goleak.IgnoreAnyFunction(conn+"write"),
	); err != nil {
		t.Error(err)
	}
}
