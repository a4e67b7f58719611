package agent

import (
	"testing"

	"github.com/berth-project/berth/compute-agent/task"
	"github.com/berth-project/berth/pkg/compute"
	"github.com/berth-project/berth/pkg/wire"
)

// Work for an instance that is here already is over, being built, or somebody
// else's: another project's instance of the same id is another instance, and
// only this host cannot have it.
func TestWorkForWhatIsHere(t *testing.T) {
	running := task.Task{Instance: id(1), Project: "p", Attempt: 2, Answered: true, Stage: task.Running}
	preparing := task.Task{Instance: id(1), Project: "p", Attempt: 2, Stage: task.Preparing}
	for _, c := range []struct {
		here    task.Task
		project compute.Project
		attempt compute.Attempt
		want    wire.Ack
	}{
		{running, "p", 2, wire.AckAccept}, {running, "p", 1, wire.AckAccept}, {running, "p", 3, wire.AckRelease},
		{preparing, "p", 2, wire.AckRenew},
		{running, "q", 1, wire.AckRelease}, {running, "q", 2, wire.AckRelease}, {preparing, "q", 2, wire.AckRelease},
	} {
		if got, why := known(c.here, compute.Build{Instance: id(1), Project: c.project, Attempt: c.attempt}); got != c.want || why == "" {
			t.Errorf("attempt %d of %s, while %s of p's attempt 2: %v (%s), want %v", c.attempt, c.project, c.here.Stage, got, why, c.want)
		}
	}
}

// Work that is not its queue's would be given back for ever.
func TestWorkOfAnotherQueue(t *testing.T) {
	l := &loop{pull: pull{queues: map[compute.QueueName]compute.Queue{"q": {Name: "q", Resources: compute.Resources{compute.VCPU: 2}}}}}
	for _, c := range []struct {
		queue compute.QueueName
		vcpus int64
		ok    bool
	}{{"q", 2, true}, {"q", 1, true}, {"q", 3, false}, {"other", 1, false}} {
		err := l.checkPlace(compute.Build{Queue: c.queue, Resources: compute.Resources{compute.VCPU: c.vcpus}}, "q")
		if (err == nil) != c.ok || err != nil && compute.KindOf(err) != compute.KindInvalid {
			t.Errorf("%s, %d: %v", c.queue, c.vcpus, err)
		}
	}
}
