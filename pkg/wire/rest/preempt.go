// SPDX-License-Identifier: Apache-2.0

package rest

import (
	"fmt"
	"time"

	"github.com/berth-project/berth/pkg/compute"
)

// Notice says that the place of a preemptible machine is taken for other work.
type Notice struct {
	At       time.Time         `json:"at" doc:"When it was given."`
	Until    time.Time         `json:"until" doc:"Up to when its guest may run; it is taken away before if it has stopped."`
	Host     compute.HostID    `json:"host" doc:"That asked for it."`
	Queue    compute.QueueName `json:"queue" doc:"Of the work that is to have its place."`
	Priority string            `json:"priority" enum:"normal,high" doc:"The class of that work."`
	Then     string            `json:"then" enum:"delete,requeue" doc:"What becomes of it."`
	Over     time.Time         `json:"over,omitzero" doc:"When the machine was gone, or was deleted or lost meanwhile; absent: it is not."`
	Taken    bool              `json:"taken,omitempty" doc:"Once it is over: it waited in its queue again because of it."`
}

// Compute is the same in the words of package compute, with the grace that is meant where none is given.
func (p Preemptible) Compute() (compute.Preemptible, error) {
	then, err := compute.ParseAfterwards(p.Then)
	if err != nil {
		return compute.Preemptible{}, err
	}
	out := compute.Preemptible{Then: then, Grace: compute.DefaultGrace}
	if p.Grace != nil {
		out.Grace = time.Duration(*p.Grace)
	}
	return out, nil
}

func fromPreemptible(p compute.Preemptible) *Preemptible {
	if p == (compute.Preemptible{}) {
		return nil
	}
	grace := Duration(p.Grace)
	return &Preemptible{Then: p.Then.String(), Grace: &grace}
}

// FromNotice shows a notice of an instance that ends so; nil stays nil.
func FromNotice(n *compute.Notice, then compute.Afterwards) *Notice {
	if n == nil {
		return nil
	}
	return &Notice{
		At: utc(n.At), Until: utc(n.Until), Host: n.Host, Queue: n.Queue, Priority: n.Class.String(),
		Then: then.String(), Over: utc(n.Over), Taken: n.Taken,
	}
}

// says is what the notice is for, in words.
func (n *Notice) says() string {
	return fmt.Sprintf("its place is taken for work of priority %s in queue %s; its guest may run until %s",
		n.Priority, n.Queue, n.Until.Format(time.RFC3339))
}
