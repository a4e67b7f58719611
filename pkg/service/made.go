// SPDX-License-Identifier: Apache-2.0

package service

import "context"

// Made is a part that is made only when it runs, so that one whose turn to run
// never comes holds nothing. build may wait for others until ctx ends; an error
// after that is no failure of the part.
func Made(build func(ctx context.Context) (Part, error)) Part {
	return &made{build: build, ready: make(chan struct{})}
}

type made struct {
	build func(ctx context.Context) (Part, error)
	ready chan struct{}
}

func (m *made) Ready() <-chan struct{} { return m.ready }

func (m *made) Run(ctx context.Context) error {
	part, err := m.build(ctx)
	switch {
	case err == nil:
	case ctx.Err() != nil:
		return nil
	default:
		return err
	}
	ended := make(chan error, 1)
	go func() { ended <- part.Run(ctx) }()
	select {
	case <-part.Ready():
		close(m.ready)
	case err := <-ended:
		return err
	}
	return <-ended
}
