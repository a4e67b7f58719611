// SPDX-License-Identifier: Apache-2.0

package loop

import (
	"context"
	"errors"
	"time"

	"go.uber.org/zap"

	"github.com/berth-project/berth/pkg/kafka"
	"github.com/berth-project/berth/pkg/kafka/internal/pace"
)

// A producer epoch is raised now and then while it is held, lest Kafka forgets the producer id
// (transactional.id.expiration.ms) or its last writer (producer.id.expiration.ms): it would not know then which
// writers to refuse. Nothing hurries: what fails is tried again much later, with the producer epoch as it was. A
// refusal is no failure: somebody else has taken the producer epoch, and with it the partition.

// renewRetry is how soon a producer epoch that could not be raised is tried again.
const renewRetry = 5 * time.Minute

// raised is how raising a held producer epoch ended.
type raised struct {
	of    *ownedPartition
	epoch producerEpoch
	err   error
}

// renew has producer epochs raised when their time has come, one at once.
func (r *loopRun) renew(now time.Time) {
	if r.renewing {
		return
	}
	for _, o := range r.owned {
		if !o.ready || o.writing != nil || now.Before(o.renewAt) {
			continue
		}
		r.renewing = true
		id, old := o.id, o.epoch
		r.gains.Go(func() {
			ctx, cancel := context.WithTimeout(r.ctx, takeOverTimeout)
			defer cancel()
			next, err := r.writer.raise(ctx, id, old)
			r.raised <- raised{o, next, err}
		})
		return
	}
}

// renewed writes down the takeover of a partition from oneself. Until that is
// written the old producer epoch was good.
func (r *loopRun) renewed(n raised) error {
	r.renewing = false
	if r.owned[n.of.id] != n.of {
		return nil
	}
	if kafka.IsFatal(n.err) && !kafka.IsForbidden(n.err) {
		return r.letGo(n.of.id, n.err)
	}
	if n.err != nil {
		n.of.renewAt = time.Now().Add(min(renewRetry, r.loop.opts.RenewEvery))
		r.log.Info("a producer epoch could not be renewed yet", zap.Int32("partition", n.of.id), zap.Error(n.err))
		return nil
	}
	if n.of.writing != nil {
		return r.undo(n.of, errWrittenMeanwhile)
	}
	return r.write(map[int32]*writing{n.of.id: {of: n.of, renewed: &n.epoch}})
}

// letGo leaves a partition that somebody else has taken. It is gained again, and that waits until the group says that
// it is this process's: then the process that took the producer epoch was not in the group, or is not any more.
func (r *loopRun) letGo(p int32, why error) error {
	r.log.Warn(
		"a partition is given up: its producer epoch was taken by somebody else",
		zap.Int32("partition", p), zap.Error(why),
	)
	r.lose(p)
	r.gain(pace.Backoff(1), p)
	return nil
}

// errWrittenMeanwhile is a batch under the old producer epoch that nobody knows of whether it
// will be written.
var errWrittenMeanwhile = errors.New("the producer epoch was renewed while a batch was on its way")

// hold notes the producer epoch, and when it should be renewed.
func (o *ownedPartition) hold(p producerEpoch, every time.Duration) {
	o.epoch, o.renewAt = p, p.taken.Add(every)
}
