// SPDX-License-Identifier: Apache-2.0

package celltest

import (
	"context"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/berth-project/berth/pkg/client"
	"github.com/berth-project/berth/pkg/forward"
	"github.com/berth-project/berth/pkg/wire"
	"github.com/berth-project/berth/pkg/wire/rest"
)

// receiver is one of what changes of one project, and the forwarder that posts it, which ends and begins again.
type receiver struct {
	t        *testing.T
	client   *client.Client
	position forward.Position
	http     *httptest.Server
	refuses  atomic.Bool
	refused  atomic.Int64

	mu    sync.Mutex
	heard []heard
	known map[string]bool // ids
	other []string        // types of what is no change

	stop func()
}

func newReceiver(t *testing.T, c *client.Client) *receiver {
	r := &receiver{
		t:        t,
		client:   c,
		known:    map[string]bool{},
		position: forward.Position{File: filepath.Join(t.TempDir(), "position")},
	}
	r.http = httptest.NewServer(http.HandlerFunc(r.take))
	t.Cleanup(r.http.Close)
	r.start()
	t.Cleanup(func() { r.stop() })
	return r
}

// start begins a forwarder, which goes on where the one before has ended.
func (r *receiver) start() {
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		err := forward.Run(ctx, r.client.Events, forward.Options{
			To: r.http.URL, Secret: []byte("nobody looks at this one here"), HTTP: r.http.Client(), Source: "/v1/events",
			Wanted: client.Follow{}, Position: r.position, Say: func(format string, args ...any) { r.t.Logf("forward: "+format, args...) },
		})
		if err != nil {
			r.t.Errorf("the forwarder: %v", err)
		}
	}()
	r.stop = sync.OnceFunc(func() { cancel(); <-ended })
}

func (r *receiver) take(w http.ResponseWriter, req *http.Request) {
	var batch []struct {
		ID, Type string
		Data     rest.Event
	}
	if err := json.NewDecoder(req.Body).Decode(&batch); err != nil {
		r.t.Error(err)
	}
	if r.refuses.Load() {
		r.refused.Add(1)
		w.WriteHeader(http.StatusServiceUnavailable)
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, e := range batch {
		switch {
		case r.known[e.ID]: // it was posted again
		case e.Type == forward.TypeBegins, e.Type == forward.TypeEnds: // there was nothing at first
		case e.Type == forward.TypeChanged:
			goesOn, _, _ := strings.Cut(e.Data.ID, "@")
			x := e.Data
			r.heard = append(
				r.heard,
				heard{x.Project, x.Instance, x.Version, string(x.State), wire.Partition(x.Project, 4), goesOn},
			)
		default:
			r.other = append(r.other, e.Type)
		}
		r.known[e.ID] = true
	}
}

func (r *receiver) count() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return len(r.heard)
}
