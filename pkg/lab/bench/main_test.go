// SPDX-License-Identifier: Apache-2.0

package bench

import (
	"os"
	"testing"

	"go.uber.org/goleak"

	"github.com/berth-project/berth/pkg/kafkatest"
)

func TestMain(m *testing.M) {
	code := kafkatest.Main(m)
	if err := goleak.Find(); code == 0 && err != nil {
		println(err.Error())
		code = 1
	}
	os.Exit(code)
}
