// SPDX-License-Identifier: Apache-2.0

package follow_test

import (
	"fmt"
	"os"
	"testing"

	"go.uber.org/goleak"

	"github.com/berth-project/berth/pkg/kafkatest"
)

func TestMain(m *testing.M) {
	code := kafkatest.Main(m)
	// sarama counts with go-metrics, whose one ticker can never be stopped.
	err := goleak.Find(goleak.IgnoreAnyFunction("github.com/rcrowley/go-metrics.(*meterArbiter).tick"))
	if code == 0 && err != nil {
		fmt.Fprintln(os.Stderr, err)
		code = 1
	}
	os.Exit(code)
}
