// SPDX-License-Identifier: Apache-2.0

package qemu

import (
	"path/filepath"

	"github.com/berth-project/berth/compute-agent/hypervisor"
	"github.com/berth-project/berth/compute-agent/hypervisor/host"
	"github.com/berth-project/berth/pkg/compute"
)

// stray refuses processes that run in a folder of ours without a record: whose machines they are cannot be said, and
// without them there is no list. A machine that was destroyed since the processes were looked at has no process any
// more; one that was prepared since the folders were has its record.
func (d *Driver) stray(all []host.Process, listed []hypervisor.Machine) error {
	known := map[compute.InstanceID]bool{}
	for _, m := range listed {
		known[m.Instance] = true
	}
	for _, p := range all {
		id := compute.InstanceID(filepath.Base(filepath.Dir(p.Option("pidfile"))))
		if id.Check() != nil || known[id] {
			continue
		}
		if err := d.recorded(id, p); err != nil {
			return err
		}
	}
	return nil
}

// recorded is an error if a process lives and its machine has no record.
func (d *Driver) recorded(id compute.InstanceID, p host.Process) error {
	_, there, err := d.load(id)
	if err != nil || there {
		return err
	}
	now, alive, err := d.host.Inspect(p.PID)
	if err == nil && alive && now.Start == p.Start {
		err = hypervisor.Refuse("process %d runs in %s, where no %s is: put that back, or end the process",
			p.PID, d.dir(id), recordFile)
	}
	return err
}
