// SPDX-License-Identifier: Apache-2.0

package cell

import (
	"sync"

	"github.com/berth-project/berth/pkg/wire"
)

// latest is what a compacted topic says now. Its reader writes it, others read.
type latest struct {
	mu   sync.Mutex
	recs map[string]wire.Record
	news chan struct{} // holds one: something came
}

func newLatest() *latest {
	return &latest{recs: map[string]wire.Record{}, news: make(chan struct{}, 1)}
}

func (b *latest) take(recs Records, _ bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	keepLast(b.recs, recs)
	select {
	case b.news <- struct{}{}:
	default:
	}
}

func (b *latest) all() []wire.Record {
	b.mu.Lock()
	defer b.mu.Unlock()
	var out []wire.Record
	for _, r := range b.recs {
		out = append(out, r)
	}
	return out
}

// decoded is what can be read of what a record says.
func decoded[T any](b *latest, decode func(wire.Record) (T, error)) []T {
	var out []T
	for _, r := range b.all() {
		if x, err := decode(r); err == nil {
			out = append(out, x)
		}
	}
	return out
}

// keepLast is what a compacted topic says of each key.
func keepLast(into map[string]wire.Record, recs Records) {
	for _, r := range recs {
		if r.Value == nil {
			delete(into, string(r.Key))
			continue
		}
		into[string(r.Key)] = r
	}
}
