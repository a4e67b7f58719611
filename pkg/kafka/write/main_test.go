// SPDX-License-Identifier: Apache-2.0

package write

import (
	"os"
	"testing"

	"github.com/berth-project/berth/pkg/kafkatest"
)

func TestMain(m *testing.M) { os.Exit(kafkatest.Main(m)) }
