// SPDX-License-Identifier: Apache-2.0

package access

import (
	"fmt"
	"slices"
	"strings"

	"github.com/berth-project/berth/pkg/compute"
	"github.com/berth-project/berth/pkg/wire"
)

// Role is what a Kafka user does in a cell.
type Role string

// The roles.
const (
	API       Role = "api"       // an API node
	Queues    Role = "queues"    // a queue manager; it makes the cell's topics
	Conductor Role = "conductor" // a conductor
	Agent     Role = "agent"     // the agent of one host
	Publisher Role = "publisher" // a program that publishes requests without an API node
	Follower  Role = "follower"  // a program that follows the instances
	Operator  Role = "operator"  // a person with berth doctor, verify and acl check
)

// Roles are all of them.
func Roles() []Role { return []Role{API, Queues, Conductor, Agent, Publisher, Follower, Operator} }

// RoleNamed is the role with a name.
func RoleNamed(name string) (Role, error) {
	if r := Role(name); slices.Contains(Roles(), r) {
		return r, nil
	}
	var names []string
	for _, r := range Roles() {
		names = append(names, string(r))
	}
	return "", compute.Invalid("role", name, "give "+strings.Join(names, ", "))
}

// Kind is what sort of thing a right is about, in the words of kafka-acls.sh.
type Kind string

// The kinds.
const (
	Topic           Kind = "topic"
	Group           Kind = "group"
	TransactionalID Kind = "transactional-id"
	Cluster         Kind = "cluster"
)

// Operation is what may be done, in Kafka's words. Read, Write, Delete and Alter
// include Describe, AlterConfigs includes DescribeConfigs.
type Operation string

// The operations.
const (
	Read            Operation = "Read"
	Write           Operation = "Write"
	Create          Operation = "Create"
	Delete          Operation = "Delete"
	Describe        Operation = "Describe"
	DescribeConfigs Operation = "DescribeConfigs"
	AlterConfigs    Operation = "AlterConfigs"
)

// Right is what a role may do with one thing, or with all whose names begin so.
type Right struct {
	Kind       Kind        `json:"kind"`
	Name       string      `json:"name"`
	Prefixed   bool        `json:"prefixed"`
	Operations []Operation `json:"operations"`
	Why        string      `json:"why"`
}

// ClusterName is what Kafka calls the one thing of kind Cluster.
const ClusterName = "kafka-cluster"

// Rights are what a role needs in the cell with these topics, and no more. host is
// for Agent alone, which speaks for one.
func Rights(r Role, t wire.Topics, host compute.HostID) ([]Right, error) {
	if (r == Agent) != (host != "") {
		return nil, compute.Invalid("host", string(host), "give the host of an agent, and none for another role")
	}
	if host != "" {
		if err := host.Check(); err != nil {
			return nil, err
		}
	}
	w := words{t}
	switch r {
	case API:
		return w.api(), nil
	case Queues:
		return w.queues(), nil
	case Conductor:
		return w.conductor(), nil
	case Agent:
		return w.agent(host), nil
	case Publisher:
		return []Right{topic(t.Requests(), "boots, deletes and power commands", Write)}, nil
	case Follower:
		return []Right{topic(t.Instances(), "what becomes of instances", Read)}, nil
	case Operator:
		return w.operator(), nil
	}
	return nil, fmt.Errorf("role %q has no rights", r)
}

// words makes rights of a cell.
type words struct{ topics wire.Topics }

func topic(name, why string, ops ...Operation) Right { return Right{Topic, name, false, ops, why} }

func topics(prefix, why string, ops ...Operation) Right { return Right{Topic, prefix, true, ops, why} }

// own lets a daemon see that the cell is there, and how many partitions it has.
func (w words) own() (out []Right) {
	for _, name := range w.topics.Own() {
		out = append(out, topic(name, "the cell is there", Describe))
	}
	return out
}

func (w words) builds() string { return w.topics.Build("") }

func (w words) streams() string { return w.topics.Host("") }

