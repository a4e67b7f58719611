// SPDX-License-Identifier: Apache-2.0

package cell

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
	"sync"
	"time"

	"github.com/berth-project/berth/pkg/compute"
	"github.com/berth-project/berth/pkg/kafka"
	kafkaadmin "github.com/berth-project/berth/pkg/kafka/admin"
	"github.com/berth-project/berth/pkg/service"
)

const (
	// reachTime is how long a daemon tries to reach Kafka before it says so.
	reachTime = 3 * time.Second
	// prepareTime is how long looking at the brokers and making the cell's topics
	// may take before it is begun anew.
	prepareTime = 2 * time.Minute
	// againAfter is how soon a Kafka that cannot be used is looked at again.
	againAfter = 2 * time.Second
	// askedAgainAfter is how late, at most, rights that this process lacks are asked for again: first after againAfter,
	// and each time after twice as long. Somebody has to give them, and a thousand agents may wait for that.
	askedAgainAfter = 16 * time.Second
	// rightsTime is how long asking for rights may take.
	rightsTime = 20 * time.Second
)

// Await prepares the cell however long it takes: brokers that are not there yet,
// or too old, or that do not let us, are no reason to end. They are being
// started, upgraded or given a setting, and nobody wants to restart every
// agent afterwards. A process with a role (As) waits for its rights too. say hears
// what it waits for. The error is the end of ctx.
func (c *Cell) Await(ctx context.Context, say func(why string)) error {
	var rights seenRights
	pause := againAfter // how soon to look again
	for {
		err := c.Reach(ctx)
		if err != nil {
			err = fmt.Errorf("waiting for Kafka at %s: %w", strings.Join(c.Kafka.Brokers, ", "), err)
		} else if err = c.checkRights(ctx, &rights); err != nil {
			err = fmt.Errorf("waiting for rights on Kafka: %w", err)
		} else if err = c.tryPrepare(ctx); err != nil {
			err = fmt.Errorf("waiting for a Kafka that can be used: %w", err)
		}
		if err == nil || ctx.Err() != nil {
			return ctx.Err()
		}
		say(err.Error())
		if !service.Sleep(ctx, service.Jitter(pause)) {
			return ctx.Err()
		}
		if compute.KindOf(err) == compute.KindForbidden {
			pause = min(2*pause, askedAgainAfter)
		} else {
			pause = againAfter
		}
	}
}

// Reach answers nil once a broker answers, or why none does.
func (c *Cell) Reach(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, reachTime)
	defer cancel()
	quiet, seen := c.Kafka, &dialed{open: c.Kafka.Dial}
	quiet.Log, quiet.Dial = nil, seen.dial // the caller says it
	quiet.SASL = seen.signIn(quiet.SASL)
	admin, err := kafkaadmin.New(quiet)
	if err != nil {
		return err
	}
	defer admin.Close()
	if err := admin.WaitReachable(ctx); err != nil {
		return cmp.Or(seen.last(), err)
	}
	return nil
}

// dialed notes why the last connection could not be opened, or ended: the client
// tries again and again, and in the end says only that time was up.
type dialed struct {
	open Dialer // nil: plain TCP

	mu  sync.Mutex
	err error
}

func (d *dialed) dial(ctx context.Context, network, address string) (net.Conn, error) {
	open := d.open
	if open == nil {
		open = (&net.Dialer{}).DialContext
	}
	c, err := open(ctx, network, address)
	if err != nil {
		if ctx.Err() == nil {
			d.note(err)
		}
		return nil, err
	}
	return heard{c, d}, nil
}

// signIn notes why there is no token to sign in with.
func (d *dialed) signIn(s *kafka.SASL) *kafka.SASL {
	if s == nil || s.Token == nil {
		return s
	}
	noting := *s
	noting.Token = func() (string, error) {
		token, err := s.Token()
		if err != nil {
			d.note(err)
		}
		return token, err
	}
	return &noting
}

// note keeps the last cause; that time was up is none if there was another, for
// it may be our own time.
func (d *dialed) note(err error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	var slow net.Error
	if d.err == nil || !errors.As(err, &slow) || !slow.Timeout() {
		d.err = err
	}
}

func (d *dialed) last() error {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.err
}

// A TLS server's answer to what is not TLS begins so; no answer of Kafka does, it
// would be 336 MiB long.
const tlsAlert, tlsMajor = 21, 3

// heard is a connection whose end is noted. A broker that wants this client to log in
// says so after the connection was opened, or says nothing and hangs up.
type heard struct {
	net.Conn
	by *dialed
}

func (h heard) Read(b []byte) (int, error) {
	n, err := h.Conn.Read(b)
	switch {
	case errors.Is(err, io.EOF), n > 1 && b[0] == tlsAlert && b[1] == tlsMajor:
		h.by.note(errors.New("the broker hangs up: does this port want TLS or SASL, or other of it?"))
	case err != nil && !errors.Is(err, net.ErrClosed):
		h.by.note(err)
	}
	return n, err
}

func (c *Cell) tryPrepare(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, prepareTime)
	defer cancel()
	return c.Prepare(ctx)
}
