// SPDX-License-Identifier: Apache-2.0

package fake

import (
	"context"
	"fmt"

	"github.com/berth-project/berth/compute-agent/hypervisor"
	"github.com/berth-project/berth/pkg/compute"
)

// consoleCap is how much of a console a fake machine keeps.
const consoleCap = 4 << 10

// print adds a line to the console and drops what is too old.
func (m *machine) print(format string, args ...any) {
	m.Printed += fmt.Sprintf(format, args...) + "\n"
	if over := len(m.Printed) - consoleCap; over > 0 {
		m.Printed, m.Dropped = m.Printed[over:], m.Dropped+int64(over)
	}
}

// Console reads what a machine has printed.
func (d *Driver) Console(ctx context.Context, id compute.InstanceID, offset int64, limit int) (hypervisor.Part, error) {
	var part hypervisor.Part
	err := d.do(ctx, Call{Method: "Console", Instance: id}, 0, func() error {
		m, ok := d.host.machines[id]
		if !ok {
			return hypervisor.Refuse("%s is not here", id)
		}
		part.End = m.Dropped + int64(len(m.Printed))
		if offset < 0 {
			offset += part.End
		}
		part.Offset = min(max(offset, m.Dropped), part.End)
		rest := m.Printed[part.Offset-m.Dropped:]
		part.Data = []byte(rest[:min(len(rest), max(limit, 0))])
		return nil
	})
	return part, err
}

// Print lets a machine print a line.
func (h *Host) Print(id compute.InstanceID, line string) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	m, ok := h.machines[id]
	if !ok {
		return fmt.Errorf("%s is not here", id)
	}
	m.print("%s", line)
	return h.put(m, "")
}
