// SPDX-License-Identifier: Apache-2.0

package sim

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/berth-project/berth/pkg/lab/sim/network"
	"github.com/berth-project/berth/pkg/lab/sim/schedule"
	"github.com/berth-project/berth/pkg/wire"
)

// deciding is the conductor that wrote last, and its life; nil: there is none.
func (w *play) deciding() (last *process, of *life) {
	for _, p := range w.order {
		l := p.current()
		if l == nil || !strings.HasPrefix(p.name, "conductor-") {
			continue
		}
		if of == nil || l.Wrote.Load() > of.Wrote.Load() {
			last, of = p, l
		}
	}
	return last, of
}

// expelAfter is how long a conductor is cut off before it is put out of its group.
const expelAfter = 300 * time.Millisecond

// depose cuts the conductor that decides from its coordinator, and puts it out of its
// group.
func (w *play) depose(f schedule.Fault) {
	p, l := w.deciding()
	before, err := w.metadata()
	b := w.broker.up()
	if l == nil || err != nil || b == nil {
		return
	}
	topics, dice := wire.Topics{Prefix: prefix}, w.dice(f)
	c := b.Coordinator(topics.ConductorGroup())
	w.lead(b, before, func(topic string, _, was int32) int {
		switch {
		case topic == topics.Requests():
			return int(c)
		case was == c:
			return w.except(dice, c)
		}
		return network.NoBroker
	})
	w.rec.AddNote(p.name, fmt.Sprintf("is cut from broker %d (%s)", c+1, f.Key))
	w.lasts(f.For, nil)
	w.after(f.For.Duration(), l.CutWay(f.Key, int(c)))
	w.after(expelAfter, func() {
		if err := w.expel(l.Link); err != nil {
			w.rec.AddNote(p.name, "stays in its group: "+err.Error())
			return
		}
		w.rec.AddNote(p.name, "is put out of its group")
		w.rec.CountFault(f)
	})
}

// expel puts a process out of the conductors' group.
func (w *play) expel(l *network.Link) error {
	id := l.Member.Load()
	if id == nil {
		return errors.New("it is in none")
	}
	req := kmsg.NewPtrLeaveGroupRequest()
	req.Group = wire.Topics{Prefix: prefix}.ConductorGroup()
	m := kmsg.NewLeaveGroupRequestMember()
	m.MemberID = *id
	req.Members = append(req.Members, m)
	resp, err := ask(w, func(ctx context.Context, cl *kgo.Client) (*kmsg.LeaveGroupResponse, error) {
		return req.RequestWith(ctx, cl)
	})
	if err == nil {
		err = kerr.ErrorForCode(resp.ErrorCode)
	}
	if err == nil && len(resp.Members) > 0 {
		err = kerr.ErrorForCode(resp.Members[0].ErrorCode)
	}
	return err
}

// parkAndKill cuts the conductor that decides from the leader of one partition of
// instances, which leads nothing else, and kills it.
func (w *play) parkAndKill(f schedule.Fault) {
	p, l := w.deciding()
	before, err := w.metadata()
	b := w.broker.up()
	if l == nil || err != nil || b == nil {
		return
	}
	topics, dice := wire.Topics{Prefix: prefix}, w.dice(f)
	n := int32(w.except(dice, b.Coordinator(topics.ConductorGroup())))
	part := wire.Partition(schedule.ParkedOf, w.World.Partitions)
	w.lead(b, before, func(topic string, p, was int32) int {
		switch {
		case topic == topics.Instances() && p == part:
			return int(n)
		case was == n:
			return w.except(dice, n)
		}
		return network.NoBroker
	})
	w.rec.AddNote(
		p.name,
		fmt.Sprintf("is cut from broker %d (%s), which leads partition %d of instances", n+1, f.Key, part),
	)
	w.rec.CountFault(f)
	w.lasts(f.For, nil)
	w.after(f.For.Duration(), l.CutWay(f.Key, int(n)))
	w.after(f.By.Duration(), func() {
		w.rec.AddNote(p.name, "is killed")
		p.down(l, "", time.Second, "is started")
	})
}
