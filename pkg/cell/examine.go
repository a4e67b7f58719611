// SPDX-License-Identifier: Apache-2.0

package cell

import (
	"context"
	"slices"
	"time"

	"github.com/berth-project/berth/pkg/compute"
	"github.com/berth-project/berth/pkg/doctor"
	kafkaadmin "github.com/berth-project/berth/pkg/kafka/admin"
	"github.com/berth-project/berth/pkg/kafka/loop"
	"github.com/berth-project/berth/pkg/service"
	"github.com/berth-project/berth/pkg/wire"
)

// Facts asks for everything the doctor looks at.
func (c *Cell) Facts(ctx context.Context) (doctor.Facts, error) {
	none := doctor.Facts{}
	admin, err := kafkaadmin.New(c.Kafka)
	if err != nil {
		return none, err
	}
	defer admin.Close()
	f := doctor.Facts{
		Bootstrap: c.Kafka.Brokers[0],
		Topics:    c.Topics(),
		Plan:      admin.Plan,
		Plans:     admin.Plans,
	}
	if f.Cluster, err = admin.DescribeCluster(ctx); err != nil {
		return none, err
	}
	names, err := admin.CellTopics(ctx)
	if err != nil {
		return none, err
	}
	for _, r := range doctor.Internals() {
		names = append(names, r.Topic)
	}
	if f.Own, f.Refused, err = admin.DescribeTopics(ctx, names...); err != nil {
		return none, err
	}
	if err := c.lists(ctx, &f); err != nil {
		return none, err
	}
	if _, there := f.Own[c.Topics().Audit()]; there {
		c.lookAtAudit(ctx, admin, f.Now, &f.Audit)
	}
	if _, there := f.Own[c.Topics().Instances()]; there {
		c.lookAtPositions(ctx, &f)
	}
	return f, c.shares(ctx, admin, &f)
}

// positionsPatience is how long the doctor waits for the ends of instances: one of its partitions may have no leader.
const positionsPatience = 10 * time.Second

// lookAtPositions asks which partitions are set aside. Without that everything else can still be told.
func (c *Cell) lookAtPositions(ctx context.Context, f *doctor.Facts) {
	ctx, cancel := context.WithTimeout(ctx, positionsPatience)
	defer cancel()
	var err error
	if f.Aside, err = loop.SetAside(ctx, c.Kafka); err != nil {
		f.AsideErr = err.Error()
	}
}

// lists reads the queue list and the last beacon of every host, and learns from them what time it is.
func (c *Cell) lists(ctx context.Context, f *doctor.Facts) error {
	now := c.logTime()
	queues, hosts := newLatest(now), newLatest(now)
	var readers []service.Part
	for topic, into := range map[string]*latest{c.Topics().Queues(): queues, c.Topics().Hosts(): hosts} {
		if _, there := f.Own[topic]; there {
			readers = append(readers, c.Table(topic, into.take))
		}
	}
	learn := func(ctx context.Context) error { now.learn(ctx, hosts); return nil }
	if err := service.During(ctx, service.Together(readers...), learn); err != nil {
		return err
	}
	if err := ctx.Err(); err != nil {
		return compute.Unavailable("read the lists of queues and hosts", err)
	}
	f.Queues = slices.DeleteFunc(
		decoded(queues, wire.DecodeQueue),
		func(q compute.Queue) bool { return q.TopicID == "" },
	)
	f.Beacons = decoded(hosts, func(rec wire.Record) (compute.Beacon, error) {
		b, err := wire.DecodeBeacon(rec)
		if err == nil && rec.Header(wire.HeaderMAC) == nil {
			f.Unsigned = append(f.Unsigned, b.Host)
		}
		return b, err
	})
	slices.Sort(f.Unsigned)
	f.Now = now.now()
	return nil
}

// lookAtAudit reads the newest entries of the last day. Without them everything else can still be told.
func (c *Cell) lookAtAudit(ctx context.Context, admin *kafkaadmin.Admin, now time.Time, a *doctor.AuditFacts) {
	trail := auditTrail{admin, c.Topics().Audit()}
	first, end, err := trail.Span(ctx, now.AddDate(0, 0, -1))
	var recs []wire.Record
	if err == nil {
		_, recs, err = trail.Read(ctx, max(first, end-doctor.AuditLooks), end)
	}
	if err != nil {
		a.Err = err.Error()
	}
	for _, rec := range recs {
		a.Looked++
		e, err := wire.DecodeAudit(rec)
		if err != nil {
			a.Garbled++
			continue
		}
		a.LeftOut += e.LeftOut
		a.Last, a.Node = e.At, e.Node
	}
}

// shares asks for the share state of every queue, and for the members of its group.
func (c *Cell) shares(ctx context.Context, admin *kafkaadmin.Admin, f *doctor.Facts) (err error) {
	f.Progress, err = patiently(
		ctx,
		func() ([]kafkaadmin.QueueProgress, error) { return admin.QueueProgress(ctx, refs(f.Queues)) },
	)
	if err != nil { // everything else can still be told
		f.Progress = nil
		for _, q := range refs(f.Queues) {
			f.Progress = append(f.Progress, kafkaadmin.QueueProgress{Queue: q, Err: err})
		}
	}
	f.Groups = map[string]map[string]string{}
	for _, q := range f.Queues {
		if f.Groups[q.Group] == nil {
			f.Groups[q.Group], err = patiently(
				ctx,
				func() (map[string]string, error) { return admin.DescribeShareGroup(ctx, q.Group) },
			)
			if err != nil {
				return err
			}
		}
	}
	group := func(name string) (kafkaadmin.GroupFacts, error) {
		return patiently(ctx, func() (kafkaadmin.GroupFacts, error) { return admin.DescribeGroup(ctx, name) })
	}
	if f.Conductor, err = group(c.Topics().ConductorGroup()); err != nil {
		return err
	}
	f.Manager, err = group(c.Topics().ManagerGroup())
	return err
}

// patiently asks again for a while: a cluster whose groups nobody has used makes
// the internal topics for them only when it is asked, and refuses until then.
func patiently[T any](ctx context.Context, ask func() (T, error)) (T, error) {
	const tries, pause = 20, 500 * time.Millisecond
	for try := 1; ; try++ {
		answer, err := ask()
		if err == nil || compute.KindOf(err) != compute.KindUnavailable || try == tries || !service.Sleep(ctx, pause) {
			return answer, err
		}
	}
}
