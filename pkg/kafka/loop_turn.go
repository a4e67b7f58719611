package kafka

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"go.uber.org/zap"

	"github.com/berth-project/berth/pkg/compute"
	"github.com/berth-project/berth/pkg/wire"
)

var errGenerationLost = errors.New("the group went on without this process")

// pressed says that too many effects wait to be acknowledged to make more.
func (r *loopRun) pressed() bool { return r.outbox.unsent > r.loop.opts.MaxUnsent }

func (r *loopRun) turnDue(now time.Time) bool {
	if r.suspended || r.silent(now) || !r.anyReady() {
		return false
	}
	if len(r.outbox.sent) > 0 || r.woken {
		return true
	}
	return r.inputsDue(now)
}

// inputsDue says that inputs should be taken, for themselves or for the timers
// that wait behind them.
func (r *loopRun) inputsDue(now time.Time) bool {
	return !r.pressed() && (r.inputs.dueBy(now) || len(r.timers.reached()) > 0)
}

func (r *loopRun) anyReady() bool {
	for _, o := range r.owned {
		if o.ready {
			return true
		}
	}
	return false
}

// turn lets the handler decide on everything there is, and writes what it does.
func (r *loopRun) turn() error {
	select {
	case n := <-r.group.news:
		return r.hear(n) // a partition that is lost goes before anything is decided
	default:
	}
	in := wire.Turn{Now: time.Now(), Sent: r.outbox.takeSent()}
	var touched map[int32]bool
	r.woken = false
	if r.inputsDue(in.Now) {
		in.Records, touched = r.inputs.take(r.most)
		in.TimersUntil = r.timers.reached()
		r.timers.fired(in.TimersUntil)
	}
	before := r.fails
	err := r.finish(r.loop.handler.Turn(in), touched, nil)
	if r.fails == before {
		r.fails, r.most = 0, min(r.most+1, r.loop.opts.TurnRecords)
		r.loop.cfg.Metrics.turned(in.Now, len(in.Records))
	}
	return err
}

// finish writes what the handler decided: rejects, then changes and positions
// at once, then effects. No effect leaves before something was acknowledged in
// its partition that was written after it was decided: the leader would have
// refused it, had another process taken the partition over. of is the records of
// the log that effects without changes follow from.
func (r *loopRun) finish(res wire.Result, touched map[int32]bool, of map[int32]span) error {
	r.timers.wake = res.Wake
	r.soil(slices.Collect(maps.Keys(touched)))
	if err := r.reject(res.Rejects); err != nil {
		return r.undo(err)
	}
	if len(res.Changes) > 0 || len(res.Effects) > 0 {
		changed, err := r.write(res, len(touched) == 0 || r.most == 1)
		if errors.Is(err, errTurnTooLarge) {
			r.most = max(1, r.most/2)
		}
		if err != nil {
			return r.undo(err)
		}
		of = joined(of, changed)
	}
	if res.Committed != nil {
		res.Committed()
	}
	r.soil(r.outbox.publish(res.Effects, of))
	return nil
}

// rejectsAtOnce keeps what waits for the brokers small, however much is rejected.
const rejectsAtOnce = 1000

// reject writes what could not be taken; only then it may be passed over.
func (r *loopRun) reject(rejects []wire.Record) error {
	if len(rejects) == 0 {
		return nil
	}
	for i, rec := range rejects {
		if rec.Topic == "" {
			rejects[i].Topic = r.loop.cfg.Topics.Rejected()
		}
	}
	for some := range slices.Chunk(rejects, rejectsAtOnce) {
		if err := r.outbox.producer.Send(r.hard, some...); err != nil {
			return err
		}
	}
	return nil
}

// write writes changes, those of each partition together with its position, and
// answers where. What is more than a batch holds is refused, unless it may be
// written piecemeal: it follows from no input, or from a single one that is no
// smaller than it is. The position comes with the last piece then; whoever finds
// only some goes on from there, as after a turn of its own that came to less.
func (r *loopRun) write(res wire.Result, piecemeal bool) (map[int32]span, error) {
	began := time.Now()
	entries, err := r.entries(res)
	if err != nil {
		return nil, err
	}
	if r.group.lost.Load() {
		return nil, errGenerationLost
	}
	ctx, cancel := context.WithTimeout(r.hard, r.loop.opts.TurnTimeout)
	defer cancel()
	changed := map[int32]span{}
	for len(entries) > 0 {
		var rest map[int32]*entry
		if piecemeal {
			rest = cut(entries, r.scribe.most)
		}
		if err := r.scribe.write(ctx, entries); err != nil {
			return nil, err
		}
		for p, e := range entries {
			r.owned[p].pen = e.pen.after(len(e.records))
			if rest[p] != nil {
				rest[p].pen = r.owned[p].pen
			}
			if e.proof {
				continue
			}
			wrote := span{e.offset, e.offset + int64(len(e.records))}
			if before, ok := changed[p]; ok {
				wrote.first = before.first
			}
			changed[p] = wrote
		}
		entries = rest
	}
	r.loop.cfg.Metrics.committed(began)
	return changed, nil
}

