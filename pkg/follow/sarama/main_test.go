// SPDX-License-Identifier: Apache-2.0

package sarama_test

import (
	"testing"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) {
	// sarama counts with go-metrics, whose one ticker can never be stopped.
	goleak.VerifyTestMain(m, goleak.IgnoreAnyFunction("github.com/rcrowley/go-metrics.(*meterArbiter).tick"))
}
