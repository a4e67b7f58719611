// SPDX-License-Identifier: Apache-2.0

package exec

import (
	"testing"

	"go.uber.org/goleak"

	"github.com/berth-project/berth/compute-agent/hypervisor/hypervisortest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestContract(t *testing.T) {
	hypervisortest.Run(t, func(t *testing.T) hypervisortest.Subject { return newBench(t).subject() })
}
