// SPDX-License-Identifier: Apache-2.0

package celltest

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"math/rand/v2"
	"net"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/google/uuid"

	"github.com/berth-project/berth/pkg/compute"
	"github.com/berth-project/berth/pkg/wire/rest"
)

// stream asks for machines at a rate, whatever becomes of them, and lets as
// many be deleted as keep the hosts as full as the form says. Each request is repeated,
// at one API node and the other, until it is accepted.
type stream struct {
	c    *chaos
	apis []string
	http *http.Client

	stop chan struct{}
	all  sync.WaitGroup

	mu    sync.Mutex
	boots map[compute.InstanceID]*boot
	alive []begun        // active, oldest first, and not to be deleted yet
	heard int            // so many of the witness's are in there
	begun int            // of all asked for
	said  map[string]int // what clients were told instead of "accepted", since the row began
	wrong []string       // answers that no careful client should get
}

// boot is one machine that was asked for.
type boot struct {
	project  compute.Project
	asked    time.Time
	accepted time.Time // zero: not yet
	gone     bool      // its end was asked for
}

func (c *chaos) streams(apis []string) *stream {
	return &stream{
		c: c, apis: apis, stop: make(chan struct{}),
		http:  &http.Client{Timeout: 30 * time.Second, Transport: &http.Transport{MaxIdleConnsPerHost: 64}},
		boots: map[compute.InstanceID]*boot{}, said: map[string]int{},
	}
}

func (s *stream) begin() {
	s.all.Go(func() {
		tick := time.NewTicker(time.Second / time.Duration(s.c.rate))
		defer tick.Stop()
		for {
			select {
			case <-tick.C:
				s.boot()
				s.makeRoom()
			case <-s.stop:
				return
			}
		}
	})
	s.c.t.Cleanup(s.http.CloseIdleConnections)
}

// end asks for no more, and returns when all that was asked for is accepted.
func (s *stream) end() {
	s.c.t.Helper()
	close(s.stop)
	done := make(chan struct{})
	go func() { s.all.Wait(); close(done) }()
	select {
	case <-done:
	case <-time.After(longSuffering):
		s.mu.Lock()
		defer s.mu.Unlock()
		s.c.t.Fatalf("some of %d requests are not accepted; clients were told %v", len(s.boots), s.said)
	}
}

// boot asks for one machine.
func (s *stream) boot() {
	id := compute.InstanceID(uuid.NewString())
	s.mu.Lock()
	n := s.begun
	s.begun++
	b := &boot{project: s.c.users[n%len(s.c.users)].Project(), asked: time.Now()}
	s.boots[id] = b
	s.mu.Unlock()
	body, _ := json.Marshal(rest.Boot{ID: id, Project: b.project, Flavor: s.c.flavors[n%len(s.c.flavors)].Name})
	s.all.Go(func() {
		if !s.insist(n, http.MethodPost, "/v1/instances", body) {
			return
		}
		s.mu.Lock()
		b.accepted = time.Now()
		if rand.N(20) == 0 { // its owner has thought better of it, whatever its state is
			s.remove(id)
		}
		s.mu.Unlock()
	})
}

// makeRoom asks for the end of the oldest active ones, if there are too many. While hosts are cut off, those on the
// others count alone: else the others would be full soon, and nothing would be placed until they are back.
func (s *stream) makeRoom() {
	s.c.seen.mu.Lock()
	began := s.c.seen.began
	s.c.seen.mu.Unlock()
	s.mu.Lock()
	defer s.mu.Unlock()
	s.alive = append(s.alive, began[s.heard:]...)
	s.heard = len(began)
	hosts, reached := s.c.agents, func(begun) bool { return true }
	if s.c.line.isCut() {
		hosts, reached = s.c.rack, func(b begun) bool { return !s.c.cuttable(b.on) }
	}
	over := -hosts * perHost * s.c.full / 100
	for _, b := range s.alive {
		if reached(b) {
			over++
		}
	}
	s.alive = slices.DeleteFunc(s.alive, func(b begun) bool {
		if over <= 0 || !reached(b) {
			return false
		}
		over--
		s.remove(b.id)
		return true
	})
}

