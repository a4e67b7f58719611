// SPDX-License-Identifier: Apache-2.0

package agent

import (
	"github.com/berth-project/berth/compute-agent/hypervisor"
	"github.com/berth-project/berth/compute-agent/journal"
	"github.com/berth-project/berth/compute-agent/offer"
	"github.com/berth-project/berth/compute-agent/task"
	"github.com/berth-project/berth/pkg/compute"
)

// pairs say which word of the journal stands for which of a task, in both directions. Where two
// words of one side have the same on the other, the first pair counts; a word that is in no pair
// is taken for the last pair's.
type pairs[T, J comparable] []struct {
	task    T
	journal J
}

func (p pairs[T, J]) toJournal(word T) J {
	for _, x := range p {
		if x.task == word {
			return x.journal
		}
	}
	return p[len(p)-1].journal
}

func (p pairs[T, J]) toTask(word J) T {
	for _, x := range p {
		if x.journal == word {
			return x.task
		}
	}
	return p[len(p)-1].task
}

// stages: that a machine runs is remembered as granted, because the hypervisor knows better.
func stages() pairs[task.Stage, journal.Stage] {
	return pairs[task.Stage, journal.Stage]{
		{task.Preparing, journal.StageTaken}, {task.Claiming, journal.StageClaimed},
		{task.Launching, journal.StageGranted}, {task.Running, journal.StageGranted},
		{task.Ending, journal.StageEnding},
	}
}

func outcomes() pairs[task.Outcome, journal.Outcome] {
	return pairs[task.Outcome, journal.Outcome]{
		{task.EndReturned, journal.OutcomeReturned}, {task.EndFailed, journal.OutcomeFailed},
		{task.EndGone, journal.OutcomeGone}, {task.EndQuiet, journal.OutcomeQuiet},
	}
}

// remember is what the journal keeps of a task.
func remember(t task.Task) journal.Entry {
	e := journal.Entry{
		Instance: t.Instance, Project: t.Project, Name: t.Name, Queue: t.Queue, Pinned: t.Pinned, Attempt: t.Attempt,
		Claim: t.Claim, Fence: t.Fence, Resources: t.Resources, Devices: t.Devices, Nodes: t.Nodes, Trace: t.Trace,
		Group: t.Group, Hold: t.Hold, Stage: stages().toJournal(t.Stage), Version: t.Version, Reboots: t.Reboots,
		Preemptible: t.Preemptible, TimesTaken: t.TimesTaken, Wanted: t.Wanted, Waits: t.Waits,
	}
	if t.Stage <= task.Claiming {
		e.Lay, e.MadeRoom = t.Lay, t.MadeRoom
	}
	if e.Placeholder = t.Placeholder; t.In != (compute.InPlaceholder{}) {
		e.In = &t.In
	}
	if t.Broken != nil {
		e.Broken = &journal.Failure{Class: t.Broken.Class, Message: t.Broken.Message}
	}
	if t.End != nil {
		e.End = &journal.End{How: outcomes().toJournal(t.End.How)}
		if t.End.How == task.EndFailed {
			e.End.Failure = &journal.Failure{Class: t.End.Failure.Class, Message: t.End.Failure.Message}
		}
	}
	return e
}

// recall is the task of an entry.
func recall(e journal.Entry) task.Task {
	t := task.Task{
		Instance: e.Instance, Project: e.Project, Name: e.Name, Queue: e.Queue, Pinned: e.Pinned, Attempt: e.Attempt,
		Claim: e.Claim, Fence: e.Fence, Resources: e.Resources, Place: compute.Place{Devices: e.Devices, Nodes: e.Nodes},
		Trace: e.Trace, Group: e.Group, Hold: e.Hold, Stage: stages().toTask(e.Stage), Version: e.Version, Reboots: e.Reboots,
		Preemptible: e.Preemptible, TimesTaken: e.TimesTaken, Wanted: e.Wanted, Waits: e.Waits,
		Lay: e.Lay, MadeRoom: e.MadeRoom,
	}
	if t.Placeholder = e.Placeholder; e.In != nil {
		t.In = *e.In
	}
	if e.Broken != nil {
		t.Broken = &task.Failure{Class: e.Broken.Class, Message: e.Broken.Message}
	}
	if t.Stage == task.Ending {
		t.End = &task.End{}
		if e.End != nil {
			t.End.How = outcomes().toTask(e.End.How)
			if f := e.End.Failure; f != nil {
				t.End.Failure = task.Failure{Class: f.Class, Message: f.Message}
			}
		}
	}
	return t
}

func machines(list []hypervisor.Machine) []task.Machine {
	out := make([]task.Machine, 0, len(list))
	for _, m := range list {
		out = append(out, task.Machine{
			Instance: m.Instance, Project: m.Project, Attempt: m.Attempt, Claim: m.Claim, Fence: m.Fence,
			Resources: m.Resources, Place: m.Place, Launched: m.Launched, Paused: m.Waits, Power: m.Power,
			Stopped: stopped(m), Placeholder: m.Placeholder,
		})
	}
	return out
}

// stopped is why a machine does not run.
func stopped(m hypervisor.Machine) task.Stopped {
	if !m.Launched || m.Power != compute.PowerStopped && m.Power != compute.PowerPaused {
		return task.Stopped{}
	}
	return task.Stopped{Why: m.Why, Detail: hypervisor.Brief(m.Detail)}
}

func guardOf(h journal.Host) offer.Guard {
	return offer.Guard{Fails: h.Fails, Quarantines: h.Quarantines, Until: h.Until, Reason: h.Reason}
}

func withGuard(h journal.Host, g offer.Guard) journal.Host {
	h.Fails, h.Quarantines, h.Until, h.Reason = g.Fails, g.Quarantines, g.Until, g.Reason
	return h
}
