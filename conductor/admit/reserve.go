// SPDX-License-Identifier: Apache-2.0

package admit

import (
	"fmt"
	"time"

	"github.com/berth-project/berth/pkg/compute"
)

// reserve admits all placeholders of a reservation, or none. Repeated, it changes nothing.
func (s *step) reserve(r compute.Request) {
	v := *r.Reserve
	known, others := false, false
	for _, id := range v.Instances {
		switch e := s.instances[id]; {
		case e == nil:
		case e.inst.Project != r.Project:
			s.rejectOwner(r)
			return
		case e.inst.Boot.Placeholder().Of == v.Name:
			known = true
		default:
			others = true
		}
	}
	if known {
		return // a repeat
	}
	now := s.accepted(r)
	if v.From.Before(now) {
		v.From = now
	}
	r.Reserve = &v
	insts, why, _ := s.admitSet(r, r.Boots())
	switch {
	case others:
		why = &compute.Reason{Code: compute.RequestDiffers, Detail: "there is an instance of this id already"}
	case s.reservations[compute.ReservationKey{Project: r.Project, Name: v.Name}] != nil:
		why = &compute.Reason{Code: compute.RequestDiffers, Detail: fmt.Sprintf("there is a reservation %s already", v.Name)}
	case !v.Until.After(s.at()):
		why = &compute.Reason{Code: compute.ReservationEnded, Detail: fmt.Sprintf("reservation %s: its time is over", v.Name)}
	case why == nil:
		why = checkTimes(v, now)
	}
	for _, inst := range insts {
		if s.instances[inst.ID] != nil {
			continue
		}
		if why != nil {
			s.refused(inst, why)
		} else {
			s.enqueue(inst)
			s.untilFrom(inst, v)
		}
		s.create(inst)
	}
}

// untilFrom keeps a placeholder out of its queue until shortly before it may be taken, and lets it wait until it ends.
func (s *step) untilFrom(inst *compute.Instance, v compute.Reserve) {
	inst.Deadline = v.Until
	if due := v.From.Add(-s.opts.ReserveLead); due.After(s.at()) {
		inst.PublishAt = due
	}
}

// checkTimes refuses a reservation that begins too late or lasts too long.
func checkTimes(v compute.Reserve, now time.Time) *compute.Reason {
	switch long := v.Until.Sub(v.From); {
	case v.From.Sub(now) > compute.MaxReserveTime:
		return &compute.Reason{Code: compute.Malformed, Detail: fmt.Sprintf(
			"from %s is in more than %s: reserve it later", v.From.Format(time.RFC3339), compute.MaxReserveTime,
		)}
	case long > compute.MaxReserveTime:
		return &compute.Reason{Code: compute.Malformed, Detail: fmt.Sprintf(
			"it lasts %s: give %s at most", long, compute.MaxReserveTime,
		)}
	}
	return nil
}
