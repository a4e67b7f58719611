// SPDX-License-Identifier: Apache-2.0

package api

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"sync"
	"sync/atomic"
	"time"

	"go.uber.org/zap"

	"github.com/berth-project/berth/pkg/compute"
	"github.com/berth-project/berth/pkg/events"
	"github.com/berth-project/berth/pkg/tracing"
	"github.com/berth-project/berth/pkg/wire"
)

// views are what this node knows, each rebuilt from its topic. What they hand
// out is never changed afterwards, so it can be read without a lock.
type views struct {
	instances *instances
	queues    *queues
	hosts     *hosts
	advice    *advice

	caughtUp   *[4]atomic.Bool // by topic, in the order of viewNames
	settling   *settling
	tokensRead *atomic.Bool                  // as caughtUp; true where tokens do not count
	lastRecord *[5]atomic.Pointer[time.Time] // when the last record was taken, in the order of viewNames
	log        *zap.Logger
}

// The topics that must be caught up with before the node answers. Advice is
// only advice.
const (
	viewInstances = iota
	viewRequests
	viewQueues
	viewHosts
	viewAdvice
)

var viewNames = [...]string{"instances", "requests", "queues", "hosts", "advice"}

func newViews(partitions int32, log *zap.Logger, told *events.Log) views {
	v := views{
		instances: newInstances(partitions), queues: newQueues(), hosts: newHosts(), advice: newAdvice(),
		caughtUp: new([4]atomic.Bool), settling: new(settling), tokensRead: new(atomic.Bool),
		lastRecord: new([5]atomic.Pointer[time.Time]),
		log:        log,
	}
	v.instances.told = told
	for i := range v.lastRecord {
		v.noteRecords(i, 1)
	}
	return v
}

// noteRecords notes that records of a topic came just now.
func (v views) noteRecords(view, n int) {
	if n > 0 {
		now := time.Now()
		v.lastRecord[view].Store(&now)
	}
}

// settling counts the topics that were read to the end they had at the start.
type settling struct {
	mu   sync.Mutex
	read int
}

// readToEnd notes that a topic was. Before the last of them counts, what listeners hear is settled: by then the time of
// the log is known, as far as anything says it.
func (s *Server) readToEnd(view int) (first bool) {
	done, all := &s.views.caughtUp[view], s.views.settling
	all.mu.Lock()
	defer all.mu.Unlock()
	if done.Load() {
		return false
	}
	if all.read++; all.read == len(s.views.caughtUp) {
		// By this node's own clock too: of a log to which nothing was written for days nothing else says what time it is.
		from := s.tellFrom()
		if own := s.config.Now().Add(-tellEntries); own.After(from) {
			from = own
		}
		s.events.Forget(from)
	}
	done.Store(true)
	return true
}

// tellFrom is when the oldest record was written of which listeners hear, by the time of the log. Of one that is older
// when it is read something may be missing before it.
func (s *Server) tellFrom() time.Time { return s.clock.At(s.config.Now()).Add(-tellEntries) }

// behind lists what is not yet read to the end that it had at the start. Of a catalog that is read in part a node would say
// that there is no such flavor, or group.
func (s *Server) behind() []string {
	names := s.views.behind()
	if !s.config.Catalog.Read() {
		names = append(names, "catalog")
	}
	return names
}

// behind lists the topics of the views not yet read to the end they had at the start.
func (v views) behind() []string {
	var names []string
	for i := range v.caughtUp {
		if !v.caughtUp[i].Load() {
			names = append(names, viewNames[i])
		}
	}
	if !v.tokensRead.Load() {
		names = append(names, "tokens")
	}
	return names
}

// logUnreadable notes a record that no view can take. The conductor puts the same
// record of the requests topic into rejected; the others are our own.
func (v views) logUnreadable(topic string, rec wire.Record, err error) {
	v.log.Warn("record cannot be read", zap.String("topic", topic), zap.Int32("partition", rec.Partition),
		zap.Int64("offset", rec.Offset), zap.ByteString("key", rec.Key), zap.Error(err))
}

