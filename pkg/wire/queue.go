// SPDX-License-Identifier: Apache-2.0

package wire

import (
	"github.com/berth-project/berth/pkg/compute"
	pb "github.com/berth-project/berth/pkg/wire/berthv1"
)

// EncodeQueue makes the record of a queue in the queue list; its key is the
// queue's name.
func EncodeQueue(q compute.Queue) Record {
	return seal(KeyQueue(q.Name), &pb.Queue{
		Name:      text(q.Name),
		Flavor:    text(q.Flavor),
		Choices:   textMap(q.Choices),
		Resources: amounts(q.Resources),
		Required:  texts(q.Required),
		Forbidden: texts(q.Forbidden),
		State:     queueStates.out(q.State),
		Group:     text(q.Group),
		TopicId:   text(q.TopicID),
		Error:     message(q.Error),
		Priority:  priorities.out(q.Priority),
	}, "")
}

// DecodeQueue reads a queue of the queue list.
func DecodeQueue(rec Record) (compute.Queue, error) {
	return decode("queue", rec, &pb.Queue{}, queueFrom)
}

func queueFrom(r *reader, m *pb.Queue) compute.Queue {
	q := compute.Queue{
		Name:      compute.QueueName(m.GetName()),
		Flavor:    compute.FlavorName(m.GetFlavor()),
		Choices:   wordMap[compute.AxisName, compute.AxisValue](m.GetChoices()),
		Resources: resources(m.GetResources()),
		Required:  words[compute.Trait](m.GetRequired()),
		Forbidden: words[compute.Trait](m.GetForbidden()),
		State:     queueStates.in(r, "state", m.GetState()),
		Group:     m.GetGroup(),
		TopicID:   compute.TopicID(m.GetTopicId()),
		Error:     m.GetError(),
		Priority:  priorities.in(r, "priority", m.GetPriority()),
	}
	r.queue(q)
	r.key(KeyQueue(q.Name))
	return q
}
