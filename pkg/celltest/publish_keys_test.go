// SPDX-License-Identifier: Apache-2.0

package celltest

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/berth-project/berth/pkg/client"
	"github.com/berth-project/berth/pkg/compute"
	"github.com/berth-project/berth/pkg/hostkey"
	"github.com/berth-project/berth/pkg/kafkatest"
	"github.com/berth-project/berth/pkg/publish"
	"github.com/berth-project/berth/pkg/publishkey"
	"github.com/berth-project/berth/pkg/wire"
)

// heldToProjects is a cell whose conductors take signed requests alone, and the keys for it.
func heldToProjects(t *testing.T) (r *rig, keyOf func(publishkey.Projects) publishkey.Key) {
	r = newRig(t, kafkatest.Embedded(t), smallHosts(2)...)
	master := hostkey.NewMaster([32]byte{1})
	r.publishers = publishkey.NewVerifier(hostkey.TrustKeys, []hostkey.Master{master})
	keyOf = func(p publishkey.Projects) publishkey.Key { return publishkey.Derive(master, "test", p) }
	all := keyOf(publishkey.All)
	r.publishKey = &all
	return r, keyOf
}

// shownRefused waits until the API says that a conductor has refused the boot.
func (r *rig) shownRefused(c *client.Client, id compute.InstanceID) {
	r.t.Helper()
	r.poll("it is shown as refused", func() bool {
		_, err := c.Instance(r.t.Context(), id)
		var e *compute.Error
		return errors.As(err, &e) && e.Kind == compute.KindNotFound && strings.Contains(err.Error(), "a conductor refused")
	})
}

// TestAPINodesSignWhateverTheyWrite, so that a cell that takes nothing else works.
func TestAPINodesSignWhateverTheyWrite(t *testing.T) {
	t.Parallel()
	r, keyOf := heldToProjects(t)
	r.up()
	refused := r.topicLog(r.cell("").Topics().Rejected())
	c := r.as("p")
	r.offer(c, nil, []compute.Flavor{small("m1.small")})
	ids := r.boot(c, 3, compute.Boot{Flavor: "m1.small"})
	own := publish.NewID()
	for range 2 { // the second reads back
		_, err := c.Boot(t.Context(), own, compute.Boot{Flavor: "m1.small"})
		r.must(err)
	}
	ids = append(ids, own)
	r.await(ids, compute.StateActive)
	for n, op := range []compute.RequestOp{compute.OpStop, compute.OpStart, compute.OpReboot} {
		command := compute.CommandID(op.String())
		_, err := c.Power(t.Context(), ids[0], op, command, op != compute.OpStart)
		r.must(err)
		r.poll(op.String()+" is done", func() bool {
			i := r.seen.get(ids[0])
			return i.Command == nil && i.Answer != nil && i.Answer.Command == command
		})
		if n == 0 && r.seen.get(ids[0]).Power != compute.PowerStopped {
			t.Error("it was not stopped")
		}
	}
	r.delete(c, ids)
	r.empty()
	r.await(ids, compute.StateDeleted)
	signed := keyOf("p").Sign(wire.EncodeRequest(compute.Request{
		Op: compute.OpBoot, Project: "p", Instance: publish.NewID(), At: time.Now().UTC(),
		Boot: &compute.Boot{Flavor: "m1.small"},
	}).To(r.cell("").Topics().Requests(), wire.Partition("p", r.kafka.Partitions)))
	r.send(signed)
	q, err := wire.DecodeRequest(signed)
	r.must(err)
	r.await([]compute.InstanceID{q.Instance}, compute.StateActive)
	for _, rec := range refused.all() {
		x, err := wire.DecodeRejected(rec)
		t.Errorf("%s at %d is rejected: %s, %v", x.Topic, x.Offset, x.Reason.String(), err)
	}
}

