// SPDX-License-Identifier: Apache-2.0

package conductor

import (
	"errors"
	"time"

	"github.com/berth-project/berth/conductor/admit"
	"github.com/berth-project/berth/pkg/compute"
	"github.com/berth-project/berth/pkg/wire"
)

// publishTag is the tag of an effect whose fate the core wants to hear.
type publishTag struct {
	partition int32
	instance  compute.InstanceID
	attempt   compute.Attempt
	at        time.Time
	told      bool // to one host
}

// commandTag is the tag of a command of which the core wants to hear where it landed.
type commandTag struct {
	partition int32
	host      compute.HostID
}

// add encodes what a partition decided.
func (t *turn) add(p int32, out admit.Output) *compute.Reason {
	t.of(p).add(p, out)
	for _, inst := range out.Changed {
		rec := wire.EncodeInstance(*inst).WrittenUpTo(t.writes)
		t.result.Changes = append(t.result.Changes, rec.To(t.cfg.Topics.Instances(), p))
	}
	for _, inst := range out.Removed {
		rec := wire.Tombstone(wire.KeyInstance(inst.Project, inst.ID))
		t.result.Changes = append(t.result.Changes, rec.To(t.cfg.Topics.Instances(), p))
	}
	for _, effect := range out.Effects {
		t.effect(p, effect)
	}
	return out.Rejected
}

func (t *turn) effect(p int32, effect admit.Effect) {
	switch effect := effect.(type) {
	case admit.Publish:
		rec := wire.EncodeBuild(effect.Build).WrittenUpTo(min(t.writes, t.inbox.allRead()))
		rec = rec.To(t.cfg.Topics.Build(effect.Queue), 0)
		t.send(wire.Effect{Partition: p, Record: rec, Tag: tag(p, effect.Build)})
	case admit.Tell:
		rec := wire.EncodeCommand(effect.Command).WrittenUpTo(min(t.writes, t.inbox.reads(effect.Host)))
		e := wire.Effect{Partition: p, Record: rec.To(t.cfg.Topics.Host(effect.Host), 0)}
		// A new owner might grant what its host has undone by then; but of a fence it must read again.
		e.Final = effect.Command.Op == compute.CommandDeny && !effect.WantOffset
		switch {
		case effect.Command.Build != nil:
			told := tag(p, *effect.Command.Build)
			told.told = true
			e.Tag = told
		case effect.WantOffset:
			e.Tag = commandTag{p, effect.Host}
		}
		t.send(e)
	case admit.AskStart:
		// A queue that is not listed has no share state to ask for.
		if q, listed := t.view.Queues[effect.Queue]; listed {
			t.starts.want(q)
		}
	}
}

func (t *turn) send(e wire.Effect) { t.result.Effects = append(t.result.Effects, e) }

func tag(p int32, b compute.Build) publishTag {
	return publishTag{partition: p, instance: b.Instance, attempt: b.Attempt, at: b.At}
}

// published passes on what became of a publication, unless its partition was
// lost in the meantime.
func (t *turn) published(sent wire.Sent) {
	if to, ok := sent.Tag.(commandTag); ok {
		switch {
		case t.states[to.partition] == nil:
		case sent.Err != nil:
			t.step(to.partition, admit.CommandUndelivered{Host: to.host})
		default:
			t.step(to.partition, admit.CommandWritten{Host: to.host, Offset: sent.Offset})
		}
		return
	}
	pub, ok := sent.Tag.(publishTag)
	if !ok || t.states[pub.partition] == nil {
		return
	}
	in := admit.Published{Instance: pub.instance, Attempt: pub.attempt, At: pub.at, Offset: sent.Offset, Told: pub.told}
	switch {
	case errors.Is(sent.Err, wire.ErrNoTopic):
		in.Outcome = admit.TopicGone
	case sent.Err != nil:
		in.Outcome = admit.Undelivered
	}
	t.step(pub.partition, in)
}
