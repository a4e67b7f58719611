// SPDX-License-Identifier: Apache-2.0

package compute

import (
	"maps"
	"slices"
)

// Shared keeps one copy of what many instances have in common: names, and what
// a queue needs. The zero value is ready. It is not safe for concurrent use.
//
// It may forget at any time, which costs memory and nothing else; what it has
// handed out must never be changed.
type Shared struct {
	words  map[string]string
	queues map[QueueName]*Instance
	rules  map[PlacementRules]*PlacementRules
}

// mostShared bounds what is kept of names that only a few had.
const mostShared = 1 << 16

// Instance makes inst use what is shared wherever that is equal. Nobody else may
// use inst yet.
func (s *Shared) Instance(inst *Instance) {
	inst.Project = word(s, inst.Project)
	inst.Host, inst.Boot.Host = word(s, inst.Host), word(s, inst.Boot.Host)
	inst.Boot.Image, inst.Journal = word(s, inst.Boot.Image), word(s, inst.Journal)
	s.shareRules(inst)
	if inst.Queue == "" {
		return
	}
	like := s.queues[inst.Queue]
	if like == nil || !sameNeeds(like, inst) {
		s.learn(inst)
		return
	}
	inst.Queue, inst.Resources = like.Queue, like.Resources
	inst.Required, inst.Forbidden = like.Required, like.Forbidden
	inst.Boot.Flavor, inst.Boot.With = like.Boot.Flavor, like.Boot.With
}

// learn takes inst as what those of its queue are like from now on: what a queue
// needs changes with its flavor.
func (s *Shared) learn(inst *Instance) {
	if s.queues == nil || len(s.queues) >= mostShared {
		s.queues = map[QueueName]*Instance{}
	}
	s.queues[inst.Queue] = &Instance{
		Queue: inst.Queue, Resources: inst.Resources, Required: inst.Required, Forbidden: inst.Forbidden,
		Boot: Boot{Flavor: inst.Boot.Flavor, With: inst.Boot.With},
	}
}

// shareRules has all members of a group point to the same rules.
func (s *Shared) shareRules(inst *Instance) {
	if inst.Boot.Rules == nil || inst.Boot.Rules.Notice != nil { // no two have the same notice
		return
	}
	if like := s.rules[*inst.Boot.Rules]; like != nil {
		inst.Boot.Rules = like
		return
	}
	if s.rules == nil || len(s.rules) >= mostShared {
		s.rules = map[PlacementRules]*PlacementRules{}
	}
	s.rules[*inst.Boot.Rules] = inst.Boot.Rules
}

func sameNeeds(a, b *Instance) bool {
	return a.Boot.Flavor == b.Boot.Flavor && maps.Equal(a.Boot.With, b.Boot.With) &&
		maps.Equal(a.Resources, b.Resources) &&
		slices.Equal(a.Required, b.Required) && slices.Equal(a.Forbidden, b.Forbidden)
}

// word is the shared copy of a name.
func word[W ~string](s *Shared, w W) W {
	if w == "" {
		return ""
	}
	if have, ok := s.words[string(w)]; ok {
		return W(have)
	}
	if s.words == nil || len(s.words) >= mostShared {
		s.words = map[string]string{}
	}
	s.words[string(w)] = string(w)
	return w
}
