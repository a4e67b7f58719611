// SPDX-License-Identifier: Apache-2.0

package audit

import (
	"context"

	"github.com/berth-project/berth/pkg/wire"
)

// Beside is a Publisher whose records take the entry of the call that they are sent for with them.
type Beside struct {
	to  Publisher
	log *Log
}

// Beside makes the Publisher for whatever changes something on behalf of calls. l must not be nil.
func (l *Log) Beside() Beside { return Beside{l.o.To, l} }

// Send is Publisher.Send. If the records are kept and the entry is not known to be, the error is a *compute.Error of
// KindTimeout. What fails of the records is said as without an audit.
func (b Beside) Send(ctx context.Context, recs ...wire.Record) error {
	return b.together(ctx, func() error { return b.to.Send(ctx, recs...) })
}

// Append is Publisher.Append, with the errors of Send.
func (b Beside) Append(ctx context.Context, rec wire.Record) (offset int64, err error) {
	err = b.together(ctx, func() (err error) {
		offset, err = b.to.Append(ctx, rec)
		return err
	})
	return offset, err
}

// together hands over both at once, and waits for both.
func (b Beside) together(ctx context.Context, send func() error) error {
	c := of(ctx)
	e, ok := c.due(b.log.o.Now())
	if !ok {
		return send()
	}
	kept := make(chan error, 1)
	go func() { kept <- b.log.keep(context.WithoutCancel(ctx), c, e) }()
	err := send()
	lost := <-kept
	if err != nil {
		return err
	}
	return lost
}
