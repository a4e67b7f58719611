// SPDX-License-Identifier: Apache-2.0

package bench

import (
	"os"
	"testing"

	"github.com/berth-project/berth/pkg/kafkatest"
	"github.com/berth-project/berth/pkg/leaktest"
)

func TestMain(m *testing.M) {
	os.Exit(leaktest.Main(func() int { return kafkatest.Main(m) }))
}
