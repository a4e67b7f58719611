// SPDX-License-Identifier: Apache-2.0

package service

import (
	"context"
	"errors"
)

// Together is a part made of parts that do not stand on each other: they start
// at once, it is ready when all are, and they stop at once. When one ends by
// itself, all do.
func Together(parts ...Part) Part { return &together{parts: parts, ready: make(chan struct{})} }

type together struct {
	parts []Part
	ready chan struct{}
}

func (t *together) Ready() <-chan struct{} { return t.ready }

func (t *together) Run(ctx context.Context) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	ended := make(chan error, len(t.parts))
	for _, p := range t.parts {
		go func() {
			err := p.Run(ctx)
			cancel()
			ended <- err
		}()
	}
	t.await(ctx)
	var errs []error
	for range t.parts {
		errs = append(errs, <-ended)
	}
	return errors.Join(errs...)
}

// await closes ready once every part is, unless one ends before.
func (t *together) await(ctx context.Context) {
	for _, p := range t.parts {
		select {
		case <-p.Ready():
		case <-ctx.Done():
			return
		}
	}
	close(t.ready)
}
