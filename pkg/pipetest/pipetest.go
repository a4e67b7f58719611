// SPDX-License-Identifier: Apache-2.0

// Package pipetest has connections in memory, which tests in bubbles of virtual time need.
package pipetest

import (
	"context"
	"errors"
	"net"
	"sync/atomic"
)

// Listener accepts what is dialled to it.
type Listener struct {
	conns  chan net.Conn
	closed chan struct{}
}

func Listen() Listener { return Listener{make(chan net.Conn), make(chan struct{})} }

func (l Listener) Accept() (net.Conn, error) {
	select {
	case c := <-l.conns:
		return c, nil
	case <-l.closed:
		return nil, net.ErrClosed
	}
}

func (l Listener) Close() error {
	close(l.closed)
	return nil
}

func (l Listener) Addr() net.Addr { return &net.IPAddr{} }

// ErrRefused is what Dial answers once the listener is closed.
var ErrRefused error = &net.OpError{Op: "dial", Err: errors.New("connection refused")}

// Dial is a connection to the listener.
func (l Listener) Dial(ctx context.Context) (net.Conn, error) {
	near, far := net.Pipe()
	select {
	case l.conns <- far:
		return near, nil
	case <-l.closed:
		return nil, ErrRefused
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// FirstFades dials a listener, and has the path of the first connection go silent once it is told to.
type FirstFades struct {
	To      Listener
	dialled atomic.Int32
	silent  atomic.Bool
}

// Dial is as a transport wants it; the address does not matter.
func (f *FirstFades) Dial(ctx context.Context, _, _ string) (net.Conn, error) {
	c, err := f.To.Dial(ctx)
	if err == nil && f.dialled.Add(1) == 1 {
		return fading{c, &f.silent}, nil
	}
	return c, err
}

// Dialled is how many connections there were.
func (f *FirstFades) Dialled() int { return int(f.dialled.Load()) }

// Silence has what is sent over the first connection be lost; neither end hears of it.
func (f *FirstFades) Silence() { f.silent.Store(true) }

type fading struct {
	net.Conn
	silent *atomic.Bool
}

func (f fading) Read(p []byte) (int, error) {
	for {
		if n, err := f.Conn.Read(p); err != nil || !f.silent.Load() {
			return n, err
		}
	}
}

func (f fading) Write(p []byte) (int, error) {
	if f.silent.Load() {
		return len(p), nil
	}
	return f.Conn.Write(p)
}
