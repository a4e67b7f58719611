// SPDX-License-Identifier: Apache-2.0

package embedded

import (
	"fmt"
	"net"
	"strconv"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// Several brokers (Options.Brokers) are one state behind several listeners. What clients
// see is as on Kafka: only the leader of a partition takes and gives its records, only the
// coordinator of a group or a transactional id answers for it, and both may move. What
// brokers do among themselves does not happen, so here they are kinder than Kafka:
//
//   - no record is ever missing on a new leader, and no leader waits for replicas, unless Hold plays that;
//   - a broker learns at once that it leads a partition no more. One that does not know,
//     and takes records that are lost, does not exist;
//   - what a member of a share group holds stays with it when the leader of its queue
//     moves: Kafka forgets it, and hands the records out again at once. A share session is
//     of one broker, as on Kafka, and ends with its connection;
//   - a broker answers for a group as soon as it is its coordinator; Kafka's loads it first;
//   - the members of a group are known on its next coordinator, with the time they have left.
//
// And in one thing they are not: where a broker goes away, coordinators of all groups
// move, those too that were on another.

// Leader is the number of the broker that leads a partition; -1: there is no such partition.
func (b *Broker) Leader(topic string, partition int32) int32 {
	return b.cluster.LeaderFor(topic, partition)
}

// Lead makes a broker the leader of a partition, which then has a newer leader epoch.
func (b *Broker) Lead(topic string, partition, node int32) error {
	return b.cluster.MoveTopicPartition(topic, partition, node)
}

// Coordinator is the number of the broker that answers for a group or a transactional id.
func (b *Broker) Coordinator(key string) int32 { return b.cluster.CoordinatorFor(key) }

// MoveCoordinators gives groups and transactional ids other coordinators, some of them the
// same again.
func (b *Broker) MoveCoordinators() { b.cluster.RehashCoordinators() }

// Controller says whether a broker is the controller, which cannot go away: nothing else
// can be made the controller.
func (b *Broker) Controller(node int32) bool { return int(node) == len(b.ports)-1 }

// Leave has a broker go away: it listens no more, metadata does not name it, and all leaders
// and coordinators move, to any of the others. Connections that are open stay so; the
// client that made them ends them. Leaders that had no reason to move come back by Lead.
func (b *Broker) Leave(node int32) error {
	if b.Controller(node) {
		return fmt.Errorf("broker %d is the controller and has to stay: take another one away", node)
	}
	return b.cluster.RemoveNode(node)
}

// Return has a broker that went away come back, under its old number and port. All leaders
// move, as with Leave.
func (b *Broker) Return(node int32) error {
	_, _, err := b.cluster.AddNode(node, b.ports[node])
	return err
}

// Answer has requests of a kind answered by answer instead of by the broker, where it
// answers anything but nil, until Close; for tests and simulation. It is told which broker
// was asked. It must not block.
func (b *Broker) Answer(key kmsg.Key, answer func(node int32, req kmsg.Request) kmsg.Response) {
	b.cluster.ControlKey(int16(key), func(req kmsg.Request) (kmsg.Response, error, bool) {
		resp := answer(b.cluster.CurrentNode(), req)
		if resp == nil {
			return nil, nil, false
		}
		b.cluster.KeepControl()
		return resp, nil, true
	})
}

// Hold has requests of a kind wait before they are carried out, until Close, for tests and
// simulation: hold answers what waits, nil: nothing does. It is told which broker was asked, and
// must not block; what it answers must end when the client has no interest any more. What
// comes behind a request on its connection waits with it.
func (b *Broker) Hold(key kmsg.Key, hold func(node int32, req kmsg.Request) (wait func())) {
	b.cluster.ControlKey(int16(key), func(req kmsg.Request) (kmsg.Response, error, bool) {
		if wait := hold(b.cluster.CurrentNode(), req); wait != nil {
			b.cluster.SleepControl(wait)
		}
		return nil, nil, false
	})
}

// portsOf are where brokers listen.
func portsOf(addrs []string) (ports []int) {
	for _, a := range addrs {
		_, text, _ := net.SplitHostPort(a)
		port, _ := strconv.Atoi(text)
		ports = append(ports, port)
	}
	return ports
}