// note notes that records of a topic came just now, and what time they say it is.
func (s *Server) note(view int, recs []wire.Record) {
	s.views.noteRecords(view, len(recs))
	s.clock.Observe(recs, s.config.Now())
}

// Instances takes records of the instances topic, in order. end says that the
// topic has now been read to the end it had; an empty call may say just that.
func (s *Server) Instances(recs []wire.Record, end bool) {
	v := s.views
	s.note(viewInstances, recs)
	changes := make([]change, 0, len(recs))
	for _, rec := range recs {
		at := events.Place{Partition: rec.Partition, Offset: rec.Offset, Time: rec.Time}
		if rec.Value == nil {
			p, id, err := wire.ParseInstanceKey(rec.Key)
			if err != nil {
				v.logUnreadable("instances", rec, err)
				changes = append(changes, change{at: at, unread: true})
				continue
			}
			changes = append(changes, change{key: instanceKey{p, id}, at: at})
			continue
		}
		if p, id, err := wire.ParseInstanceKey(rec.Key); err == nil && wire.LaterThan(rec, s.config.Reads) {
			v.logUnreadable("instances", rec, errLaterSchema)
			changes = append(changes, change{key: instanceKey{p, id}, at: at, later: true})
			continue
		}
		inst, err := wire.DecodeInstance(rec.ReadUpTo(s.config.Reads))
		if err != nil {
			v.logUnreadable("instances", rec, err)
			changes = append(changes, change{at: at, unread: true})
			continue
		}
		changes = append(changes, change{key: instanceKey{inst.Project, inst.ID}, at: at, instance: &inst})
	}
	v.instances.apply(changes)
	if end {
		s.readToEnd(viewInstances)
	}
}

// Requests takes records of the requests topic, in order for each project. They
// must begin no later than what the conductors had committed when this node
// started: a boot in there that has no instance yet is shown as accepted.
func (s *Server) Requests(recs []wire.Record, end bool) {
	s.note(viewRequests, recs)
	var boots []asked
	read := map[int32]int64{}
	for _, rec := range recs {
		read[rec.Partition] = rec.Offset + 1
		req, err := wire.DecodeRequest(rec)
		if err == nil {
			err = req.Check()
		}
		if home := wire.Partition(req.Project, max(s.config.Partitions, 1)); err == nil && req.Project != "" &&
			home != rec.Partition && s.config.Partitions > 0 {
			err = compute.Invalid("partition", fmt.Sprint(rec.Partition),
				fmt.Sprintf("its project belongs to partition %d", home))
		}
		if err != nil {
			s.views.logUnreadable("requests", rec, err)
			continue
		}
		unsigned := rec.Header(wire.HeaderPublisher) == nil
		for _, boot := range req.Boots() {
			boots = append(boots, asked{&boot, origin{offset: rec.Offset, unsigned: unsigned}})
		}
	}
	s.views.instances.accept(boots, read)
	if end {
		s.readToEnd(viewRequests)
	}
}

// A boot that a conductor refuses without writing an instance, as one that its publisher must not write, would be
// shown as accepted for ever: nothing is ever said about it in instances. So while there are boots without an instance,
// a node asks now and then up to where the conductors have dealt with requests, then reads instances and requests to
// their ends. What lies before and has no instance by then is refused.
//
// A position beyond all that was read is one of another log, and says nothing (decision 0041).

// refusedEvery is how often a node asks.
const refusedEvery = 2 * time.Second

// DropRefused drops boots that conductors have refused, until ctx ends.
func (s *Server) DropRefused(ctx context.Context) error {
	tick := time.NewTicker(refusedEvery)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
			if err := s.dropRefused(ctx); err != nil {
				s.log.Debug("it is not known which requests are refused", zap.Error(err))
			}
		case <-ctx.Done():
			return nil
		}
	}
}

