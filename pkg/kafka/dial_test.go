// SPDX-License-Identifier: Apache-2.0

package kafka

import (
	"context"
	"errors"
	"io"
	"net"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/berth-project/berth/pkg/embedded"
	"github.com/berth-project/berth/pkg/kafka/internal/pace"
	"github.com/berth-project/berth/pkg/service"
	"github.com/berth-project/berth/pkg/wire"
)

// A caller that tries again at once does not spin, and one that gives up does not wait.
func TestRefusalTakesAMoment(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		dial := newConnections(
			func(context.Context, string, string) (net.Conn, error) { return nil, io.ErrClosedPipe }).open
		began := time.Now()
		if _, err := dial(
			t.Context(), "tcp", "localhost:9092",
		); !errors.Is(err, io.ErrClosedPipe) || time.Since(began) != refusedPause {
			t.Errorf("after %s: %v", time.Since(began), err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		began = time.Now()
		if _, err := dial(ctx, "tcp", "localhost:9092"); err == nil || time.Since(began) != 0 {
			t.Errorf("called off, and after %s: %v", time.Since(began), err)
		}
	})
}

// unreachable dials a broker that never answers.
func unreachable(ctx context.Context, _, _ string) (net.Conn, error) {
	<-ctx.Done()
	return nil, ctx.Err()
}

// spoken is a connection on which the broker says a word, and ends it.
func spoken() net.Conn {
	c, broker := net.Pipe()
	go func() {
		_, _ = broker.Write([]byte{1})
		_ = broker.Close()
	}()
	return c
}

// Each connection to an address where the one before was late is given longer, until one was made. One that was called
// off is given nothing, and does not count; nor does one that nobody waits for any more.
func TestLateConnectionsAreGivenLonger(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const patience = time.Second
		answers := false
		var opened context.Context
		conns := newConnections(func(ctx context.Context, _, _ string) (net.Conn, error) {
			if opened = ctx; answers {
				return spoken(), nil
			}
			return unreachable(ctx, "", "")
		})
		open := func(ctx context.Context, want time.Duration, wantErr error) {
			t.Helper()
			began := time.Now()
			_, err := conns.open(ctx, "tcp", "b")
			if took := time.Since(began); took != want || !errors.Is(err, wantErr) {
				t.Errorf("ended after %s with %v, want %s with %v", took, err, want, wantErr)
			}
		}
		for _, longer := range []time.Duration{0, pace.AskTimeout, 2 * pace.AskTimeout, 2 * pace.AskTimeout} {
			ctx, cancel := context.WithTimeout(t.Context(), patience)
			open(ctx, patience+longer, context.DeadlineExceeded)
			open(ctx, 0, context.DeadlineExceeded)
			cancel()
			ctx, cancel = context.WithTimeout(t.Context(), patience)
			time.AfterFunc(patience/2, cancel)
			open(ctx, patience/2, context.Canceled)
		}
		answers = true
		c, err := conns.open(t.Context(), "tcp", "b")
		if err != nil {
			t.Fatal(err)
		}
		if _, err := c.Read(make([]byte, 1)); err != nil {
			t.Fatal(err)
		}
		_ = c.Close()
		if opened.Err() == nil {
			t.Error("a closed connection still holds its context")
		}
		c, err = conns.open(t.Context(), "tcp", "b")
		if err != nil {
			t.Fatal(err)
		}
		if _ = c.Close(); opened.Err() == nil {
			t.Error("one that was closed before the broker spoke still holds its context")
		}
		answers = false
		ctx, cancel := context.WithTimeout(t.Context(), patience)
		defer cancel()
		open(ctx, patience, context.DeadlineExceeded)
	})
}

// While connections take longer than callers wait, each is given longer, not each second one. One that its caller was
// there for ends that.
func TestLateConnectionsAreMade(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		takes := 4 * time.Second
		conns := newConnections(func(ctx context.Context, _, _ string) (net.Conn, error) {
			if !service.Sleep(ctx, takes) {
				return nil, ctx.Err()
			}
			return spoken(), nil
		})
		made := func() bool {
			ctx, cancel := context.WithTimeout(t.Context(), 3*time.Second)
			defer cancel()
			c, err := conns.open(ctx, "tcp", "b")
			if err != nil {
				return false
			}
			defer func() { _ = c.Close() }()
			_, err = c.Read(make([]byte, 1))
			return err == nil
		}
		for i, want := range []bool{false, true, true, true} {
			if got := made(); got != want {
				t.Errorf("connection %d was made: %t", i, got)
			}
		}
		takes = time.Second
		made()
		takes = 4 * time.Second
		if made() {
			t.Error("after one that was made in time, it is given longer still")
		}
	})
}

// A client that ends ends the connections that are being opened, and each has a reason.
func TestClientEndsWhileAConnectionIsOpened(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for name, dial := range map[string]dialer{
			"no answer to the connection": unreachable,
			"no answer on it": func(context.Context, string, string) (net.Conn, error) {
				c, broker := net.Pipe()
				t.Cleanup(func() { _ = broker.Close() })
				return c, nil
			},
		} {
			conns := newConnections(dial)
			cl, err := kgo.NewClient(kgo.SeedBrokers("b:1"), kgo.WithHooks(conns))
			if err != nil {
				t.Fatal(err)
			}
			open := func() error {
				ctx, cancel := context.WithTimeout(t.Context(), time.Second)
				defer cancel()
				c, err := conns.open(ctx, "tcp", "b:1")
				if err != nil {
					return err
				}
				defer func() { _ = c.Close() }()
				_, err = c.Read(make([]byte, 1))
				return err
			}
			_ = open() // late
			time.AfterFunc(time.Second/2, cl.Close)
			began := time.Now()
			if err := open(); err == nil || time.Since(began) >= time.Second {
				t.Errorf("%s: ended after %s with %v", name, time.Since(began), err)
			}
		}
	})
}

