// SPDX-License-Identifier: Apache-2.0

// Package cover finds the queue in which a set can be offered whole: as one build that one host takes (decision 0066).
// The conductor decides by it, and API nodes say by it what would be decided. It decides and does nothing else.
package cover

import (
	"cmp"
	"iter"
	"slices"

	"github.com/berth-project/berth/pkg/compute"
)

// MostText bounds the texts in one build of several instances, in bytes: Kafka takes records of 1 MiB, and this
// leaves room for what names have besides.
const MostText = 512 << 10

// OnePlace says whether the rule of a group has all members on one host, and nothing else.
func OnePlace(rule compute.Group) bool {
	return rule.Policy == compute.Affinity && rule.Over == "" && rule.Skew == 0
}

// Queue is the queue in which instances can be offered as one build, that is, of the open queues whose machine is as
// large as all of them together, and goes to no host that one of them may not have, the smallest. Empty: there is
// none, or they need not be on one host. rule is that of the group of the first; never says of a queue that it is too
// large for each host that is known, so that it is of no use.
func Queue(
	queues iter.Seq[compute.Queue], rule compute.Group, never func(compute.QueueName) bool, insts []*compute.Instance,
) compute.QueueName {
	if !together(rule, insts) {
		return ""
	}
	need := Sum(insts)
	best := compute.Queue{}
	for q := range queues {
		if covers(q, need) && (best.Name == "" || closer(q, best, need) < 0) && !never(q.Name) {
			best = q
		}
	}
	return best.Name
}

// Sum is what instances need together, of one host.
func Sum(insts []*compute.Instance) compute.Queue {
	sum := compute.Resources{}
	var required, forbidden []compute.Trait
	for _, inst := range insts {
		sum.Add(inst.Resources)
		required, forbidden = append(required, inst.Required...), append(forbidden, inst.Forbidden...)
	}
	slices.Sort(required)
	slices.Sort(forbidden)
	return compute.Queue{
		Resources: sum, Required: slices.Compact(required), Forbidden: slices.Compact(forbidden),
		Priority: insts[0].Boot.Priority(),
	}
}

// together says whether a group has all of these on one host, wherever that is, they are of one class, and a record has
// room for them.
func together(rule compute.Group, insts []*compute.Instance) bool {
	first, size := insts[0], 0
	if !OnePlace(rule) {
		return false
	}
	for _, inst := range insts {
		if inst.Boot.Host != "" || inst.Boot.Group() != rule.Name || inst.Boot.Priority() != first.Boot.Priority() {
			return false
		}
		size += textOf(&inst.Boot)
	}
	return size <= MostText
}

// textOf is how many bytes of a boot are of any length.
func textOf(b *compute.Boot) int {
	n := len(b.Name) + len(b.Image) + len(b.UserData) + len(b.Sealed)
	for k, value := range b.Metadata {
		n += len(k) + len(value)
	}
	for _, key := range b.SSHKeys {
		n += len(key)
	}
	for _, h := range b.Avoid {
		n += len(h)
	}
	return n
}

// covers says whether each host that has room for a machine of a queue may have all that is needed.
func covers(q, need compute.Queue) bool {
	return q.State == compute.QueueOpen && q.Priority == need.Priority && need.Resources.FitsIn(q.Resources) &&
		includes(q.Required, need.Required) && includes(q.Forbidden, need.Forbidden)
}

func includes(all, some []compute.Trait) bool {
	return !slices.ContainsFunc(some, func(t compute.Trait) bool { return !slices.Contains(all, t) })
}

// closer orders queues that cover a need: the one that asks less of hosts first, then the smaller one.
func closer(a, b, need compute.Queue) int {
	return cmp.Or(
		cmp.Compare(len(a.Required)+len(a.Forbidden), len(b.Required)+len(b.Forbidden)),
		cmp.Compare(unneeded(a, need), unneeded(b, need)), cmp.Compare(a.Name, b.Name),
	)
}

// unneeded is how much of a queue's machine is not needed, as a share of what is, of all classes together. A class of
// which nothing is needed counts as much as twice of another: it is mostly what is rare.
func unneeded(q, need compute.Queue) (share float64) {
	for _, class := range q.Resources.Classes() { // in order: sums of floats depend on it
		if n := need.Resources[class]; n > 0 {
			share += float64(q.Resources[class]-n) / float64(n)
		} else if q.Resources[class] > 0 {
			share += 2
		}
	}
	return share
}
