// SPDX-License-Identifier: Apache-2.0

package cell

import (
	"context"
	"sync"
	"time"

	"github.com/berth-project/berth/pkg/kafka/read"
	"github.com/berth-project/berth/pkg/service"
)

// keepListening is how long the consoles topic is read after the last ask: a client that
// follows a console asks again within that.
const keepListening = 15 * time.Second

// consoleReader reads the consoles topic while somebody waits for an answer, and otherwise
// not at all: every node would get every answer. It is a part and an
// api.Listener.
type consoleReader struct {
	reader func() *read.Reader // reads what comes from now on

	mu      sync.Mutex
	users   int
	last    time.Time     // when the last user went
	reading chan struct{} // closed while the topic is read; anew each time
	wanted  chan struct{} // holds a token while somebody waits for that
}

func newConsoleReader(reader func() *read.Reader) *consoleReader {
	return &consoleReader{reader: reader, reading: make(chan struct{}), wanted: make(chan struct{}, 1)}
}

// Ready is closed from the beginning.
func (e *consoleReader) Ready() <-chan struct{} { return service.Func(nil).Ready() }

// Listen returns once nothing that is written from now on is missed, until done
// is called.
func (e *consoleReader) Listen(ctx context.Context) (done func(), err error) {
	e.mu.Lock()
	e.users++
	hears := e.reading
	e.mu.Unlock()
	done = func() {
		e.mu.Lock()
		defer e.mu.Unlock()
		e.users, e.last = e.users-1, time.Now()
	}
	select {
	case e.wanted <- struct{}{}:
	default:
	}
	select {
	case <-hears:
		return done, nil
	case <-ctx.Done():
		done()
		return nil, ctx.Err()
	}
}

// Run reads whenever somebody listens.
func (e *consoleReader) Run(ctx context.Context) error {
	for {
		select {
		case <-e.wanted:
			e.readWhileUsed(ctx)
		case <-ctx.Done():
			return nil
		}
	}
}

// readWhileUsed reads until nobody has listened for a while. A reader that ends by itself
// is replaced at the next call of Listen.
func (e *consoleReader) readWhileUsed(ctx context.Context) {
	ctx, cancel := context.WithCancel(ctx)
	r, ended := e.reader(), make(chan struct{})
	go func() {
		defer close(ended)
		_ = r.Run(ctx) // it has said why in the log; asks that wait get no answer
	}()
	defer func() {
		cancel()
		<-ended
	}()
	select {
	case <-r.Ready():
		e.mu.Lock()
		close(e.reading)
		e.mu.Unlock()
	case <-ended:
		return
	}
	tick := time.NewTicker(keepListening / 3)
	defer tick.Stop()
	for {
		select {
		case <-ended:
			e.endIfUnused(true)
			return
		case <-tick.C:
			if e.endIfUnused(false) {
				return
			}
		}
	}
}

// endIfUnused ends the time in which the topic is read, if nobody needs it any more or
// it has to be.
func (e *consoleReader) endIfUnused(must bool) bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	if !must && (e.users > 0 || time.Since(e.last) < keepListening) {
		return false
	}
	e.reading = make(chan struct{})
	return true
}
