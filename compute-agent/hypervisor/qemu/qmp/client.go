// SPDX-License-Identifier: Apache-2.0

package qmp

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"strconv"
	"syscall"
	"time"
)

// longest is the most one line may have; QEMU's longest answers have some 200 KB.
const longest = 4 << 20

// Client is one connection. One goroutine uses it at a time.
type Client struct {
	conn  net.Conn
	lines *bufio.Scanner
	last  int
	// OnEvent is told of events that come before an answer; nil: they are dropped.
	OnEvent func(Event)
}

// Dial connects and shakes hands. Another client on the socket, or a QEMU that
// hangs, keep it waiting until ctx ends.
func Dial(ctx context.Context, path string) (*Client, error) {
	conn, err := connect(ctx, path)
	if err != nil {
		return nil, fmt.Errorf("qmp: %w", err)
	}
	c := &Client{conn: conn, lines: bufio.NewScanner(conn)}
	c.lines.Buffer(make([]byte, 0, 4<<10), longest)
	if err := c.handshake(ctx); err != nil {
		c.Close()
		return nil, err
	}
	return c, nil
}

// connect waits for its turn: where as many wait as QEMU lets wait, which is one
// or two, a unix socket answers at once that it cannot be done now.
func connect(ctx context.Context, path string) (net.Conn, error) {
	const again = 10 * time.Millisecond
	var d net.Dialer
	for {
		conn, err := d.DialContext(ctx, "unix", path)
		if !errors.Is(err, syscall.EAGAIN) {
			return conn, err
		}
		select {
		case <-ctx.Done():
			return nil, fmt.Errorf("%w: %w", context.Cause(ctx), err)
		case <-time.After(again):
		}
	}
}

func (c *Client) handshake(ctx context.Context) error {
	err := c.within(ctx, func() error {
		for {
			m, err := c.read()
			if err != nil || m.Greeting != nil {
				return err
			}
		}
	})
	if err != nil {
		return err
	}
	return c.Do(ctx, "qmp_capabilities", nil, nil)
}

// Do runs a command and reads its answer into result, unless that is nil. A
// refusal is an *Error; after any other error the client is of no more use, and
// whether the command was carried out is not known.
func (c *Client) Do(ctx context.Context, command string, arguments, result any) error {
	c.last++
	id := strconv.Itoa(c.last)
	line, err := encode(command, arguments, id)
	if err != nil {
		return err
	}
	return c.within(ctx, func() error {
		if _, err := c.conn.Write(line); err != nil {
			return fmt.Errorf("qmp %s: %w", command, err)
		}
		for {
			m, err := c.read()
			switch {
			case err != nil:
				return err
			case m.Event != "" && c.OnEvent != nil:
				c.OnEvent(Event{m.Event, m.Data})
			case m.ID != id: // an event, or the answer to something that was given up
			case m.Error != nil:
				return &Error{Command: command, Class: m.Error.Class, Desc: m.Error.Desc}
			case result == nil:
				return nil
			default:
				return json.Unmarshal(m.Return, result)
			}
		}
	})
}

// Close ends the connection; QEMU goes on.
func (c *Client) Close() { _ = c.conn.Close() }

// within does something that ends when ctx does, with its error.
func (c *Client) within(ctx context.Context, do func() error) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	cut := context.AfterFunc(ctx, func() { _ = c.conn.SetDeadline(time.Unix(1, 0)) })
	err := do()
	if !cut() && err != nil {
		return fmt.Errorf("qmp: %w", context.Cause(ctx))
	}
	return err
}

// errClosed is answered when QEMU ends.
var errClosed = errors.New("qmp: QEMU closed the connection")

func (c *Client) read() (message, error) {
	if !c.lines.Scan() {
		if err := c.lines.Err(); err != nil {
			return message{}, fmt.Errorf("qmp: %w", err)
		}
		return message{}, errClosed
	}
	return decode(c.lines.Bytes())
}
