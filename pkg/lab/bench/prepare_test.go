// SPDX-License-Identifier: Apache-2.0

package bench

import (
	"context"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/berth-project/berth/pkg/compute"
)

func TestGettingReadyMayTakeLongAsLongAsItGoesOn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		start := time.Now()
		agents := func(most int) func(context.Context) (string, bool, error) {
			return func(context.Context) (string, bool, error) { // one more each minute
				n := min(int(time.Since(start).Minutes()), most)
				return fmt.Sprint(n), n == 60, nil
			}
		}
		if err := await(t.Context(), agents(60)); err != nil {
			t.Errorf("after %s: %v", time.Since(start), err)
		}
		start = time.Now()
		err := await(t.Context(), agents(10))
		if took := time.Since(start).Round(time.Minute); compute.KindOf(err) != compute.KindTimeout ||
			took != 10*time.Minute+readyTime {
			t.Errorf("after %s: %v; want to give up %s after the last news", took, err, readyTime)
		}
	})
}
