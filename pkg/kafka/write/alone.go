// SPDX-License-Identifier: Apache-2.0

package write

import (
	"errors"
	"slices"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/berth-project/berth/pkg/kafka"
)

// A broker refuses a whole batch for one record in it, or for being too large
// together, and kgo then fails with the same words all that it has for that
// partition. So none of them is believed to be meant until it was refused alone.

// unfit are the errors of records that no broker takes as they are.
var unfit = [...]error{kerr.MessageTooLarge, kerr.RecordListTooLarge, kerr.InvalidRecord, kerr.PolicyViolation}

func isUnfit(err error) bool {
	return slices.ContainsFunc(unfit[:], func(e error) bool { return errors.Is(err, e) })
}

// suspect has a record sent alone that was refused in company, perhaps. One that is
// too large for any batch the client has refused itself.
func (p *Producer) suspect(l pendingRecord, partition int32, err error) {
	if sizeOf(l.rec) > kafka.MaxRecordBytes {
		p.sent(l, -1, err)
		return
	}
	l.rec.Partition = partition // where the client would have had it
	p.mu.Lock()
	defer p.mu.Unlock()
	p.suspects = append(p.suspects, l)
	if len(p.suspects) == 1 {
		p.running.Go(p.sendSuspectsAlone)
	}
}

// sendSuspectsAlone sends what is doubted one by one, by a client that has nothing else to
// send: so each is a batch.
func (p *Producer) sendSuspectsAlone() {
	client, err := p.connect()
	if err == nil {
		defer client.Close()
	}
	for {
		p.mu.Lock()
		l := p.suspects[0]
		p.mu.Unlock()
		offset, why := int64(-1), err
		if err == nil {
			offset, why = p.alone(client, l)
		}
		p.sent(l, offset, why)
		p.mu.Lock()
		p.suspects = p.suspects[1:]
		left := len(p.suspects)
		p.mu.Unlock()
		if left == 0 {
			return
		}
	}
}

// alone sends a record by itself, unless it has been under way for too long.
func (p *Producer) alone(client *kgo.Client, l pendingRecord) (offset int64, err error) {
	if time.Since(l.began) >= p.tries {
		return -1, kgo.ErrRecordTimeout
	}
	k, err := client.ProduceSync(p.ctx, toKgo(l.rec)).First()
	switch {
	case err == nil:
		return k.Offset, nil
	case p.ctx.Err() != nil:
		return -1, kgo.ErrClientClosed
	}
	return -1, err
}