// entries is what a result has written to each partition. One that has effects
// and no changes gets a proof: the effects are its conductor's to publish only if
// the leader takes it.
func (r *loopRun) entries(res wire.Result) (map[int32]*entry, error) {
	entries := map[int32]*entry{}
	of := func(p int32, what string) (*entry, error) {
		o := r.owned[p]
		if o == nil || !o.ready {
			return nil, &compute.Error{Op: "write " + what, Kind: compute.KindInternal,
				Message: fmt.Sprintf("the handler decided them for partition %d, which it does not have", p)}
		}
		if entries[p] == nil {
			entries[p] = &entry{pen: o.pen}
		}
		return entries[p], nil
	}
	for _, c := range res.Changes {
		e, err := of(c.Partition, "changes")
		if err != nil {
			return nil, err
		}
		e.records = append(e.records, c)
	}
	for p, e := range entries {
		r.position(p).carry(e.records)
	}
	for _, effect := range res.Effects {
		e, err := of(effect.Partition, "effects")
		if err != nil {
			return nil, err
		}
		if len(e.records) == 0 {
			e.proof, e.records = true, []wire.Record{wire.Takeover(r.scribe.name)}
		}
	}
	return entries, nil
}

// cut leaves in each entry as many records as surely fit into a batch of most
// bytes, one at least, and answers the rest.
func cut(entries map[int32]*entry, most int) map[int32]*entry {
	rest := map[int32]*entry{}
	for p, e := range entries {
		bytes := 0
		for i, rec := range e.records {
			if bytes += rec.Size(); bytes > most && i > 0 {
				rest[p] = &entry{records: e.records[i:]}
				e.records = e.records[:i]
				break
			}
		}
	}
	return rest
}

func (r *loopRun) position(p int32) position {
	return position{partition: p, at: r.inputs.at(p), cursor: r.outbox.cursor(p), reset: r.owned[p].reset}
}

// dirty is the positions that are not committed.
func (r *loopRun) dirty() (at []position, of []*ownedPartition) {
	for p, o := range r.owned {
		if o.ready && !o.dirty.IsZero() {
			at = append(at, r.position(p))
			of = append(of, o)
		}
	}
	return at, of
}

// clean says that what was dirty when a commit began is committed.
func (r *loopRun) clean(c committed) {
	for _, o := range c.of {
		o.committed = c.began
		if o.dirty = c.began; o.moved.Before(c.began) {
			o.dirty = time.Time{}
		}
	}
}

// commitDue is when positions should be committed to the group; zero
// if there are none. One that has not moved for long is, lest the group forgets it.
func (r *loopRun) commitDue(now time.Time) time.Time {
	var oldest time.Time
	for _, o := range r.owned {
		if o.ready && now.Sub(o.committed) >= r.loop.opts.IdleCommit {
			o.soil(now)
		}
		if o.ready && !o.dirty.IsZero() && (oldest.IsZero() || o.dirty.Before(oldest)) {
			oldest = o.dirty
		}
	}
	if oldest.IsZero() || r.trying {
		return time.Time{}
	}
	if oldest.Before(r.plain) {
		oldest = r.plain // it was tried since
	}
	return oldest.Add(r.loop.opts.CommitEvery)
}

// committed is how a commit of positions ended.
type committed struct {
	of    []*ownedPartition
	began time.Time
	err   error
}

// commitPositions commits positions to the group and waits for the answer. A
// failure is no harm: why will be heard from the group, and the log says what
// was decided.
func (r *loopRun) commitPositions() {
	if r.trying { // what was sent before must not arrive after
		r.trying = false
		r.committed(<-r.tried)
	}
	began := time.Now()
	if at, of := r.dirty(); len(at) > 0 {
		r.committed(committed{of, began, r.commit(r.hard, r.fence, at)})
	}
}

// commitAside does so while turns go on.
func (r *loopRun) commitAside() {
	at, of := r.dirty()
	if len(at) == 0 || r.trying {
		return
	}
	began := time.Now()
	r.trying, r.plain = true, began
	f := r.fence
	r.gains.Go(func() {
		r.tried <- committed{of, began, r.commit(r.ctx, f, at)}
	})
}

func (r *loopRun) commit(ctx context.Context, f fence, at []position) error {
	ctx, cancel := context.WithTimeout(ctx, r.loop.cfg.RequestTimeout)
	defer cancel()
	return commitPositions(ctx, r.ask, r.loop.opts.Group, f, r.topics, at)
}

// committed hears how a commit of positions ended.
func (r *loopRun) committed(c committed) {
	if c.err == nil {
		r.clean(c)
	} else {
		r.log.Debug("positions were not committed", zap.Error(c.err))
	}
}

// collect hears how effects fared.
func (r *loopRun) collect() {
	r.soil(r.outbox.collect())
}

// soil says that positions or cursors have to be committed.
func (r *loopRun) soil(partitions []int32) {
	now := time.Now()
	for _, p := range partitions {
		r.owned[p].soil(now)
	}
}

// joined is both maps in one; where they meet, from the first to the last.
func joined(a, b map[int32]span) map[int32]span {
	for p, s := range a {
		if t, ok := b[p]; ok {
			s = span{min(s.first, t.first), max(s.behind, t.behind)}
		}
		b[p] = s
	}
	return b
}