// A connection on which the broker says nothing ends with what it was opened under, which is told why.
func TestSilentConnectionEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		conns := newConnections(func(context.Context, string, string) (net.Conn, error) {
			c, broker := net.Pipe()
			t.Cleanup(func() { _ = broker.Close() })
			return c, nil
		})
		const patience = time.Second
		ctx, cancel := context.WithTimeout(t.Context(), patience)
		defer cancel()
		c, err := conns.open(ctx, "tcp", "b")
		if err != nil {
			t.Fatal(err)
		}
		time.AfterFunc(2*patience, func() { _ = c.Close() })
		began := time.Now()
		_, err = c.Read(make([]byte, 1))
		if took := time.Since(began); took != patience || !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("ended after %s with %v", took, err)
		}
	})
}

// embeddedClient is a client of an embedded broker, which it reaches as it is told.
func embeddedClient(
	t *testing.T, dial func(ctx context.Context, n, addr string, dial dialer) (net.Conn, error),
) *kgo.Client {
	var network embedded.Network
	b, err := embedded.Start(embedded.Options{
		Listen: func(n, a string) (net.Listener, error) { return network.Listen(t.Context(), n, a) },
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(b.Close)
	cl, err := NewClient(Config{
		Brokers: b.Addrs(),
		Topics:  wire.Topics{Prefix: "t."},
		Dial: func(ctx context.Context, n, addr string) (net.Conn, error) {
			return dial(ctx, n, addr, network.Dial)
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(cl.Close)
	return cl
}

// A connection is for all later callers, not only for the one that opened it.
func TestConnectionOutlivesWhoOpenedIt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		dials := 0
		cl := embeddedClient(t, func(ctx context.Context, n, addr string, dial dialer) (net.Conn, error) {
			dials++
			return dial(ctx, n, addr)
		})
		for range 5 {
			ctx, cancel := context.WithCancel(t.Context())
			if _, err := cl.Request(ctx, kmsg.NewPtrMetadataRequest()); err != nil {
				t.Error(err)
			}
			cancel()
			synctest.Wait()
		}
		if dials > 2 { // once to ask which brokers there are, once to the one it found
			t.Errorf("dialled %d times, want twice", dials)
		}
	})
}

// slowConn is a connection on which an answer comes no sooner than a while after what was last asked.
type slowConn struct {
	net.Conn
	by    time.Duration
	asked atomic.Int64 // when, in nanoseconds
}

func (c *slowConn) Write(b []byte) (int, error) {
	c.asked.Store(time.Now().UnixNano())
	return c.Conn.Write(b)
}

func (c *slowConn) Read(b []byte) (int, error) {
	n, err := c.Conn.Read(b)
	time.Sleep(time.Until(time.Unix(0, c.asked.Load()).Add(c.by)))
	return n, err
}

// A question that is given up before a connection is open leaves one to those that come later, however long it takes.
func TestSlowConnectionsAreMade(t *testing.T) {
	const patience, most = 3 * time.Second, 4
	for _, by := range []time.Duration{patience / 4, patience * 5 / 9, patience * 5 / 8} {
		synctest.Test(t, func(t *testing.T) {
			cl := embeddedClient(t, func(ctx context.Context, n, addr string, dial dialer) (net.Conn, error) {
				if !service.Sleep(ctx, by) {
					return nil, ctx.Err()
				}
				c, err := dial(ctx, n, addr)
				if err != nil {
					return nil, err
				}
				return &slowConn{Conn: c, by: by}, nil
			})
			for tries := 1; ; tries++ {
				ctx, cancel := context.WithTimeout(t.Context(), patience)
				_, err := cl.SeedBrokers()[0].Request(ctx, kmsg.NewPtrMetadataRequest())
				cancel()
				if err == nil {
					break
				}
				if tries == most {
					t.Fatalf("where all that is sent takes %s, no answer to %d questions: %v", by, most, err)
				}
			}
		})
	}
}

// A broker that cannot be reached, or that says nothing, holds up no caller for longer than its context lasts, nor the
// end of the client, however often it was tried.
func TestSilentBrokersHoldUpNobody(t *testing.T) {
	for name, dial := range map[string]dialer{
		"no answer to the connection": unreachable,
		"no answer on it": func(context.Context, string, string) (net.Conn, error) {
			c, broker := net.Pipe()
			go func() { _, _ = io.Copy(io.Discard, broker) }() // ends with the connection
			return c, nil
		},
	} {
		synctest.Test(t, func(t *testing.T) {
			cl, err := NewClient(Config{
				Brokers: []string{"localhost:9092"}, Topics: wire.Topics{Prefix: "t."}, Dial: dial,
			})
			if err != nil {
				t.Fatal(err)
			}
			const patience = 3 * time.Second
			for range 5 {
				ctx, cancel := context.WithTimeout(t.Context(), patience)
				began := time.Now()
				_, err := Prompt(cl).Request(ctx, kmsg.NewPtrMetadataRequest())
				if took := time.Since(began); !errors.Is(err, context.DeadlineExceeded) || took != patience {
					t.Errorf("%s: after %s: %v", name, took, err)
				}
				cancel()
			}
			cl.ForceMetadataRefresh() // which waits for the brokers too, without an end
			synctest.Wait()
			began := time.Now()
			cl.Close()
			if took := time.Since(began); took != 0 {
				t.Errorf("%s: the client ended after %s", name, took)
			}
		})
	}
}
