package main

import (
	"context"
	"sync"
	"time"

	"github.com/berth-project/berth/pkg/kafka"
	"github.com/berth-project/berth/pkg/service"
)

// keepListening is how long the consoles topic is read after the last ask: who
// follows a console asks again within that.
const keepListening = 15 * time.Second

// ears read the consoles topic while somebody waits for an answer, and otherwise
// not at all: every node would get every answer. It is a part and an
// api.Listener.
type ears struct {
	reader func() *kafka.Reader // reads what comes from now on

	mu     sync.Mutex
	users  int
	last   time.Time     // when the last user went
	hears  chan struct{} // closed while the topic is read; anew each time
	wanted chan struct{} // holds a token while somebody waits for that
}

func newEars(reader func() *kafka.Reader) *ears {
	return &ears{reader: reader, hears: make(chan struct{}), wanted: make(chan struct{}, 1)}
}

// Ready is closed from the beginning.
func (e *ears) Ready() <-chan struct{} { return service.Func(nil).Ready() }

// Listen returns once nothing that is written from now on is missed, until done
// is called.
func (e *ears) Listen(ctx context.Context) (done func(), err error) {
	e.mu.Lock()
	e.users++
	hears := e.hears
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
func (e *ears) Run(ctx context.Context) error {
	for {
		select {
		case <-e.wanted:
			e.hear(ctx)
		case <-ctx.Done():
			return nil
		}
	}
}

// hear reads until nobody has listened for a while. A reader that ends by itself
// is replaced by the next one who listens.
func (e *ears) hear(ctx context.Context) {
	ctx, cancel := context.WithCancel(ctx)
	r, ended := e.reader(), make(chan struct{})
	go func() {
		defer close(ended)
		_ = r.Run(ctx) // it has said why in the log; who waits hears of no answer
	}()
	defer func() {
		cancel()
		<-ended
	}()
	select {
	case <-r.Ready():
		e.mu.Lock()
		close(e.hears)
		e.mu.Unlock()
	case <-ended:
		return
	}
	tick := time.NewTicker(keepListening / 3)
	defer tick.Stop()
	for {
		select {
		case <-ended:
			e.deaf(true)
			return
		case <-tick.C:
			if e.deaf(false) {
				return
			}
		}
	}
}

// deaf ends the time in which the topic is read, if nobody needs it any more or
// it has to be.
func (e *ears) deaf(must bool) bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	if !must && (e.users > 0 || time.Since(e.last) < keepListening) {
		return false
	}
	e.hears = make(chan struct{})
	return true
}
