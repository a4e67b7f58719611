// SPDX-License-Identifier: Apache-2.0

package cell

import (
	"context"
	"errors"
	"maps"
	"slices"
	"time"

	"github.com/berth-project/berth/pkg/compute"
	"github.com/berth-project/berth/pkg/doctor"
	"github.com/berth-project/berth/pkg/kafka/access"
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
		As:        c.Kafka.As,
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
	for _, p := range admin.Plans(1) { // brokers list no topic that this user may not describe
		names = append(names, p.Name)
	}
	if f.Own, f.Refused, err = admin.DescribeTopics(ctx, names...); err != nil {
		return none, err
	}
	if err := c.lists(ctx, &f); err != nil {
		return none, err
	}
	if err := c.lookForHidden(ctx, admin, &f); err != nil {
		return none, err
	}
	if there, err := c.mayRead(&f, c.Topics().Audit()); there {
		c.lookAtAudit(ctx, admin, f.Now, &f.Audit)
	} else if err != nil {
		f.Audit.Err = err
	}
	if there, err := c.mayRead(&f, c.Topics().Instances()); there {
		c.lookAtPositions(ctx, &f)
	} else if err != nil {
		f.AsideErr = err
	}
	return f, c.shares(ctx, admin, &f)
}

// mayRead says whether a topic exists. The error says that this user may not even ask for that.
func (c *Cell) mayRead(f *doctor.Facts, topic string) (there bool, err error) {
	if slices.Contains(f.Refused, topic) {
		return false, c.Kafka.As.Denied("", nil, access.To(access.Read, access.Topic, topic))
	}
	_, there = f.Own[topic]
	return there, nil
}

// lookForHidden asks for the topics of queues and hosts that brokers do not list: those that this user may not describe
// are refused by name.
func (c *Cell) lookForHidden(ctx context.Context, admin *kafkaadmin.Admin, f *doctor.Facts) error {
	var hidden []string
	for _, q := range f.Queues {
		hidden = append(hidden, c.Topics().Build(q.Name))
	}
	for _, b := range f.Beacons {
		hidden = append(hidden, c.Topics().Host(b.Host))
	}
	hidden = slices.DeleteFunc(hidden, func(topic string) bool { _, there := f.Own[topic]; return there })
	found, refused, err := admin.DescribeTopics(ctx, hidden...)
	maps.Copy(f.Own, found)
	f.Refused = append(f.Refused, refused...)
	return err
}

// unlessForbidden keeps an error that says what this user may not do, and answers any other: what is forbidden is a
// finding, and everything else can still be told.
func unlessForbidden(err error, keep *error) error {
	if compute.KindOf(err) != compute.KindForbidden {
		return err
	}
	*keep = err
	return nil
}

// positionsPatience is how long the doctor waits for the ends of instances: one of its partitions may have no leader.
const positionsPatience = 10 * time.Second

// lookAtPositions asks which partitions are set aside. Without that everything else can still be told.
func (c *Cell) lookAtPositions(ctx context.Context, f *doctor.Facts) {
	ctx, cancel := context.WithTimeout(ctx, positionsPatience)
	defer cancel()
	f.Aside, f.AsideErr = loop.SetAside(ctx, c.Kafka)
}

// lists reads the queue list and the last beacon of every host, and learns from them what time it is.
func (c *Cell) lists(ctx context.Context, f *doctor.Facts) error {
	now := c.logTime()
	queues, hosts := newLatest(now), newLatest(now)
	learn := func(ctx context.Context) error { now.learn(ctx, hosts); return nil }
	nothing := func(context.Context) error { return nil }
	err := errors.Join( // one after the other: this user may be allowed to read one of them
		unlessForbidden(c.list(ctx, f, c.Topics().Queues(), queues, nothing), &f.QueuesErr),
		unlessForbidden(c.list(ctx, f, c.Topics().Hosts(), hosts, learn), &f.BeaconsErr),
	)
	if err != nil {
		return err
	}
	if len(hosts.all()) == 0 {
		now.learn(ctx, hosts) // from nobody: this machine's clock counts
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

// list reads a whole topic, if there is one, and does something while it is read on.
func (c *Cell) list(
	ctx context.Context, f *doctor.Facts, topic string, into *latest, use func(context.Context) error,
) error {
	there, err := c.mayRead(f, topic)
	if err != nil || !there {
		return err
	}
	return service.During(ctx, c.Table(topic, into.take), use)
}

// lookAtAudit reads the newest entries of the last day. Without them everything else can still be told.
func (c *Cell) lookAtAudit(ctx context.Context, admin *kafkaadmin.Admin, now time.Time, a *doctor.AuditFacts) {
	trail := auditTrail{admin, c.Topics().Audit()}
	first, end, err := trail.Span(ctx, now.AddDate(0, 0, -1))
	var recs []wire.Record
	if err == nil {
		_, recs, err = trail.Read(ctx, max(first, end-doctor.AuditLooks), end)
	}
	a.Err = err
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
	f.Progress, err = patiently(ctx, func() ([]kafkaadmin.QueueProgress, error) {
		all, err := admin.QueueProgress(ctx, refs(f.Queues))
		for _, p := range all { // what soon passes may be of one queue alone
			if err == nil && compute.KindOf(p.Err) == compute.KindUnavailable && !errors.Is(p.Err, wire.ErrNoTopic) {
				err = p.Err
			}
		}
		return all, err
	})
	if err != nil && len(f.Progress) == 0 { // everything else can still be told
		for _, q := range refs(f.Queues) {
			f.Progress = append(f.Progress, kafkaadmin.QueueProgress{Queue: q, Err: err})
		}
	}
	f.Groups, f.GroupErrs = map[string]map[string]string{}, map[string]error{}
	for _, q := range f.Queues {
		if f.Groups[q.Group] != nil || f.GroupErrs[q.Group] != nil {
			continue
		}
		settings, err := patiently(
			ctx,
			func() (map[string]string, error) { return admin.DescribeShareGroup(ctx, q.Group) },
		)
		switch {
		case err == nil:
			f.Groups[q.Group] = settings
		case compute.KindOf(err) == compute.KindForbidden:
			f.GroupErrs[q.Group] = err
		default:
			return err
		}
	}
	group := func(name string) (kafkaadmin.GroupFacts, error) {
		return patiently(ctx, func() (kafkaadmin.GroupFacts, error) { return admin.DescribeGroup(ctx, name) })
	}
	f.Conductor, err = group(c.Topics().ConductorGroup())
	if err = unlessForbidden(err, &f.ConductorErr); err != nil {
		return err
	}
	f.Manager, err = group(c.Topics().ManagerGroup())
	return unlessForbidden(err, &f.ManagerErr)
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
