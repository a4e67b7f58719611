package kafka

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"go.uber.org/zap"

	"github.com/berth-project/berth/pkg/compute"
	"github.com/berth-project/berth/pkg/wire"
)

// loopRun is a loop at work, as one member of the group. One goroutine runs it
// and calls the handler; what waits for brokers has goroutines of its own, which
// answer over channels. Only a turn's own writes are waited for.
type loopRun struct {
	loop   *Loop
	log    *zap.Logger
	ctx    context.Context // of the goroutines; ends with the session
	hard   context.Context // of what must be finished; ends a while after the loop is told to stop
	ask    *kgo.Client
	topics [inputTopics]inputTopic

	group  *membership
	inputs *inputs
	timers *timers
	txn    *transactor
	outbox *outbox

	owned     map[int32]*ownedPartition
	found     chan gained
	gains     sync.WaitGroup
	fence     fence     // of the generation in which the partitions are owned
	suspended bool      // between two generations: nothing may be written
	woken     bool      // a turn is wanted
	fails     int       // turns undone in a row
	plain     time.Time // when positions were last committed outside of a transaction
}

// ownedPartition is a partition for as long as this process has it. Gained
// again, it is another one.
//
//	gain ─▶ (reading instances) ─▶ restored ─▶ ready ─▶ turns …
//	  ╰──────────────┴─────────────────┴─────────┴─▶ lost
type ownedPartition struct {
	id        int32
	gain      *gain
	behind    int64     // the offset behind the last record restored
	restored  *position // read from the log, and not begun
	ready     bool
	dirty     time.Time // since when its position or cursor is not committed; zero: it is
	committed time.Time // when it last was
}

// soil says that the position or the cursor has to be committed.
func (o *ownedPartition) soil(now time.Time) {
	if o.dirty.IsZero() {
		o.dirty = now
	}
}

// errOutcomeUnknown ends a session: only a new generation makes sure that what
// was sent without an answer cannot be written later.
var errOutcomeUnknown = errors.New("a commit of positions was not answered")

func newLoopRun(l *Loop, ask *kgo.Client, sources [inputTopics]*source, topics [inputTopics]inputTopic, out *outbox) *loopRun {
	in := newInputs(ask, sources, l.cfg.Log, l.opts.TurnRecords)
	return &loopRun{
		loop: l, log: l.cfg.Log.With(zap.String("group", l.opts.Group)), ask: ask, topics: topics,
		inputs: in, timers: newTimers(in, l.opts.TimerGap), outbox: out,
		txn:   &transactor{cfg: l.cfg, opts: l.opts, topics: topics},
		owned: map[int32]*ownedPartition{}, found: make(chan gained), suspended: true,
	}
}

// work runs turns until stop is closed.
func (r *loopRun) work(stop <-chan struct{}) error {
	alarm := time.NewTimer(0)
	defer alarm.Stop()
	now := make(chan struct{})
	close(now)
	for {
		if err := r.chores(); err != nil {
			return err
		}
		alarm.Reset(r.pause(time.Now()))
		var turn <-chan struct{}
		if r.turnDue() {
			turn = now
		}
		var err error
		select {
		case <-stop:
			return nil
		case n := <-r.group.news:
			err = r.hear(n)
		case err = <-r.group.broken:
		case g := <-r.found:
			err = r.take(g)
		case a := <-r.inputs.answers:
			err = r.inputs.receive(r.ctx, a)
		case l := <-r.inputs.leaders:
			err = r.inputs.follow(r.ctx, l)
		case a := <-r.timers.heard:
			r.timers.hear(a, r.owned)
		case <-r.outbox.news:
			r.collect()
		case <-r.loop.wake:
			r.woken = true
		case <-alarm.C:
		case <-turn:
			err = r.turn()
		}
		if err != nil {
			return err
		}
	}
}

// chores does what has become due.
func (r *loopRun) chores() error {
	if r.suspended {
		return nil
	}
	for _, o := range r.owned {
		if o.restored == nil {
			continue
		}
		if err := r.begin(o); err != nil {
			return err
		}
		if r.suspended || r.owned[o.id] != o {
			return nil // undone: everything is gained again
		}
	}
	r.tellReady()
	now := time.Now()
	if due := r.timers.due(); !due.IsZero() && !now.Before(due) {
		r.timers.ask(r.ctx, now, r.owned)
	}
	if due := r.commitDue(now); !due.IsZero() && !now.Before(due) {
		if err := r.commitPositions(); err != nil {
			return err
		}
	}
	r.inputs.dispatch(r.ctx)
	return nil
}

// mostPause is how long the loop sleeps at most.
const mostPause = time.Minute

