// SPDX-License-Identifier: Apache-2.0

package client

import (
	"context"
	"crypto/tls"
	"fmt"
	"io"
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	"github.com/berth-project/berth/pkg/pipetest"
	"github.com/berth-project/berth/pkg/tlsfiles/tlstest"
)

// TestSilentConnectionIsLeft: over HTTP/2, where a request that is given up leaves its connection open, requests and a
// stream of events find another connection once the path of theirs has gone silent.
func TestSilentConnectionIsLeft(t *testing.T) {
	for name, asks := range map[string]func(ctx context.Context, c *Client, goSilent func()) error{
		"requests": func(ctx context.Context, c *Client, goSilent func()) error {
			if caller, err := c.Whoami(ctx); err != nil || caller.ID != "HTTP/2.0" {
				return fmt.Errorf("%+v, %w", caller, err)
			}
			goSilent()
			var err error
			for ctx.Err() == nil {
				if _, err = c.Whoami(ctx); err == nil {
					return nil
				}
			}
			return err
		},
		"events": func(ctx context.Context, c *Client, goSilent func()) error {
			heard := 0
			for _, err := range c.Events(ctx, Follow{}) {
				if heard++; err != nil || heard == 2 {
					return err
				}
				goSilent()
			}
			return fmt.Errorf("%d heard", heard)
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				ours := tlstest.New(t, "ours")
				l := pipetest.Listen()
				node := &http.Server{
					ReadHeaderTimeout: time.Minute,
					TLSConfig:         &tls.Config{Certificates: []tls.Certificate{ours.Server().Pair(t)}},
					Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
						if r.URL.Path != "/v1/events" {
							whoami(w, r)
							return
						}
						w.Header().Set("Content-Type", "text/event-stream")
						_, _ = io.WriteString(w, change("3:2", "a")) // the caller may have gone
						_ = http.NewResponseController(w).Flush()
						<-r.Context().Done()
					}),
				}
				go func() { _ = node.ServeTLS(l, "", "") }() // ends with the node
				defer func() { _ = node.Close() }()          // the connections need not end well
				path := &pipetest.FirstFades{To: l}
				ca := tlstest.Write(t, t.TempDir(), "ca.pem", ours.PEM)
				c, err := New(Config{
					Address: "https://localhost", TLS: TLS{CA: ca}, Dial: path.Dial, Timeout: 5 * time.Second, Patience: -1,
				})
				if err != nil {
					t.Fatal(err)
				}
				defer c.Close()
				// Sooner than the kernel would give up, and than as many requests are open as a connection takes.
				ctx, cancel := context.WithTimeout(t.Context(), 10*time.Minute)
				defer cancel()
				if err := asks(ctx, c, path.Silence); err != nil || path.Dialled() != 2 {
					t.Errorf("%v over %d connections", err, path.Dialled())
				}
			})
		})
	}
}
