package main

import (
	"cmp"
	"context"
	"fmt"
	"net"
	"strings"
	"sync"
	"time"

	"github.com/berth-project/berth/pkg/kafka"
)

const (
	// reachTime is how long a daemon tries to reach Kafka before it says so.
	reachTime = 3 * time.Second
	// prepareTime is how long looking at the brokers and making the cell's topics
	// may take before it is begun anew.
	prepareTime = 2 * time.Minute
	// againAfter is how soon a Kafka that cannot be used is looked at again.
	againAfter = 2 * time.Second
)

// await prepares the cell however long it takes: brokers that are not there yet,
// or too old, or that do not let us, are no reason to end. They are being
// started, upgraded or given a setting, and nobody wants to restart every
// agent afterwards. say hears what it waits for. The error is the end of ctx.
func (c *cell) await(ctx context.Context, say func(why string)) error {
	for {
		err := c.reach(ctx)
		if err != nil {
			err = fmt.Errorf("waiting for Kafka at %s: %w", strings.Join(c.kafka.Brokers, ", "), err)
		} else if err = c.tryPrepare(ctx); err != nil {
			err = fmt.Errorf("waiting for a Kafka that can be used: %w", err)
		}
		if err == nil || ctx.Err() != nil {
			return ctx.Err()
		}
		say(err.Error())
		if !sleep(ctx, againAfter) {
			return ctx.Err()
		}
	}
}

// reach answers nil once a broker answers, or why none does.
func (c *cell) reach(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, reachTime)
	defer cancel()
	quiet, seen := c.kafka, &dialed{open: c.kafka.Dial}
	quiet.Log, quiet.Dial = nil, seen.dial // whoever awaits says it
	admin, err := kafka.NewAdmin(quiet)
	if err != nil {
		return err
	}
	defer admin.Close()
	if err := admin.WaitReachable(ctx); err != nil {
		return cmp.Or(seen.last(), err)
	}
	return nil
}

// dialed notes why the last connection could not be opened: the client tries
// again and again, and in the end says only that time was up.
type dialed struct {
	open dialer // nil: plain TCP

	mu  sync.Mutex
	err error
}

func (d *dialed) dial(ctx context.Context, network, address string) (net.Conn, error) {
	open := d.open
	if open == nil {
		open = (&net.Dialer{}).DialContext
	}
	c, err := open(ctx, network, address)
	if ctx.Err() == nil {
		d.mu.Lock()
		defer d.mu.Unlock()
		d.err = err
	}
	return c, err
}

func (d *dialed) last() error {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.err
}

func (c *cell) tryPrepare(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, prepareTime)
	defer cancel()
	return c.prepare(ctx)
}
