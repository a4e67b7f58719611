package sim

import "github.com/berth-project/berth/pkg/compute"

// compare says where the log and the hosts differ when nothing is left to do:
// each machine is somebody's who is active, and the other way round.
func (w *play) compare() {
	now := w.rec.instances()
	found := map[compute.InstanceID]bool{}
	for _, h := range w.World.Hosts {
		for _, m := range w.hosts[h.ID].Machines() {
			i := now[m.Instance]
			switch {
			case !m.Launched: // prepared for an attempt that is being given back
			case i.State != compute.StateActive || i.Host != h.ID || i.Attempt != m.Attempt || i.Claim != m.Claim:
				w.rec.wrong("I2", m.Instance, "%s has attempt %d claim %s of %s, whose record is %s attempt %d on %q", h.ID, m.Attempt, m.Claim, i.Boot.Name, i.State, i.Attempt, i.Host)
			default:
				found[m.Instance] = true
			}
		}
	}
	for _, i := range now {
		if i.State == compute.StateActive && !found[i.ID] {
			w.rec.wrong("I1", i.ID, "%s is active on %s, which has no such machine", i.Boot.Name, i.Host)
		}
	}
}
