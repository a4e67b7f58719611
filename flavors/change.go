// SPDX-License-Identifier: Apache-2.0

package flavors

import (
	"context"
	"errors"
	"reflect"
	"time"

	"go.uber.org/zap"
	"golang.org/x/sync/errgroup"

	"github.com/berth-project/berth/flavors/catalog"
	"github.com/berth-project/berth/pkg/compute"
	"github.com/berth-project/berth/pkg/wire"
)

// headerChange carries the id of a change, by which its writer knows it again.
const headerChange = "berth-change"

// decision is one question to the catalog: what to write, or why not.
type decision func(*catalog.Catalog) (catalog.Change, error)

// pending is a change that was sent and not yet seen in the log.
type pending struct {
	id     string
	change catalog.Change
	base   *catalog.Catalog // what it was decided upon
	seen   chan verdict     // takes one
}

// verdict is what became of a change in its place in the log, between the
// catalog before it and the one after it.
type verdict struct {
	lost          bool
	before, after *catalog.Catalog
}

// judge looks at a change again that did not come right after what it was
// decided upon.
func (p *pending) judge(before, after *catalog.Catalog) verdict {
	v := verdict{before: before, after: after}
	if before == p.base {
		return v
	}
	was := before.Revert(p.change)
	// What was there already is the same change, which came late: a first try of the same caller.
	overwrote := !reflect.DeepEqual(was, p.base.Revert(p.change)) && !reflect.DeepEqual(was, after.Revert(p.change))
	v.lost = overwrote || len(after.Problems()) > len(before.Problems())
	return v
}

// change decides upon the newest catalog, writes the decision and returns once
// it is seen in the log and known to stand. With KindTimeout the change may have
// been written or not: asking for it again is safe. With KindUnavailable it was not.
func (s *Service) change(ctx context.Context, op string, how How, decide decision) (_ catalog.Change, err error) {
	defer func() { s.opts.Metrics.changed(op, how, err) }()
	ctx, cancel := context.WithTimeout(ctx, s.opts.Timeout)
	defer cancel()
	select {
	case <-s.turn:
		defer func() { s.turn <- struct{}{} }()
	case <-ctx.Done():
		return catalog.Change{}, compute.Unavailable(op, ctx.Err())
	}
	// It may have had its turn in the moment in which its time was over: then nothing is written.
	if due, ok := ctx.Deadline(); ok && !time.Now().Before(due) {
		return catalog.Change{}, compute.Unavailable(op, context.DeadlineExceeded)
	}
	if err := s.sync(ctx, how); err != nil {
		return catalog.Change{}, compute.Unavailable(op, err)
	}
	base := s.Catalog()
	ch, err := decide(base)
	if err != nil {
		return catalog.Change{}, named(op, err)
	}
	if how.DryRun || ch.Nothing() {
		return ch, nil
	}
	return ch, s.write(ctx, op, ch, base)
}

// sync has read all that a decision looks at.
func (s *Service) sync(ctx context.Context, how How) error {
	all, ctx := errgroup.WithContext(ctx)
	all.Go(func() error { return s.opts.View.Sync(ctx) })
	if how.counts && s.opts.Counted != nil {
		all.Go(func() error { return s.opts.Counted.Sync(ctx) })
	}
	return all.Wait()
}

// write sends a change and waits for it to come back.
func (s *Service) write(ctx context.Context, op string, ch catalog.Change, base *catalog.Catalog) error {
	p := &pending{id: s.opts.NewID(), change: ch, base: base, seen: make(chan verdict, 1)}
	s.expect(p)
	defer s.expect(nil)
	if err := s.opts.Log.Send(ctx, s.record(ch, p.id)); err != nil {
		return unsent(op, err)
	}
	select {
	case v := <-p.seen:
		if v.lost {
			return s.revert(ctx, op, ch, v)
		}
		return nil
	case <-ctx.Done():
		return &compute.Error{Op: op, Kind: compute.KindTimeout, Cause: ctx.Err(),
			Message: "was written, but did not come back in time",
			Remedy:  "look whether it is there, or ask for it again"}
	}
}

