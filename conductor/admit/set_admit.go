// SPDX-License-Identifier: Apache-2.0

package admit

import (
	"fmt"

	"github.com/berth-project/berth/conductor/quota"
	"github.com/berth-project/berth/pkg/compute"
)

// bootSet admits all boots of a set, or none. Repeated, it changes nothing.
func (s *step) bootSet(r compute.Request) {
	boots := r.Boots()
	known, others := 0, compute.InstanceID("") // of this set; of none or another
	for _, b := range boots {
		e := s.instances[b.Instance]
		switch {
		case e == nil:
		case e.inst.Project != r.Project:
			s.rejectOwner(b)
			return
		case e.inst.Boot.Set().Same(b.Boot.Set()):
			known++
		default:
			others = b.Instance
		}
	}
	if known > 0 {
		if known < len(boots) {
			s.reject(fmt.Sprintf("set %s is there already, and has other instances, or some are forgotten", r.Instance))
		}
		return // a repeat
	}
	insts, why, of := s.admitSet(r, boots)
	switch {
	case others != "":
		why, of = &compute.Reason{Code: compute.RequestDiffers, Detail: "there is an instance of this id already"}, others
	case s.sets[r.Instance] != nil: // whose first instance is forgotten
		why, of = &compute.Reason{Code: compute.RequestDiffers, Detail: "there is a set of this id already"}, r.Instance
	}
	whole := compute.QueueName("")
	if why == nil {
		whole = s.newWhole(insts)
	}
	for _, inst := range insts {
		switch {
		case why == nil:
			offerIn(inst, whole)
			s.enqueue(inst)
		case inst.ID == of:
			s.refused(inst, why)
		default:
			s.refused(inst, setFailed(of, why.String()))
		}
		if s.instances[inst.ID] == nil {
			s.create(inst)
		}
	}
}

// admitSet makes the records of a set; the reason it answers is why all are refused, and the id that of the boot it is
// about.
func (s *step) admitSet(r compute.Request, boots []compute.Request) (
	insts []*compute.Instance, why *compute.Reason, of compute.InstanceID,
) {
	s.beside = map[inValue]uint32{}
	defer func() { s.beside = nil }()
	all := quota.Asked{}
	for _, b := range boots {
		inst := &compute.Instance{
			ID: b.Instance, Project: r.Project, AcceptedAt: s.accepted(r), Trace: r.Trace,
		}
		if reason := s.admit(inst, *b.Boot); reason != nil && why == nil {
			why, of = reason, inst.ID
		}
		all.Add(inst.Boot.Priority(), inst.Resources)
		insts = append(insts, inst)
	}
	if why == nil {
		if why = s.withinQuota(r.Project, all); why != nil {
			of = r.Instance
		}
	}
	return insts, why, of
}

func setFailed(id compute.InstanceID, why string) *compute.Reason {
	return &compute.Reason{
		Code: compute.SetFailed, Detail: fmt.Sprintf("instance %s: %s", id, why),
	}
}
