// SPDX-License-Identifier: Apache-2.0

package fetch

import (
	"context"
	"time"

	"github.com/berth-project/berth/pkg/wire"
)

// Placer says where queues are fetched.
type Placer interface {
	// Place sorts queues by session. It may ask brokers, and block until ctx ends.
	// Queues that cannot be fetched are left out; the error says why, and what
	// was placed can be fetched whatever it is.
	Place(ctx context.Context, queues []wire.QueueRef) (map[wire.SessionID][]wire.QueueRef, error)
}

// Puller takes work from queues.
type Puller interface {
	Placer
	// Open begins one fetch in an idle session and returns at once; exactly one
	// Pulled follows on Results. With nothing to bring it ends after wait; 0: when
	// it likes to.
	Open(session wire.SessionID, queues []wire.QueueRef, wait time.Duration)
	Results() <-chan wire.Pulled
	// Ack says what becomes of a record and returns at once. Whether it arrives
	// is not known, and changes nothing.
	Ack(ref wire.WorkRef, how wire.Ack)
}
