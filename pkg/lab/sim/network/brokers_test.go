// SPDX-License-Identifier: Apache-2.0

package network

import (
	"context"
	"errors"
	"io"
	"net"
	"os"
	"testing"
	"testing/synctest"
	"time"

	"github.com/berth-project/berth/pkg/embedded"
	"github.com/berth-project/berth/pkg/lab/sim/schedule"
)

// echo says back what it is sent, at the port of a broker.
func echo(t *testing.T, network *embedded.Network, n int) {
	t.Helper()
	ln, err := network.Listen(t.Context(), "tcp", schedule.World{Brokers: schedule.MostBrokers}.Seeds()[n])
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = ln.Close() }) // nothing is lost
	go func() {
		for {
			c, err := ln.Accept()
			if err != nil {
				return
			}
			go func() { _, _ = io.Copy(c, c); _ = c.Close() }() // it ends with its other end
		}
	}()
}

// says is what comes of a word to a broker within a second.
func says(c net.Conn) error {
	if err := c.SetDeadline(time.Now().Add(time.Second)); err != nil {
		return err
	}
	if _, err := c.Write([]byte("word")); err != nil {
		return err
	}
	_, err := io.ReadFull(c, make([]byte, 4))
	return err
}

// A process is cut from one broker, one way or both, and reaches the other.
func TestCutFromOneBroker(t *testing.T) {
	for how, broken := range map[string]bool{
		schedule.LinkMute: false, schedule.LinkDeaf: false, schedule.LinkBoth: false, schedule.LinkOff: true,
	} {
		synctest.Test(t, func(t *testing.T) {
			var network embedded.Network
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			echo(t, &network, 0)
			echo(t, &network, 1)
			l := NewLink(&network, 0, 1)
			defer l.Kill()
			dial := func(n int) net.Conn {
				c, err := l.Dial(ctx, "tcp", schedule.World{Brokers: schedule.MostBrokers}.Seeds()[n])
				if err != nil {
					t.Fatal(err)
				}
				return c
			}
			cut, other := dial(0), dial(1)
			end := l.CutWay(how, 0)
			if err := says(cut); broken && err == nil || !broken && !errors.Is(err, os.ErrDeadlineExceeded) {
				t.Errorf("%s: it hears %v", how, err)
			}
			if err := says(other); err != nil {
				t.Errorf("%s: the other broker is not reached: %v", how, err)
			}
			if _, err := l.Dial(ctx, "tcp", schedule.World{}.Seeds()[0]); err == nil {
				t.Errorf("%s: a connection is opened", how)
			}
			end()
			if err := says(dial(0)); err != nil {
				t.Errorf("%s is over, and %v", how, err)
			}
		})
	}
}

// A broker that is away is so for everybody, and for those that begin meanwhile.
func TestABrokerIsAway(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var network embedded.Network
		var all Reach
		echo(t, &network, 0)
		first := NewLink(&network, 0, 1)
		all.Add(first)
		defer first.Kill()
		c, err := first.Dial(t.Context(), "tcp", schedule.World{}.Seeds()[0])
		if err != nil {
			t.Fatal(err)
		}
		all.Leave(0)
		later := NewLink(&network, 0, 2)
		all.Add(later)
		defer later.Kill()
		if says(c) == nil {
			t.Error("a connection stays open")
		}
		for _, l := range []*Link{first, later} {
			if _, err := l.Dial(t.Context(), "tcp", schedule.World{}.Seeds()[0]); err == nil {
				t.Error("it is reached")
			}
		}
		all.Back(0)
		if _, err := later.Dial(t.Context(), "tcp", schedule.World{}.Seeds()[0]); err != nil {
			t.Error(err)
		}
	})
}