func (w words) api() []Right {
	t := w.topics
	return join(w.own(),
		topic(t.Requests(), "requests of its clients, and those of other nodes", Read, Write),
		topic(t.Instances(), "answers", Read),
		topic(t.Catalog(), "flavors, capabilities and quotas", Read, Write),
		topic(t.Queues(), "the list of queues", Read),
		topic(t.Hosts(), "beacons; the tombstone of a host that is forgotten", Read, Write),
		topic(t.Advice(), "what the queue manager tells", Read),
		topic(t.Consoles(), "what hosts answer about consoles", Read),
		topic(t.Tokens(), "who may call", Read, Write),
		topic(t.Audit(), "who changed what, and what was refused", Read, Write),
		topic(t.Rejected(), "records that made no sense, for those whose they are", Read),
		topics(w.streams(), "commands of operators, questions about consoles", Write),
		Right{Group, t.ConductorGroup(), false, []Operation{Describe}, "up to where requests are decided"},
	)
}

func (w words) queues() []Right {
	t := w.topics
	return join(
		[]Right{topics(t.Prefix, "makes the cell's topics, those of queues and those of hosts", Create, Describe, DescribeConfigs)},
		topic(t.Catalog(), "what is offered", Read),
		topic(t.Instances(), "what waits in queues", Read),
		topic(t.Hosts(), "beacons", Read),
		topic(t.Queues(), "the list of queues", Read, Write),
		topic(t.Advice(), "what it tells", Read, Write),
		topic(t.Rejected(), "records that made no sense", Write),
		topics(w.builds(), "share state; removes finished records, and queues", Read, Delete),
		topics(w.streams(), "rings; removes the streams of hosts that are gone", Write, Delete),
		Right{Group, t.ManagerGroup(), false, []Operation{Read}, "elects the active queue manager"},
		Right{Group, w.topics.ShareGroups(), true, []Operation{Read, AlterConfigs}, "share state"},
	)
}

func (w words) conductor() []Right {
	t := w.topics
	return join(w.own(),
		topic(t.Requests(), "its input", Read),
		topic(t.Reports(), "its input", Read),
		topic(t.Instances(), "the records that it keeps", Read, Write),
		topic(t.Catalog(), "quotas", Read),
		topic(t.Queues(), "the list of queues", Read),
		topic(t.Hosts(), "beacons", Read),
		topic(t.Advice(), "what the queue manager tells", Read),
		topic(t.Rejected(), "records that made no sense", Write),
		topics(w.builds(), "work", Write),
		topics(w.streams(), "grants and commands", Write),
		Right{Group, t.ConductorGroup(), false, []Operation{Read}, "shares partitions; its position"},
		Right{Group, w.topics.ShareGroups(), true, []Operation{Describe}, "whether work was lost"},
		Right{TransactionalID, t.ConductorGroup() + ".", true, []Operation{Write}, "one writer of a partition"},
	)
}

func (w words) agent(host compute.HostID) []Right {
	t := w.topics
	return join(w.own(),
		topic(t.Host(host), "commands to its host", Read),
		topic(t.Queues(), "the list of queues", Read),
		topic(t.Advice(), "what the queue manager tells", Read),
		topic(t.Reports(), "claims and what became of them", Write),
		topic(t.Hosts(), "beacons", Write),
		topic(t.Consoles(), "answers about consoles", Write),
		topic(t.Rejected(), "records that made no sense", Write),
		topics(w.builds(), "work", Read),
		Right{Group, w.topics.ShareGroups(), true, []Operation{Read}, "takes work"},
	)
}

func (w words) operator() []Right {
	t := w.topics
	return []Right{
		topics(t.Prefix, "everything, to compare it", Read, DescribeConfigs),
		topic(t.Requests(), "has hosts asked what they have (verify --confirm)", Write),
		{Group, t.ConductorGroup(), false, []Operation{Describe}, "conductors and how far they are"},
		{Group, t.ManagerGroup(), false, []Operation{Describe}, "queue managers"},
		{Group, w.topics.ShareGroups(), true, []Operation{Describe, DescribeConfigs}, "share state"},
		{Cluster, ClusterName, false, []Operation{Describe, DescribeConfigs}, "brokers and their settings"},
	}
}

// join adds rights, and merges those about one thing.
func join(first []Right, more ...Right) []Right {
	out := slices.Clone(first)
	for _, r := range more {
		i := slices.IndexFunc(out, func(o Right) bool {
			return o.Kind == r.Kind && o.Name == r.Name && o.Prefixed == r.Prefixed
		})
		if i >= 0 {
			out[i] = r // what it adds includes Describe
			continue
		}
		out = append(out, r)
	}
	return out
}
