// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"go.uber.org/zap"

	"github.com/berth-project/berth/pkg/service"
	"github.com/berth-project/berth/pkg/statusserver"
)

// TestStopDelay: a node that is told to stop says at once that it is not ready, and serves until its delay is over.
func TestStopDelay(t *testing.T) {
	face := statusserver.New(statusserver.Options{Address: "127.0.0.1:0"})
	g := service.NewGroup()
	g.Add("status", face)
	g.Add("api", face.Serving(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		_, _ = io.WriteString(w, "served")
	})))
	broken := make(chan struct{}) // has the node end, so that nothing waits for the delay
	g.Add("broken", service.Func(func(ctx context.Context) error {
		select {
		case <-broken:
		case <-ctx.Done():
		}
		return nil
	}))
	r := statusReporter{face: face, serves: true, notify: func(string) {}, log: zap.NewNop()}
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- r.through(ctx, g, time.Hour) }()
	<-g.Ready()
	get := func(path string) (int, string) {
		t.Helper()
		resp, err := http.Get("http://" + face.Addr().String() + path)
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = resp.Body.Close() }()
		body, err := io.ReadAll(resp.Body)
		if err != nil {
			t.Fatal(err)
		}
		return resp.StatusCode, string(body)
	}
	if code, body := get("/readyz"); code != http.StatusOK {
		t.Errorf("before: %d %s", code, body)
	}
	stop()
	for code, body := get("/readyz"); code == http.StatusOK; code, body = get("/readyz") {
		if body != "served" {
			t.Fatal(body)
		}
	}
	if code, body := get("/readyz"); code != http.StatusServiceUnavailable || !strings.Contains(body, "stopping") {
		t.Errorf("readyz: %d %s", code, body)
	}
	if code, body := get("/v1/instances"); code != http.StatusOK || body != "served" {
		t.Errorf("it does not serve any more: %d %s", code, body)
	}
	close(broken)
	if err := <-ended; err != nil {
		t.Error(err)
	}
	if delay := defaultAPIConfig().face().stopDelay; delay != 5*time.Second {
		t.Errorf("by default the delay is %s", delay)
	}
}