func (s *Server) dropRefused(ctx context.Context) error {
	if s.config.Decided == nil || s.views.instances.decidedAll() {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, s.config.SyncTimeout)
	defer cancel()
	decided, err := s.config.Decided(ctx)
	if err != nil {
		return err
	}
	err = s.leaveOutUnread(ctx, decided)
	for _, r := range s.views.instances.dropRefused(decided) {
		s.metrics.dropped()
		s.log.Warn("a conductor has refused a boot: the topic rejected says why",
			zap.String("instance", string(r.Instance)), tracing.Field(r.Trace), zap.String("project", string(r.Project)),
			zap.Int64("offset", r.offset), zap.Bool("unsigned", r.unsigned))
	}
	return err
}

// leaveOutUnread removes from what was decided the partitions that this node could not catch up with. What was decided
// in the others is in its views.
func (s *Server) leaveOutUnread(ctx context.Context, decided map[int32]int64) error {
	var all sync.WaitGroup
	var mu sync.Mutex
	var errs []error
	for p := range maps.Clone(decided) {
		if p < 0 || p >= s.config.Partitions {
			continue
		}
		all.Go(func() {
			if err := s.syncs.of(p).sync(ctx); err != nil {
				mu.Lock()
				defer mu.Unlock()
				delete(decided, p)
				errs = append(errs, err)
			}
		})
	}
	all.Wait()
	return errors.Join(errs...)
}

// Queues takes records of the queues topic, in order.
func (s *Server) Queues(recs []wire.Record, end bool) {
	s.note(viewQueues, recs)
	for _, rec := range recs {
		if rec.Value == nil {
			s.views.queues.remove(compute.QueueName(rec.Key))
			continue
		}
		q, err := wire.DecodeQueue(rec)
		if err != nil {
			s.views.logUnreadable("queues", rec, err)
			continue
		}
		s.views.queues.put(&q)
	}
	if end {
		s.readToEnd(viewQueues)
	}
}

// Hosts takes beacons of the hosts topic, in order. A host counts as heard when its beacon comes in here, whatever its
// clock says, and that of a broker; but for what a node reads that began just now, or was cut off.
func (s *Server) Hosts(recs []wire.Record, end bool) {
	s.note(viewHosts, recs)
	now := time.Now()
	late := s.views.hosts.late(now)
	for _, rec := range recs {
		if rec.Value == nil {
			s.views.hosts.remove(compute.HostID(rec.Key))
			continue
		}
		b, err := wire.DecodeBeacon(rec)
		if err != nil {
			s.views.logUnreadable("hosts", rec, err)
			continue
		}
		logged := time.Time{}
		if rec.Logged && late {
			logged = rec.Time
		}
		s.views.hosts.put(&b, rec.Header(wire.HeaderMAC) != nil, now, logged)
		if s.config.UserData == nil && len(b.Opens) > 0 {
			s.open.Do(func() {
				s.log.Warn("hosts have keys for user data and this node has none: what it takes lies open in Kafka; "+
					"give it user_data.keys", zap.String("host", string(b.Host)))
			})
		}
	}
	if end {
		s.views.hosts.atEnd(now)
		s.readToEnd(viewHosts)
	}
}

// Advice takes records of the advice topic, in order.
func (s *Server) Advice(recs []wire.Record, _ bool) {
	s.note(viewAdvice, recs)
	for _, rec := range recs {
		a, err := wire.DecodeAdvice(rec)
		if err != nil {
			s.views.logUnreadable("advice", rec, err)
			continue
		}
		s.views.advice.apply(a)
	}
}

// Work is how many instances still need a queue, as far as this node knows:
// accepted, queued or starting. A catalog change that would strand them can be
// refused with it.
func (s *Server) Work(q compute.QueueName) int { return s.views.instances.needing(q) }
