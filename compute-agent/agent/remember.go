package agent

import (
	"github.com/berth-project/berth/compute-agent/hypervisor"
	"github.com/berth-project/berth/compute-agent/journal"
	"github.com/berth-project/berth/compute-agent/offer"
	"github.com/berth-project/berth/compute-agent/task"
	"github.com/berth-project/berth/pkg/compute"
)

// stages and outcomes are the journal's names for the task's; Running is
// remembered as granted, because the hypervisor knows better.
func stageName(s task.Stage) journal.Stage {
	switch s {
	case task.Preparing:
		return journal.StageTaken
	case task.Claiming:
		return journal.StageClaimed
	case task.Launching, task.Running:
		return journal.StageGranted
	}
	return journal.StageEnding
}

func stageOf(s journal.Stage) task.Stage {
	switch s {
	case journal.StageTaken:
		return task.Preparing
	case journal.StageClaimed:
		return task.Claiming
	case journal.StageGranted:
		return task.Launching
	}
	return task.Ending
}

func outcomeName(o task.Outcome) journal.Outcome {
	return [...]journal.Outcome{journal.OutcomeQuiet, journal.OutcomeReturned, journal.OutcomeFailed, journal.OutcomeGone}[o]
}

func outcomeOf(o journal.Outcome) task.Outcome {
	switch o {
	case journal.OutcomeReturned:
		return task.EndReturned
	case journal.OutcomeFailed:
		return task.EndFailed
	case journal.OutcomeGone:
		return task.EndGone
	}
	return task.EndQuiet
}

// remember is what the journal keeps of a task.
func remember(t task.Task) journal.Entry {
	e := journal.Entry{
		Instance: t.Instance, Project: t.Project, Name: t.Name, Queue: t.Queue, Pinned: t.Pinned, Attempt: t.Attempt,
		Claim: t.Claim, Fence: t.Fence, Resources: t.Resources, Devices: t.Devices, Nodes: t.Nodes, Trace: t.Trace, Stage: stageName(t.Stage),
		Version: t.Version, Reboots: t.Reboots,
	}
	if t.Broken != nil {
		e.Broken = &journal.Failure{Class: t.Broken.Class, Message: t.Broken.Message}
	}
	if t.End != nil {
		e.End = &journal.End{How: outcomeName(t.End.How)}
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
		Claim: e.Claim, Fence: e.Fence, Resources: e.Resources, Place: compute.Place{Devices: e.Devices, Nodes: e.Nodes}, Trace: e.Trace, Stage: stageOf(e.Stage),
		Version: e.Version, Reboots: e.Reboots,
	}
	if e.Broken != nil {
		t.Broken = &task.Failure{Class: e.Broken.Class, Message: e.Broken.Message}
	}
	if t.Stage == task.Ending {
		t.End = &task.End{}
		if e.End != nil {
			t.End.How = outcomeOf(e.End.How)
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
			Resources: m.Resources, Place: m.Place, Launched: m.Launched, Waits: m.Waits, Power: m.Power, Stopped: stopped(m),
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
