// SPDX-License-Identifier: Apache-2.0

package qemu

import (
	"testing"

	"github.com/berth-project/berth/compute-agent/hypervisor/guesttest"
	"github.com/berth-project/berth/compute-agent/hypervisor/hypervisortest"
)

func TestContract(t *testing.T) {
	g := guesttest.Need(t)
	hypervisortest.Run(t, func(t *testing.T) hypervisortest.Subject { return newBench(t, g).subject() })
}
