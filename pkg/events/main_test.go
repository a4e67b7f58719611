// SPDX-License-Identifier: Apache-2.0

package events

import (
	"os"
	"testing"

	"github.com/berth-project/berth/pkg/leaktest"
)

func TestMain(m *testing.M) { os.Exit(leaktest.Main(m.Run)) }