// TestForgedRequestsHaveNoEffect, whatever they ask for; an API node shows a forged boot until it is refused, and no
// longer, also after its restart.
func TestForgedRequestsHaveNoEffect(t *testing.T) {
	t.Parallel()
	r, keyOf := heldToProjects(t)
	r.up()
	topics := r.cell("").Topics()
	refused := r.topicLog(topics.Rejected())
	c := r.as("p")
	r.offer(c, nil, []compute.Flavor{small("m1.small")})
	ids := r.boot(c, 1, compute.Boot{Flavor: "m1.small"})
	r.await(ids, compute.StateActive)
	before := r.seen.get(ids[0])
	var forged []compute.InstanceID
	written := map[compute.ReasonCode]int{}
	for code, sign := range map[compute.ReasonCode]func(wire.Record) wire.Record{
		compute.Unsigned:       func(rec wire.Record) wire.Record { return rec },
		compute.ForeignProject: keyOf("q").Sign,
		compute.Forged: func(rec wire.Record) wire.Record {
			rec.Headers = append(rec.Headers, keyOf("p").Sign(wire.Record{Topic: rec.Topic}).Headers...)
			return rec
		},
	} {
		boot := compute.Request{Op: compute.OpBoot, Instance: publish.NewID(), Boot: &compute.Boot{Flavor: "m1.small"}}
		forged = append(forged, boot.Instance)
		for _, q := range []compute.Request{
			boot, {Op: compute.OpDelete}, {Op: compute.OpStop, Command: "s", Hard: true},
			{Op: compute.OpReboot, Command: "r", Hard: true},
			{Op: compute.OpForget, Host: before.Host}, {Op: compute.OpFence, Host: before.Host},
		} {
			if q.At = time.Now().UTC(); !q.Op.OfHost() {
				q.Project = "p"
				if q.Instance == "" {
					q.Instance = ids[0]
				}
			}
			r.send(sign(wire.EncodeRequest(q).To(topics.Requests(), wire.Partition("p", r.kafka.Partitions))))
			written[code]++
		}
	}
	// A conductor that was held up rejects again what it has not committed.
	type rejections map[place]compute.ReasonCode
	note := func(all rejections, x compute.Rejected) {
		all[place{x.Topic, x.Partition, x.Offset}] = x.Reason.Code
	}
	count := func(all rejections) map[compute.ReasonCode]int {
		n := map[compute.ReasonCode]int{}
		for _, code := range all {
			n[code]++
		}
		return n
	}
	r.poll("all is rejected", func() bool {
		all := rejections{}
		for _, rec := range refused.all() {
			x, err := wire.DecodeRejected(rec)
			r.must(err)
			note(all, x)
		}
		return cmp.Equal(written, count(all))
	})
	got := rejections{}
	r.able("read what was rejected", func() error {
		lately := time.Now().Add(-time.Hour)
		return r.cell("").ReadRejected(t.Context(), lately, false, func(x compute.Rejected, err error) error {
			note(got, x)
			return err
		})
	})
	if diff := cmp.Diff(written, count(got)); diff != "" {
		t.Error("as berth rejected reads it:", diff)
	}
	if now := r.seen.get(ids[0]); now.Version != before.Version {
		t.Errorf("it was %+v and is %+v", before, now)
	}
	for _, id := range forged {
		r.shownRefused(c, id)
	}
	r.stop("api")
	r.startAPI()
	for _, id := range forged {
		if _, err := r.as("p").Instance(t.Context(), id); compute.KindOf(err) != compute.KindNotFound {
			t.Errorf("after a restart %s is shown: %v", id, err)
		}
	}
}

// TestAnAPINodeWithoutAKeySaysWhatBecameOfABoot, where conductors demand one: no conductor will ever write an instance
// for it. Once the node has a key, the same request is taken.
func TestAnAPINodeWithoutAKeySaysWhatBecameOfABoot(t *testing.T) {
	t.Parallel()
	r, _ := heldToProjects(t)
	key := r.publishKey
	r.publishKey = nil
	r.up()
	c := r.as("p")
	r.offer(c, nil, []compute.Flavor{small("m1.small")})
	id := publish.NewID()
	boot := func(c *client.Client) {
		t.Helper()
		_, err := c.Boot(t.Context(), id, compute.Boot{Flavor: "m1.small"})
		r.must(err)
	}
	boot(c)
	r.shownRefused(c, id)
	if _, err := c.Instance(t.Context(), id); !strings.Contains(err.Error(), "not signed") {
		t.Errorf("it does not say why: %v", err)
	}
	boot(c) // it is asked for again, and refused again
	r.shownRefused(c, id)
	r.stop("api")
	r.publishKey = key
	r.startAPI()
	boot(r.as("p"))
	r.await([]compute.InstanceID{id}, compute.StateActive)
}