// pause is how long nothing will become due.
func (r *loopRun) pause(now time.Time) time.Duration {
	d := mostPause
	if r.suspended {
		return d
	}
	for _, due := range []time.Time{r.timers.due(), r.commitDue(now)} {
		if !due.IsZero() {
			d = min(d, max(due.Sub(now), 0))
		}
	}
	return d
}

// tellReady says that all partitions there are take part in turns.
func (r *loopRun) tellReady() {
	for _, o := range r.owned {
		if !o.ready {
			return
		}
	}
	r.loop.once.Do(func() { close(r.loop.ready) })
}

// pressed says that too many effects wait to be acknowledged to make more.
func (r *loopRun) pressed() bool { return r.outbox.unsent > r.loop.opts.MaxUnsent }

func (r *loopRun) turnDue() bool {
	if r.suspended || !r.anyReady() {
		return false
	}
	if len(r.outbox.sent) > 0 || r.woken {
		return true
	}
	return !r.pressed() && (r.inputs.buffered > 0 || len(r.timers.reached()) > 0)
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
	if !r.pressed() {
		in.Records, touched = r.inputs.take(r.loop.opts.TurnRecords)
		in.TimersUntil = r.timers.reached()
		r.timers.fired(in.TimersUntil)
	}
	before := r.fails
	err := r.finish(r.loop.handler.Turn(in), touched, nil)
	if r.fails == before {
		r.fails = 0
	}
	return err
}

// finish writes what the handler decided: rejects, then changes and positions
// at once, then effects. of is the records of the log that effects without
// changes follow from.
func (r *loopRun) finish(res wire.Result, touched map[int32]bool, of map[int32]span) error {
	r.timers.wake = res.Wake
	r.soil(slices.Collect(maps.Keys(touched)))
	if err := r.reject(res.Rejects); err != nil {
		return r.undo(err)
	}
	if len(res.Changes) > 0 {
		changed, err := r.write(res.Changes)
		if ends(err) {
			return err
		}
		if err != nil {
			return r.undo(err)
		}
		of = joined(of, changed)
	}
	r.soil(r.outbox.publish(res.Effects, of))
	return nil
}

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
	return r.outbox.producer.Send(r.hard, rejects...)
}

// write commits changes together with every position that is not committed,
// and that of every partition that changes, moved or not: it is what fences.
func (r *loopRun) write(changes []wire.Record) (map[int32]span, error) {
	topic := r.loop.cfg.Topics.Instances()
	recs := make([]wire.Record, len(changes))
	for i, c := range changes {
		o := r.owned[c.Partition]
		if o == nil || !o.ready {
			return nil, &compute.Error{Op: "write changes", Kind: compute.KindInternal,
				Message: fmt.Sprintf("the handler changed partition %d, which it does not have", c.Partition)}
		}
		o.soil(time.Now())
		recs[i] = c.To(topic, c.Partition)
	}
	at, of := r.dirty()
	offsets, err := r.txn.commit(r.hard, r.fence, recs, at, r.group.lost.Load)
	if err != nil {
		return nil, err
	}
	r.clean(of)
	changed := map[int32]span{}
	for i, c := range recs {
		s, ok := changed[c.Partition]
		if !ok {
			s = span{offsets[i], offsets[i]}
		}
		changed[c.Partition] = span{min(s.first, offsets[i]), max(s.behind, offsets[i]+1)}
	}
	return changed, nil
}

// dirty is the positions that are not committed.
func (r *loopRun) dirty() (at []position, of []*ownedPartition) {
	for p, o := range r.owned {
		if o.ready && !o.dirty.IsZero() {
			at = append(at, position{partition: p, at: r.inputs.at(p), cursor: r.outbox.cursor(p)})
			of = append(of, o)
		}
	}
	return at, of
}

func (r *loopRun) clean(of []*ownedPartition) {
	now := time.Now()
	for _, o := range of {
		o.dirty, o.committed = time.Time{}, now
	}
}

// commitDue is when positions should be committed without a transaction; zero
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
	if oldest.IsZero() {
		return oldest
	}
	if oldest.Before(r.plain) {
		oldest = r.plain // it was tried since
	}
	return oldest.Add(r.loop.opts.CommitEvery)
}

