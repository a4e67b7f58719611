// SPDX-License-Identifier: Apache-2.0

package cell

import (
	"context"
	"errors"
	"os"
	"time"

	"github.com/berth-project/berth/pkg/api"
	"github.com/berth-project/berth/pkg/audit"
	"github.com/berth-project/berth/pkg/compute"
	kafkaadmin "github.com/berth-project/berth/pkg/kafka/admin"
	"github.com/berth-project/berth/pkg/kafka/read"
	"github.com/berth-project/berth/pkg/kafka/write"
	"github.com/berth-project/berth/pkg/service"
	"github.com/berth-project/berth/pkg/wire"
)

// audit is the audit of an API node, and what the node writes to Kafka through; nil without one.
func (c Cell) audit(o APIOptions, producer *write.Producer) (*audit.Log, api.Publisher) {
	if !o.Audit {
		return nil, producer
	}
	node, err := os.Hostname()
	if err != nil {
		node = "unknown"
	}
	kept := audit.New(audit.Options{
		To: producer, Topics: c.Topics(), Node: node, Now: c.Clock.now(), Log: c.Log, Metrics: c.metrics,
	})
	return kept, kept.Beside()
}

// ReadAudit hands over the entries since a time, oldest first: those that are there, and with follow those that come,
// until the context ends or take fails. A record that nobody can read is no entry: take hears why instead.
func (c Cell) ReadAudit(
	ctx context.Context, since time.Time, follow bool, take func(compute.AuditEntry, error) error,
) error {
	err := c.readSince(ctx, c.Topics().Audit(), since, follow, func(rec wire.Record) error {
		return take(wire.DecodeAudit(rec))
	})
	var e *compute.Error
	if errors.As(err, &e) && e.Kind == compute.KindNotFound {
		e.Remedy = "no API node of this cell keeps an audit: audit: true in its settings has it do so"
	}
	return err
}

// ReadRejected hands over the rejections since a time, those of a partition oldest first, as ReadAudit does.
func (c Cell) ReadRejected(
	ctx context.Context, since time.Time, follow bool, take func(compute.Rejected, error) error,
) error {
	return c.readSince(ctx, c.Topics().Rejected(), since, follow, func(rec wire.Record) error {
		return take(wire.DecodeRejected(rec))
	})
}

// readSince reads a topic's records since a time.
func (c Cell) readSince(
	ctx context.Context, topic string, since time.Time, follow bool, take func(wire.Record) error,
) error {
	admin, err := kafkaadmin.New(c.Kafka)
	if err != nil {
		return err
	}
	defer admin.Close()
	from, err := admin.OffsetsSince(ctx, topic, since)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	var failed error // of the reader's goroutine until During returns
	reader := c.reader(read.Options{Topic: topic, From: read.At(from)}, func(recs Records, _ bool) {
		for _, rec := range recs {
			if failed != nil {
				return
			}
			if failed = take(rec); failed != nil {
				cancel()
			}
		}
	})
	err = service.During(ctx, reader, func(ctx context.Context) error {
		if follow {
			<-ctx.Done()
		}
		return nil
	})
	switch {
	case failed != nil:
		return failed
	case err == nil && !follow && ctx.Err() != nil:
		err = compute.Unavailable("read "+topic, ctx.Err())
	}
	return err
}

// auditTrail is the audit as an API node shows it: it is read anew for each page.
type auditTrail struct {
	admin *kafkaadmin.Admin
	topic string
}

// Span is audit.Source.Span.
func (a auditTrail) Span(ctx context.Context, since time.Time) (first, end int64, err error) {
	begin := func(ctx context.Context, topic string) (map[int32]int64, error) {
		return a.admin.OffsetsSince(ctx, topic, since)
	}
	if since.IsZero() {
		begin = a.admin.Starts
	}
	starts, err := begin(ctx, a.topic)
	if err != nil {
		return 0, 0, err
	}
	ends, err := a.admin.Ends(ctx, a.topic)
	return starts[0], ends[0], err
}

// refusals are what was refused, as an API node shows it.
type refusals struct {
	admin *kafkaadmin.Admin
	topic string
}

// Span is rejected.Source.Span.
func (r refusals) Span(ctx context.Context, since time.Time) (first, end map[int32]int64, err error) {
	if since.IsZero() {
		first, err = r.admin.Starts(ctx, r.topic)
	} else {
		first, err = r.admin.OffsetsSince(ctx, r.topic, since)
	}
	if err != nil {
		return nil, nil, err
	}
	end, err = r.admin.Ends(ctx, r.topic)
	return first, end, err
}

// refusalBytes bounds what of a partition is in memory at a time: what was refused may be 64 KiB of each record.
const refusalBytes = 1 << 20

// Read is rejected.Source.Read.
func (r refusals) Read(ctx context.Context, p int32, from, to int64) (begin int64, recs []wire.Record, err error) {
	return r.admin.Stretch(ctx, r.topic, p, from, to, refusalBytes)
}

// auditBytes bounds what of the audit is in memory at a time, whatever somebody wrote there.
const auditBytes = 16 << 20

// Read is audit.Source.Read.
func (a auditTrail) Read(ctx context.Context, from, to int64) (begin int64, recs []wire.Record, err error) {
	return a.admin.Stretch(ctx, a.topic, 0, from, to, auditBytes)
}
