// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"context"
	"crypto/tls"
	"errors"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/berth-project/berth/pkg/pipetest"
	"github.com/berth-project/berth/pkg/tlsfiles/tlstest"
)

// TestForwarderLeavesASilentConnection: over HTTP/2 too, where a post that is given up leaves its connection open.
func TestForwarderLeavesASilentConnection(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ours := tlstest.New(t, "ours")
		l := pipetest.Listen()
		receiver := &http.Server{
			ReadHeaderTimeout: time.Minute,
			TLSConfig:         &tls.Config{Certificates: []tls.Certificate{ours.Server().Pair(t)}},
			Handler:           http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}),
		}
		go func() { _ = receiver.ServeTLS(l, "", "") }() // ends with the receiver
		defer func() { _ = receiver.Close() }()          // the connections need not end well
		path := &pipetest.FirstFades{To: l}
		c := poster()
		defer c.CloseIdleConnections()
		transport := c.Transport.(*http.Transport)
		transport.TLSClientConfig = &tls.Config{RootCAs: ours.Pool()}
		transport.DialContext = path.Dial
		post := func() error {
			ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
			defer cancel()
			req, err := http.NewRequestWithContext(ctx, http.MethodPost, "https://localhost", strings.NewReader("[]"))
			if err != nil {
				return err
			}
			resp, err := c.Do(req)
			if err != nil {
				return err
			}
			if resp.ProtoMajor != 2 {
				t.Error(resp.Proto)
			}
			return resp.Body.Close()
		}
		if err := post(); err != nil {
			t.Fatal(err)
		}
		path.Silence()
		err := errors.New("not posted")
		for range 100 { // fewer than a connection takes at once
			if err = post(); err == nil {
				break
			}
		}
		if err != nil || path.Dialled() != 2 {
			t.Errorf("%v over %d connections", err, path.Dialled())
		}
	})
}
