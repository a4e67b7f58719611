// SPDX-License-Identifier: Apache-2.0

package exec

import (
	"os"
	"testing"

	"github.com/berth-project/berth/compute-agent/hypervisor/hypervisortest"
	"github.com/berth-project/berth/pkg/leaktest"
)

func TestMain(m *testing.M) { os.Exit(leaktest.Main(m.Run)) }

func TestContract(t *testing.T) {
	hypervisortest.Run(t, func(t *testing.T) hypervisortest.Subject { return newBench(t).subject() })
}
