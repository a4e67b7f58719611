// SPDX-License-Identifier: Apache-2.0

package child

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"

	"github.com/berth-project/berth/pkg/service"
)

// Work is what a child does, and what it says about it. None of the functions may
// be nil.
type Work struct {
	Part   service.Part
	Ready  func() (any, error) // asked once, when the part is ready
	Report func() (any, error) // asked for each question, while the part runs
	Last   func() (any, error) // asked once, after the part has ended without an error
}

// Serve is a child's whole life: it reads the order, runs what begin makes of it,
// and answers questions, until in or ctx ends or the part does. A goroutine goes on
// reading in until that ends.
func Serve(ctx context.Context, in io.Reader, out io.Writer, begin func(order json.RawMessage) (Work, error)) error {
	lines := json.NewDecoder(in)
	var order json.RawMessage
	if err := lines.Decode(&order); err != nil {
		return fmt.Errorf("read what to do: %w", err)
	}
	w, err := begin(order)
	if err != nil {
		return err
	}
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	s := server{w, json.NewEncoder(out)}
	questions := make(chan question)
	go func() {
		defer stop()
		for {
			var q question
			if lines.Decode(&q) != nil {
				return
			}
			select {
			case questions <- q:
			case <-ctx.Done():
				return
			}
		}
	}()
	answer := func(ctx context.Context) error { return s.answer(ctx, questions) }
	if err := service.During(ctx, w.Part, answer); err != nil {
		return err
	}
	return s.tell(say(saysLast, 0, w.Last))
}

// server is the end of a child that speaks.
type server struct {
	work Work
	out  *json.Encoder
}

func (s server) answer(ctx context.Context, questions <-chan question) error {
	if err := s.tell(say(saysReady, 0, s.work.Ready)); err != nil {
		return err
	}
	for {
		select {
		case q := <-questions:
			if err := s.tell(say(saysAnswer, q.Number, s.work.Report)); err != nil {
				return err
			}
		case <-ctx.Done():
			return nil
		}
	}
}

func (s server) tell(m message) error {
	if err := s.out.Encode(m); err != nil {
		return errors.Join(errors.New("the parent does not listen"), err)
	}
	return nil
}