// unsent is what became of a change whose record was not acknowledged: it may be written all the same, unless it is
// known that no broker took it.
func unsent(op string, err error) error {
	var e *compute.Error
	refused := errors.As(err, &e) && (e.Kind == compute.KindInvalid || e.Kind == compute.KindForbidden)
	if refused || errors.Is(err, wire.ErrFull) || errors.Is(err, wire.ErrNoTopic) {
		return compute.Unavailable(op, err)
	}
	return &compute.Error{Op: op, Kind: compute.KindTimeout, Cause: err,
		Message: "it is not known whether it was written",
		Remedy:  "look whether it is there, or ask for it again"}
}

// revert undoes a change that lost against another one, unless somebody has
// changed the entry since.
func (s *Service) revert(ctx context.Context, op string, ch catalog.Change, v verdict) error {
	refusal := &compute.Error{Op: op, Kind: compute.KindConflict,
		Message: "somebody else changed the catalog at the same time",
		Remedy:  "look at what is there now, then try again"}
	if err := s.opts.View.Sync(ctx); err != nil {
		refusal.Cause = err
		return refusal
	}
	if !reflect.DeepEqual(s.Catalog().Revert(ch), v.after.Revert(ch)) {
		return refusal // the entry is no longer ours
	}
	s.opts.Logger.Warn("catalog change taken back: another one came first", zap.String("change", op))
	if err := s.opts.Log.Send(ctx, s.record(v.before.Revert(ch), "")); err != nil {
		refusal.Cause = err
	}
	return refusal
}

// expect says which change Apply shall watch for.
func (s *Service) expect(p *pending) {
	s.mu.Lock()
	s.pending = p
	s.mu.Unlock()
}

// record is what a change looks like in the log.
func (s *Service) record(ch catalog.Change, id string) wire.Record {
	var rec wire.Record
	switch {
	case ch.Flavor != nil:
		rec = wire.EncodeFlavor(*ch.Flavor)
	case ch.Capability != nil:
		rec = wire.EncodeCapability(*ch.Capability)
	case ch.Quota != nil:
		rec = wire.EncodeQuota(*ch.Quota)
	case ch.Group != nil:
		rec = wire.EncodeGroup(*ch.Group)
	case ch.RemoveFlavor != "":
		rec = wire.Tombstone(wire.KeyFlavor(ch.RemoveFlavor))
	case ch.RemoveCapability != "":
		rec = wire.Tombstone(wire.KeyCapability(ch.RemoveCapability))
	case ch.RemoveGroup != compute.GroupKey{}:
		rec = wire.Tombstone(wire.KeyGroup(ch.RemoveGroup.Project, ch.RemoveGroup.Name))
	default:
		rec = wire.Tombstone(wire.KeyQuota(ch.RemoveQuota))
	}
	if id != "" {
		rec.Headers = append(rec.Headers, wire.Header{Key: headerChange, Value: []byte(id)})
	}
	return rec.To(s.opts.Topics.Catalog(), 0)
}

// read is the change a record of the log stands for.
func read(rec wire.Record) (catalog.Change, error) {
	e, err := wire.DecodeCatalog(rec)
	switch {
	case err != nil:
		return catalog.Change{}, err
	case !e.Removed:
		return catalog.Change{Flavor: e.Flavor, Capability: e.Capability, Quota: e.Quota, Group: e.Group}, nil
	case e.GroupName != "":
		return catalog.Change{RemoveGroup: compute.GroupKey{Project: e.Project, Name: e.GroupName}}, nil
	}
	return catalog.Change{RemoveFlavor: e.FlavorName, RemoveCapability: e.Axis, RemoveQuota: e.Project}, nil
}

// named adds the operation to a refusal.
func named(op string, err error) error {
	var e *compute.Error
	if !errors.As(err, &e) {
		return &compute.Error{Op: op, Cause: err}
	}
	out := *e
	out.Op = op
	return &out
}