// remove asks for the end of one, once. The caller holds the lock.
func (s *stream) remove(id compute.InstanceID) {
	b := s.boots[id]
	if b.gone {
		return
	}
	b.gone = true
	path := "/v1/instances/" + string(id) + "?project=" + url.QueryEscape(string(b.project))
	s.all.Go(func() { s.insist(rand.N(len(s.apis)), http.MethodDelete, path, nil) })
}

// insist repeats a request until it is accepted or the test is over.
func (s *stream) insist(n int, method, path string, body []byte) bool {
	for try := 0; ; try++ {
		told, after := s.ask(s.apis[(n+try)%len(s.apis)], method, path, body)
		if told == "" {
			return true
		}
		s.mu.Lock()
		s.said[told]++
		s.mu.Unlock()
		after = max(after, 200*time.Millisecond)
		select {
		case <-time.After(after + rand.N(after/2)): // as the API asked, and not all at once
		case <-s.c.t.Context().Done():
			return false
		}
	}
}

// ask is one try: what the client was told if not "accepted", and when to come again.
func (s *stream) ask(api, method, path string, body []byte) (told string, after time.Duration) {
	req, err := http.NewRequestWithContext(s.c.t.Context(), method, "http://"+api+path, bytes.NewReader(body))
	if err != nil {
		return err.Error(), 0
	}
	req.Header.Set("Content-Type", "application/json")
	resp, err := s.http.Do(req)
	if err != nil {
		return unreached(err), 0
	}
	defer func() { _ = resp.Body.Close() }()
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		return unreached(err), 0
	}
	switch resp.StatusCode {
	case http.StatusAccepted:
		return "", 0
	case http.StatusTooManyRequests, http.StatusServiceUnavailable, http.StatusGatewayTimeout:
	default:
		s.mu.Lock()
		s.wrong = append(s.wrong, fmt.Sprintf("%s %s: %d %.300s", method, path, resp.StatusCode, text))
		s.mu.Unlock()
	}
	seconds, _ := strconv.Atoi(resp.Header.Get("Retry-After"))
	return strconv.Itoa(resp.StatusCode), time.Duration(seconds) * time.Second
}

// unreached is why there was no answer, in a word.
func unreached(err error) string {
	var op *net.OpError
	switch {
	case errors.As(err, &op) && op.Op == "dial":
		return "no API node"
	case errors.Is(err, context.DeadlineExceeded) || isTimeout(err):
		return "no answer"
	default:
		return "cut off"
	}
}

func isTimeout(err error) bool {
	var t net.Error
	return errors.As(err, &t) && t.Timeout()
}

// begunSince is how many that were asked for since then have become active.
func (s *stream) begunSince(began []begun, since time.Time) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	n := 0
	for i := len(began) - 1; i >= 0 && began[i].at.After(since); i-- {
		if b := s.boots[began[i].id]; b != nil && b.asked.After(since) {
			n++
		}
	}
	return n
}

// row begins the account of a fault.
func (s *stream) row(f fault) *row {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.said = map[string]int{}
	return &row{fault: f.name, from: time.Now()}
}

// ends ends it.
func (s *stream) ends(r *row) {
	s.mu.Lock()
	defer s.mu.Unlock()
	r.to, r.said = time.Now(), maps.Clone(s.said)
}

// wanted is what should have become of all that was accepted.
func (s *stream) wanted() (active, deleted []compute.InstanceID) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for id, b := range s.boots {
		switch {
		case b.gone:
			deleted = append(deleted, id)
		case !b.accepted.IsZero():
			active = append(active, id)
		}
	}
	return active, deleted
}
