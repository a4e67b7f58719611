// SPDX-License-Identifier: Apache-2.0

package kafka

import (
	"context"
	"errors"
	"io"
	"net"
	"testing"
	"testing/synctest"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/berth-project/berth/pkg/embedded"
	"github.com/berth-project/berth/pkg/wire"
)

// A caller that tries again at once does not spin, and one that gives up does not wait.
func TestRefusalTakesAMoment(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		dial := impatient(func(context.Context, string, string) (net.Conn, error) { return nil, io.ErrClosedPipe })
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

// A connection is for all later callers, not only for the one that opened it.
func TestConnectionOutlivesWhoOpenedIt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var network embedded.Network
		b, err := embedded.Start(embedded.Options{
			Listen: func(n, a string) (net.Listener, error) { return network.Listen(t.Context(), n, a) },
		})
		if err != nil {
			t.Fatal(err)
		}
		defer b.Close()
		dials := 0
		cl, err := NewClient(Config{
			Brokers: b.Addrs(),
			Topics:  wire.Topics{Prefix: "t."},
			Dial: func(ctx context.Context, n, addr string) (net.Conn, error) {
				dials++
				return network.Dial(ctx, n, addr)
			},
		})
		if err != nil {
			t.Fatal(err)
		}
		defer cl.Close()
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
