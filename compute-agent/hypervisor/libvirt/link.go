// SPDX-License-Identifier: Apache-2.0

package libvirt

import (
	"context"
	"errors"
	"fmt"
	"net"
	"time"

	libvirt "github.com/digitalocean/go-libvirt"
)

// How long libvirt may take: a call in which it only writes down or reads, and one
// in which it starts or ends QEMU.
const (
	shortTime = 20 * time.Second
	longTime  = 2 * time.Minute
)

// errLost is the end of a connection in the middle of a call: nobody knows how far
// libvirt got.
var errLost = errors.New("the connection to libvirt ended in the middle of a call")

// conn is a connection for one call or a few.
type conn struct {
	*libvirt.Libvirt
	gone context.Context // canceled when a read has failed, after which none follows
}

// short calls libvirt, which will not take long, so that a context that ends
// meanwhile does not break it off: what is broken off may still be done later.
func (d *Driver) short(ctx context.Context, call func(conn) error) error {
	if ctx.Err() != nil {
		return ctx.Err()
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), shortTime)
	defer cancel()
	return d.call(ctx, call)
}

// long calls libvirt, which may take a while. When ctx ends, libvirt may still be
// at it.
func (d *Driver) long(ctx context.Context, call func(conn) error) error {
	ctx, cancel := context.WithTimeout(ctx, longTime)
	defer cancel()
	return d.call(ctx, call)
}

// call opens a connection, which ends with ctx. The library knows no contexts.
func (d *Driver) call(ctx context.Context, call func(conn) error) error {
	c, hangUp, err := d.connect(ctx)
	if err != nil {
		return err
	}
	defer hangUp()
	if err = call(c); errors.Is(err, libvirt.ErrInterrupted) || err != nil && ctx.Err() != nil {
		err = fmt.Errorf("%w: %w", errLost, errors.Join(err, ctx.Err()))
	}
	return err
}

func (d *Driver) connect(ctx context.Context) (c conn, hangUp func(), err error) {
	socket, err := (&net.Dialer{}).DialContext(ctx, "unix", d.o.Socket)
	if err != nil {
		return c, nil, fmt.Errorf(
			"libvirt cannot be reached; see that libvirtd runs and that the agent's user may use its socket: %w",
			err,
		)
	}
	cut := context.AfterFunc(ctx, func() { _ = socket.Close() })
	gone, end := context.WithCancel(context.WithoutCancel(ctx))
	c = conn{libvirt.NewWithDialer(dialer{socket, end}), gone}
	hangUp = func() {
		_ = c.Disconnect() // says goodbye, which keeps libvirt's log quiet
		cut()
		_ = socket.Close()
	}
	if err := c.ConnectToURI(libvirt.ConnectURI(d.o.URI)); err != nil {
		cut()
		_ = socket.Close()
		return c, nil, fmt.Errorf(
			"libvirt at %s does not open %s: %w", d.o.Socket, d.o.URI, errors.Join(err, ctx.Err()),
		)
	}
	return c, hangUp, nil
}

// dialer gives a connection that is there already, and hears of its end.
type dialer struct {
	net.Conn
	end func()
}

func (d dialer) Dial() (net.Conn, error) { return d, nil }

func (d dialer) Read(b []byte) (int, error) {
	n, err := d.Conn.Read(b)
	if err != nil {
		d.end()
		_ = d.Close()
	}
	return n, err
}

// is says whether libvirt answered with one of these.
func is(err error, codes ...libvirt.ErrorNumber) bool {
	var e libvirt.Error
	if errors.As(err, &e) {
		for _, code := range codes {
			if e.Code == uint32(code) {
				return true
			}
		}
	}
	return false
}
