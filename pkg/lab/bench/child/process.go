// SPDX-License-Identifier: Apache-2.0

package child

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os/exec"
	"sync"
	"syscall"
	"time"
)

// Options say which process to start.
type Options struct {
	Command []string  // program and arguments; the program calls Serve
	Order   any       // what the child is to do, as JSON
	Stderr  io.Writer // where the child's own log goes
}

// Process is a part that works in another process. It may be asked from any
// goroutine.
type Process struct {
	o     Options
	ready chan struct{}
	ended chan struct{}

	mu     sync.Mutex // one question at a time
	in     *json.Encoder
	number int // of the last question

	answers chan message
	told    message // of kind ready; before ready is closed
	last    message // of kind last; before ended is closed
}

// New is a process that has not started. Nothing is started before it runs.
func New(o Options) *Process {
	return &Process{o: o, ready: make(chan struct{}), ended: make(chan struct{}), answers: make(chan message, 1)}
}

// Ready is closed when the child's part is ready.
func (p *Process) Ready() <-chan struct{} { return p.ready }

// endTime is how long a child may take to stop before it is killed.
const endTime = 30 * time.Second

// Run starts the process and keeps it until ctx ends: then the child's input does,
// and it is waited for.
func (p *Process) Run(ctx context.Context) error {
	defer close(p.ended)
	cmd := exec.Command(p.o.Command[0], p.o.Command[1:]...)
	cmd.Stderr = p.o.Stderr
	// What the user's terminal sends to the parent is not for the child: the parent
	// ends it in its turn.
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	in, err := cmd.StdinPipe()
	if err != nil {
		return err
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		return errors.Join(err, in.Close())
	}
	if err := cmd.Start(); err != nil {
		return err
	}
	end := context.AfterFunc(ctx, func() {
		_ = in.Close() // a second time, if the child has ended
		kill := time.AfterFunc(endTime, func() { _ = cmd.Process.Kill() })
		<-p.ended
		kill.Stop()
	})
	defer end()
	err = p.talk(in, out)
	err = errors.Join(err, cmd.Wait())
	switch {
	case err != nil:
		return fmt.Errorf("%s: %w", cmd, err)
	case p.last.Error != "":
		return errors.New(p.last.Error)
	case ctx.Err() == nil:
		return fmt.Errorf("%s ended by itself", cmd)
	}
	return nil
}

// talk says what to do, and hears the child until it says no more.
func (p *Process) talk(in io.Writer, out io.Reader) error {
	p.mu.Lock()
	p.in = json.NewEncoder(in)
	err := p.in.Encode(p.o.Order)
	p.mu.Unlock()
	if err != nil {
		return err
	}
	for lines := json.NewDecoder(out); ; {
		var m message
		if err := lines.Decode(&m); errors.Is(err, io.EOF) {
			return nil
		} else if err != nil {
			return err
		}
		switch m.Kind {
		case saysReady:
			p.told = m
			close(p.ready)
		case saysAnswer:
			p.receive(m)
		case saysLast:
			p.last = m
		}
	}
}

// receive keeps an answer until it is taken; one that nobody waits for any more makes
// room for it.
func (p *Process) receive(m message) {
	for {
		select {
		case p.answers <- m:
			return
		default:
		}
		select {
		case <-p.answers:
		default:
		}
	}
}

// Ask has the child report, into what v points to.
func (p *Process) Ask(ctx context.Context, v any) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.in == nil {
		return errors.New("has not started")
	}
	p.number++
	if err := p.in.Encode(question{p.number}); err != nil {
		return err
	}
	for {
		select {
		case m := <-p.answers:
			if m.Question == p.number {
				return m.into(v)
			}
		case <-p.ended:
			return errors.New("has ended")
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// Told is what the child said when it was ready. It waits for that.
func (p *Process) Told(v any) error {
	select {
	case <-p.ready:
		return p.told.into(v)
	case <-p.ended:
		return errors.New("has ended")
	}
}

// Last is what the child said when its part had ended. It waits for the end of Run.
func (p *Process) Last(v any) error {
	<-p.ended
	return p.last.into(v)
}

func (m message) into(v any) error {
	switch {
	case m.Error != "":
		return errors.New(m.Error)
	case m.Body == nil:
		return errors.New("it said nothing")
	}
	return json.Unmarshal(m.Body, v)
}