// commitPositions commits what no transaction carried. A refusal is no harm:
// the positions stay uncommitted, and why will be heard from the group.
func (r *loopRun) commitPositions() error {
	at, of := r.dirty()
	if len(at) == 0 {
		return nil
	}
	r.plain = time.Now()
	ctx, cancel := context.WithTimeout(r.hard, r.loop.cfg.RequestTimeout)
	defer cancel()
	unknown, err := commitPlainly(ctx, r.ask, r.loop.opts.Group, r.fence, r.topics, at)
	switch {
	case err == nil:
		r.clean(of)
	case unknown:
		return fmt.Errorf("%w: %w", errOutcomeUnknown, err)
	default:
		r.log.Debug("positions were not committed", zap.Error(err))
	}
	return nil
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

// undo drops everything that is believed of any partition, because a turn did
// not commit, or may have: what is true is read from the log again.
func (r *loopRun) undo(why error) error {
	if isForbidden(why) {
		return classify("commit a turn", why)
	}
	r.fails++
	r.log.Warn("a turn was undone; restoring from the log", zap.Int("in a row", r.fails), zap.Error(why))
	r.txn.discard(r.hard)
	all := r.all()
	r.lose(all...)
	if isFenced(why) {
		// The group went on, and will say how: there is nothing to gain before.
		r.suspended, r.fence = true, fence{}
		r.group.client.ForceRebalance()
		return nil
	}
	r.gain(retryBackoff(r.fails), all...)
	return nil
}

// isFenced says whether a commit was refused because of its generation.
func isFenced(err error) bool {
	for _, e := range []error{
		errGenerationLost, kerr.IllegalGeneration, kerr.UnknownMemberID, kerr.RebalanceInProgress,
		kerr.StaleMemberEpoch, kerr.FencedMemberEpoch, kerr.GroupIDNotFound,
	} {
		if errors.Is(err, e) {
			return true
		}
	}
	return false
}

// hear acts on what the group says, and lets it go on.
func (r *loopRun) hear(n groupNews) error {
	defer close(n.done)
	switch n.kind {
	case newsRevoked:
		// The turn before is finished, and this is the last that is written under
		// this generation. What comes back in the next one goes on as it was.
		err := r.commitPositions()
		r.suspended = true
		return err
	case newsLost:
		r.suspended, r.fence = true, fence{}
		r.lose(r.all()...)
	case newsAssigned:
		return r.assigned(n)
	}
	return nil
}

// assigned begins a generation. A partition that was ours in the generation
// just before, and is again, nobody else can have had between; any other is lost
// first, and gained from nothing.
func (r *loopRun) assigned(n groupNews) error {
	if n.err != nil {
		return n.err
	}
	keep := n.fence.member == r.fence.member && n.fence.generation == r.fence.generation+1
	var gone, fresh []int32
	for p := range r.owned {
		if !keep || !slices.Contains(n.own, p) {
			gone = append(gone, p)
		}
	}
	r.lose(gone...)
	for _, p := range n.own {
		if r.owned[p] == nil {
			fresh = append(fresh, p)
		}
	}
	r.fence, r.suspended = n.fence, false
	r.gain(0, fresh...)
	return nil
}

func (r *loopRun) all() []int32 {
	var all []int32
	for p := range r.owned {
		all = append(all, p)
	}
	slices.Sort(all)
	return all
}

func (r *loopRun) gain(wait time.Duration, partitions ...int32) {
	if len(partitions) == 0 {
		return
	}
	g := &gain{run: r, wait: wait, wanted: len(partitions)}
	for _, p := range partitions {
		o := &ownedPartition{id: p, gain: g}
		r.owned[p] = o
		g.of = append(g.of, o)
		r.loop.handler.Gain(p)
	}
	ctx, cancel := context.WithCancel(r.ctx)
	g.cancel = cancel
	g.start(ctx)
}

func (r *loopRun) lose(partitions ...int32) {
	for _, p := range partitions {
		o := r.owned[p]
		delete(r.owned, p)
		if o.gain.wanted--; o.gain.wanted == 0 {
			o.gain.cancel()
		}
		r.loop.handler.Lose(p)
		r.inputs.remove(p)
		r.timers.lose(p)
		r.outbox.lose(p)
	}
}

// wrapUp ends in order: effects acknowledged as far as that is quick, so that
// the next owner has none to repeat, then the positions.
func (r *loopRun) wrapUp() {
	enough := time.NewTimer(r.loop.opts.StopTimeout / 2)
	defer enough.Stop()
	for r.outbox.unsent > 0 && !r.suspended {
		select {
		case <-r.outbox.news:
			r.collect()
			continue
		case n := <-r.group.news:
			if r.hear(n) == nil {
				continue
			}
		case <-enough.C:
		}
		break
	}
	if r.suspended {
		return
	}
	if err := r.commitPositions(); err != nil {
		r.log.Info("the last positions may not be committed", zap.Error(err))
	}
}

// close ends the session, whatever state it is in.
func (r *loopRun) close(cancel context.CancelFunc) {
	cancel()
	r.lose(r.all()...)
	if r.group != nil {
		r.group.leave(r.hard)
	}
	r.inputs.drain()
	r.timers.drain()
	r.gains.Wait()
	r.txn.discard(r.hard)
	r.ask.Close()
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
