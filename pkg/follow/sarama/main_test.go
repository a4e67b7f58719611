// SPDX-License-Identifier: Apache-2.0

package sarama_test

import (
	"os"
	"testing"

	"go.uber.org/goleak"

	"github.com/berth-project/berth/pkg/leaktest"
)

func TestMain(m *testing.M) {
	// sarama counts with go-metrics, whose one ticker can never be stopped.
	os.Exit(leaktest.Main(m.Run, goleak.IgnoreAnyFunction("github.com/rcrowley/go-metrics.(*meterArbiter).tick")))
}
