// SPDX-License-Identifier: Apache-2.0

package api

import (
	"bytes"
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"

	"github.com/berth-project/berth/pkg/auth"
	"github.com/berth-project/berth/pkg/auth/clientcert"
	"github.com/berth-project/berth/pkg/compute"
	"github.com/berth-project/berth/pkg/events"
	"github.com/berth-project/berth/pkg/sse"
	"github.com/berth-project/berth/pkg/tlsfiles"
	"github.com/berth-project/berth/pkg/tlsfiles/tlstest"
	"github.com/berth-project/berth/pkg/wire"
	"github.com/berth-project/berth/pkg/wire/rest"
)

// hearing is one listener to events, over HTTP.
type hearing struct {
	t     testing.TB
	node  *node
	resp  *http.Response
	read  *sse.Reader
	last  string // the id that came last
	retry time.Duration
	stop  context.CancelFunc
}

// serve answers for a node over HTTP, for as long as the test runs.
func (n *node) serve() *httptest.Server {
	server := httptest.NewServer(n.Handler())
	n.Cleanup(server.Close)
	n.Cleanup(n.StopListeners)
	return server
}

// hear begins to listen, and has heard the first block.
func (n *node) hear(server *httptest.Server, query, last string) *hearing {
	n.Helper()
	return n.hearOver(&http.Transport{DisableKeepAlives: true}, server, query, last)
}

func (n *node) hearOver(over http.RoundTripper, server *httptest.Server, query, last string) *hearing {
	n.Helper()
	ctx, stop := context.WithCancel(n.Context())
	req, err := http.NewRequestWithContext(ctx, "GET", server.URL+"/v1/events?"+query, nil)
	if err != nil {
		n.Fatal(err)
	}
	if last != "" {
		req.Header.Set("Last-Event-ID", last)
	}
	if n.as != "" {
		req.Header.Set("Authorization", "Bearer "+n.as)
	}
	resp, err := (&http.Client{Transport: over}).Do(req)
	if err != nil {
		n.Fatal(err)
	}
	h := &hearing{t: n, node: n, resp: resp, stop: stop}
	n.Cleanup(h.leave)
	h.read = sse.NewReader(resp.Body, 1<<20)
	if resp.StatusCode == 200 {
		h.block()
	}
	return h
}

func (h *hearing) leave() {
	h.stop()
	_ = h.resp.Body.Close()
}

func (h *hearing) block() sse.Event {
	h.t.Helper()
	e, err := h.read.Next()
	if err != nil {
		h.t.Fatalf("the stream is over: %v", err)
	}
	if e.ID != "" {
		h.last = e.ID
	}
	h.retry = max(h.retry, e.Retry)
	return e
}

// told is the next event: blocks without data come whenever nothing else has for a while.
func (h *hearing) told() sse.Event {
	h.t.Helper()
	for {
		if e := h.block(); e.Name != "" {
			return e
		}
	}
}

// hears checks what comes next, each in a line: the name of the event, and what of it matters.
func (h *hearing) hears(want ...string) {
	h.t.Helper()
	for _, line := range want {
		e := h.told()
		var v struct {
			rest.Event
			Why string
		}
		if err := json.Unmarshal(e.Data, &v); err != nil {
			h.t.Fatalf("%v in %s", err, e.Data)
		}
		got := e.Name
		for _, s := range []string{v.Name, string(v.StateBefore), string(v.State), string(v.Host), v.Why} {
			if s != "" {
				got += " " + s
			}
		}
		if got != line {
			h.t.Fatalf("heard %q, want %q: %s", got, line, e.Data)
		}
	}
}

// log is what the test has written to the topic instances; nodes read it.
type log struct {
	versions map[compute.InstanceID]compute.Version
	recs     []wire.Record
}

// write appends the record of a machine that has come to a state.
func (l *log) write(id compute.InstanceID, name string, state compute.State, change ...func(*compute.Instance)) {
	i := instance(id, name, state, change...)
	if l.versions == nil {
		l.versions = map[compute.InstanceID]compute.Version{}
	}
	l.versions[id]++
	i.Version = l.versions[id]
	rec := wire.EncodeInstance(i)
	rec.Partition, rec.Offset = wire.Partition(i.Project, 4), int64(len(l.recs))
	rec.Time = time.Now()
	l.recs = append(l.recs, rec)
}

// life writes what becomes of a machine that starts.
func (l *log) life(id compute.InstanceID, name string, change ...func(*compute.Instance)) {
	for _, s := range []compute.State{compute.StateQueued, compute.StateStarting, compute.StateActive} {
		l.write(id, name, s, change...)
	}
}

func of(p compute.Project) func(*compute.Instance) {
	return func(i *compute.Instance) { i.Project = p }
}

func TestEvents(t *testing.T) {
	var l log
	a, b := newNode(t), newNode(t)
	onA, onB := a.serve(), b.serve()
	h := a.hear(onA, "", "")
	all := a.hear(onA, "project=*", "")
	l.life(id1, "web")
	l.write(id2, "db", compute.StateQueued, of("other"))
	a.Instances(l.recs, true)
	h.hears("change web queued", "change web queued starting h1")
	all.hears("change web queued", "change web queued starting h1", "change web starting active h1", "change db queued")
	h.leave()

	// Another node goes on where this one stopped, though it has not read so far yet.
	b.sync = func() error { b.Instances(l.recs, true); return nil }
	h = b.hear(onB, "", h.last)
	h.hears("change web starting active h1")
	stopped := &compute.Reason{Code: compute.GuestShutdown, Detail: "powered off on h1"}
	l.write(id1, "web", compute.StateActive, func(i *compute.Instance) {
		i.Power, i.Stopped = compute.PowerStopped, stopped
	})
	for _, n := range []*node{a, b} {
		n.Instances(l.recs[len(l.recs)-1:], true)
	}
	e := h.told()
	var event rest.Event
	if err := json.Unmarshal(e.Data, &event); err != nil {
		t.Fatal(err)
	}
	equal(t, "an event", rest.Event{
		ID: e.ID, At: l.recs[4].Time.UTC(), Project: "default", Instance: id1, Name: "web", Version: 4,
		StateBefore: "active", State: "active", Host: "h1", Attempt: 1, Power: "stopped",
		Reason: rest.FromReason(stopped),
	}, event)
	if want := fmt.Sprintf("%d:5", wire.Partition("default", 4)); e.ID != want {
		t.Errorf("the id is %s, want %s", e.ID, want)
	}

	// Filters, of what is known since then.
	since := "since=" + time.Now().Add(-time.Hour).UTC().Format(time.RFC3339)
	for query, want := range map[string][]string{
		"state=starting": {"change web queued starting h1"},
		"instance=" + string(id1): {"change web queued", "change web queued starting h1",
			"change web starting active h1", "change web active active h1"},
		"instance=" + string(id3):            nil,
		"host=h1&state=active":               {"change web starting active h1", "change web active active h1"},
		"reason=GuestShutdown&reason=Forged": {"change web active active h1"},
		"project=other":                      {"change db queued"},
		"project=*&state=queued":             {"change web queued", "change db queued"},
		"project=nobody":                     nil,
		"project=*&host=h2":                  nil,
		"project=other&state=active&host=h1": nil,
	} {
		h := a.hear(onA, since+"&follow=false&"+query, "")
		h.hears(append(want, "end caught-up")...)
	}
	for query, field := range map[string]string{
		"project=a/b": "project", "instance=1": "instance", "state=silly": "state[0]",
		"reason=BuildFailed&reason=Foo": "reason[1]",
		"silly=1":                       "silly",
	} {
		if p := a.do("GET", "/v1/events?follow=false&"+query, nil).refused(422, compute.KindInvalid); p.Field != field {
			t.Errorf("%s: %+v", query, p)
		}
	}
	for _, last := range []string{"silly", "99:1"} {
		req := httptest.NewRequest("GET", "/v1/events?follow=false", nil)
		req.Header.Set("Last-Event-ID", last)
		if p := a.ask(req).refused(422, compute.KindInvalid); p.Field != "Last-Event-ID" || p.Remedy == "" {
			t.Errorf("%s: %+v", last, p)
		}
	}
}

func TestEventsOfWhatIsPresent(t *testing.T) {
	var l log
	n := nodeThat(t, func(c *Config) { c.Events = events.Bounds{Kept: 4} }).read()
	server := n.serve()
	l.life(id1, "web")
	l.write(id2, "db", compute.StateQueued)
	l.write(id3, "old", compute.StateDeleted)
	n.Instances(l.recs, true)
	h := n.hear(server, "present=true", "")
	if h.hears("present web active h1"); h.last != "" {
		t.Errorf("it would go on at %s, and never hear the rest", h.last)
	}
	h.hears("present db queued", "presented")
	l.write(id2, "db", compute.StateStarting)
	n.Instances(l.recs[5:], true)
	h.hears("change db queued starting h1")
	h.leave()
	for range 5 { // more than is kept
		l.write(id1, "web", compute.StateActive)
	}
	n.Instances(l.recs[6:], true)
	n.hear(server, "present=true", h.last).hears("gap forgotten", "present web active h1",
		"present db starting h1", "presented")
	n.hear(server, "", h.last).hears("gap forgotten", "change web active active h1")
	n.hear(server, "present=true&state=deleted", "").hears("present old deleted", "presented")

	l.write("44444444-4444-4444-8444-444444444444", "far", compute.StateActive, of("other"), func(i *compute.Instance) {
		i.Host = "h2"
	})
	n.Instances(l.recs[len(l.recs)-1:], true)
	for query, want := range map[string][]string{
		"project=*":                             {"present web active h1", "present db starting h1", "present far active h2"},
		"project=*&host=h2":                     {"present far active h2"},
		"host=h2":                               nil,
		"project=*&state=deleted&state=active":  {"present web active h1", "present old deleted", "present far active h2"},
		"instance=" + string(id3):               {"present old deleted"},
		"project=*&instance=" + string(id3):     {"present old deleted"},
		"project=other&instance=" + string(id3): nil,
	} {
		n.hear(server, "follow=false&present=true&"+query, "").hears(append(want, "presented", "end caught-up")...)
	}
}

// What listeners are still to be told of the present is bounded. A place is free again once all of it was told.
func TestPresentsAreBounded(t *testing.T) {
	n := nodeThat(t, func(c *Config) { c.Events = events.Bounds{Kept: 4} }).read()
	n.present.most, n.present.few = 2, 1
	var l log
	l.life(id1, "web")
	l.life(id2, "db")
	n.Instances(l.recs, true)
	server := n.serve()
	for range 2 {
		n.hear(server, "follow=false&present=true", "").hears("present web active h1", "present db active h1",
			"presented", "end caught-up")
	}
	if err := n.present.hold(2); err != nil { // another one
		t.Fatal(err)
	}
	p := n.do("GET", "/v1/events?follow=false&present=true", nil).refused(503, compute.KindUnavailable)
	if p.Field != "present" || p.Remedy == "" || n.events.Listeners() != 0 {
		t.Errorf("%d listeners, %+v", n.events.Listeners(), p)
	}
	n.hear(server, "present=true&instance="+string(id1), "").hears("present web active h1", "presented")
	// After a gap there is no place: it is over, and goes on where it was.
	h := n.hear(server, "present=true&follow=false", fmt.Sprintf("%d:1", wire.Partition("default", 4)))
	if h.hears("end slow"); h.last != fmt.Sprintf("%d:1", wire.Partition("default", 4)) {
		t.Errorf("it would go on at %s", h.last)
	}
	n.present.letGo(2)
	n.hear(server, "present=true", h.last).hears("gap forgotten", "present web active h1",
		"present db active h1", "presented")
}

// What is asked of one instance, or of a host, costs what is on it, however much else there is.
func TestThePresentOfOneIsNoWalk(t *testing.T) {
	n := newNode(t)
	var l log
	for i := range 1000 {
		l.write(compute.InstanceID(fmt.Sprintf("%08d-1111-4111-8111-111111111111", i)), "web", compute.StateActive)
	}
	n.Instances(l.recs, true)
	all, one := events.Wanted{Project: "default"},
		events.Wanted{Project: "default", Instance: "00000007-1111-4111-8111-111111111111"}
	for _, w := range []events.Wanted{all, one} {
		allocs := testing.AllocsPerRun(10, func() {
			if _, err := n.views.instances.present(w, func() error { return nil }); err != nil {
				t.Error(err)
			}
		})
		if allocs > 20 {
			t.Errorf("%+v: %v allocations of 1,000 instances", w, allocs)
		}
	}
}

// A node that has just begun reads a log from which compaction has removed records. What it has not read it does not
// pass over silently: of what lies behind that it tells all.
func TestEventsOfACompactedLog(t *testing.T) {
	var l log
	l.life(id1, "web")
	l.life(id2, "db")
	l.life(id3, "new")
	at := wire.Partition("default", 4)
	for name, c := range map[string]struct {
		kept []int // offsets that are still there
		from int
		want []string
	}{
		"nothing is removed": {[]int{0, 1, 2, 3, 4, 5, 6, 7, 8}, 4, []string{"change db starting active h1"}[:0]},
		"behind what was":    {[]int{2, 5, 6, 7, 8}, 6, nil},
		"at what was":        {[]int{2, 5, 6, 7, 8}, 5, nil},
		"within what was":    {[]int{2, 5, 6, 7, 8}, 4, []string{"gap forgotten"}},
		"before all":         {[]int{2, 5, 6, 7, 8}, 0, []string{"gap forgotten"}},
	} {
		t.Run(name, func(t *testing.T) {
			n := newNode(t)
			first := c.from
			for _, i := range c.kept {
				n.Instances(l.recs[i:i+1], true)
			}
			want := c.want
			if len(want) > 0 {
				first = 5
			}
			names := []string{
				"change web queued", "change web queued starting h1", "change web starting active h1",
				"change db queued", "change db queued starting h1", "change db starting active h1",
				"change new queued", "change new queued starting h1", "change new starting active h1",
			}
			if len(c.kept) < 9 {
				names[5] = "change db active h1" // what it was before is not known
			}
			want = append(append([]string(nil), want...), names[first:]...)
			h := n.hear(n.serve(), "follow=false", fmt.Sprintf("%d:%d", at, c.from))
			h.hears(append(want, "end caught-up")...)
		})
	}
	t.Run("what was written long ago is not told", func(t *testing.T) {
		old := append([]wire.Record(nil), l.recs...)
		for i := range old[:4] {
			old[i].Time = time.Now().Add(-24 * time.Hour)
		}
		n := newNode(t)
		n.Instances(old, true)
		h := n.hear(n.serve(), "follow=false", fmt.Sprintf("%d:3", at))
		h.hears("gap forgotten", "change db queued starting h1")
	})
	t.Run("what cannot be read is a gap", func(t *testing.T) {
		n := newNode(t)
		h := n.hear(n.serve(), "", "")
		n.Instances([]wire.Record{
			{Partition: at, Offset: 7, Key: l.recs[0].Key, Value: []byte("garbage"), Time: time.Now()},
		}, true)
		h.hears("gap forgotten")
	})
	t.Run("an id of another log", func(t *testing.T) {
		n := newNode(t)
		n.Instances(l.recs, true)
		n.hear(n.serve(), "", fmt.Sprintf("%d:10", at)).hears("gap another-log")
		// A listener that is cut off before the gap goes on with the id that it had, and is told of the gap then.
		h := n.hear(n.serve(), "present=true", fmt.Sprintf("%d:10", at))
		if h.last != "" {
			t.Errorf("before the gap it is told the id %q", h.last)
		}
		h.hears("gap another-log")
	})
	t.Run("an id of a log that was made anew", func(t *testing.T) {
		last := ""
		for _, topic := range []compute.TopicID{"9f3c21ab00", "11112222ff"} {
			n := nodeThat(t, func(c *Config) { c.InstancesID = topic }).read()
			n.Instances(l.recs[:8], true)
			h := n.hear(n.serve(), "", last)
			if last != "" {
				h.hears("gap another-log") // though there is as much in it
			}
			n.Instances(l.recs[8:], true)
			h.hears("change new starting active h1")
			if last = h.last; last != fmt.Sprintf("%d:9@%s", at, topic[:8]) {
				t.Errorf("the id is %s", last)
			}
		}
	})
}

func TestEventsAreForTheProjectsOwn(t *testing.T) {
	var l log
	n := lockedNode(t, func(c *Config) { c.KeepOpen = time.Millisecond })
	server := n.serve()
	l.versions = map[compute.InstanceID]compute.Version{id1: 1, id2: 1}
	var reader compute.TokenID
	n.as = n.token(auth.RoleReader, "own", func(t *compute.Token) { reader = t.ID })
	for _, project := range []string{"alien", "*"} {
		if h := n.hear(server, "project="+project, ""); h.resp.StatusCode != 403 {
			t.Errorf("of %s: %s", project, h.resp.Status)
		}
	}
	if h := n.hear(server, "project=own&host=h1", ""); h.resp.StatusCode != 404 {
		t.Errorf("by the name of a host: %s", h.resp.Status)
	}
	h := n.hear(server, "project=own", "")
	hidden, _ := n.views.hosts.get("h1")
	failed := func(i *compute.Instance) {
		i.Project, i.Reason = "own", &compute.Reason{Code: compute.BuildFailed, Host: "h1", Detail: "no disk on h1"}
		i.Failures = []compute.Failure{{Host: "h1"}}
	}
	l.write(id2, "db", compute.StateActive, of("alien"))
	l.write(id1, "web", compute.StateQueued, failed)
	n.Instances(l.recs, true)
	e := h.told()
	var event rest.Event
	if err := json.Unmarshal(e.Data, &event); err != nil || event.HostBefore != hidden.opaque ||
		strings.Contains(strings.ReplaceAll(string(e.Data), string(hidden.opaque), ""), "h1") {
		t.Errorf("%v: %s", err, e.Data)
	}
	n.TokenRecords([]wire.Record{wire.Tombstone(wire.KeyToken(reader))}, true)
	h.hears("end signed-out")
	n.as = n.token(auth.RoleOperator, "")
	n.hear(server, "project=*&since=2026-01-01T00:00:00Z&follow=false", "").hears(
		"change db active active h1", "change web active queued", "end caught-up")
}

// A stream has no next answer with which its connection would end: it ends by itself once an authority is not trusted
// any more by which its caller is known. One that is known by a token goes on.
func TestEventsEndWithTheTrustInACertificate(t *testing.T) {
	ours, dir := tlstest.New(t, "ours"), t.TempDir()
	cert, key := ours.Server().Files(t, dir)
	var seconds atomic.Int64
	files, err := tlsfiles.Open(
		tlsfiles.Paths{Cert: cert, Key: key, ClientCA: tlstest.Write(t, dir, "ca.pem", ours.PEM)},
		tlsfiles.Options{Now: func() time.Time { return now.Add(time.Duration(seconds.Load()) * time.Second) }},
	)
	if err != nil {
		t.Fatal(err)
	}
	n := lockedNode(t, func(c *Config) {
		c.KeepOpen = time.Millisecond
		c.SignIn = auth.Chain{clientcert.New([]clientcert.Rule{{CommonName: "ops", Cell: auth.RoleOperator}}, nil)}
	})
	server := httptest.NewUnstartedServer(n.Handler())
	server.TLS, server.Config.ConnContext = files.Config(), files.Mark
	server.StartTLS()
	t.Cleanup(server.Close)
	t.Cleanup(n.StopListeners)
	hear := func(own ...tls.Certificate) *hearing {
		return n.hearOver(&http.Transport{
			DisableKeepAlives: true, TLSClientConfig: &tls.Config{RootCAs: ours.Pool(), Certificates: own},
		}, server, "project=*", "")
	}
	byCertificate := hear(ours.Client("ops", "").Pair(t))
	n.as = n.token(auth.RoleOperator, "")
	byToken := hear()
	byCertificate.block() // it goes on while nothing changes
	tlstest.Write(t, dir, "ca.pem", tlstest.New(t, "theirs").PEM)
	seconds.Add(1)
	byCertificate.hears("end signed-out")
	var l log
	l.write(id3, "new", compute.StateQueued)
	n.Instances(l.recs, true)
	byToken.hears("change new queued")
}

func TestListenersAreBoundedAndEndWithAWord(t *testing.T) {
	n := nodeThat(t, func(c *Config) { c.Events = events.Bounds{Listeners: 2} }).read()
	server := n.serve()
	a, b := n.hear(server, "", ""), n.hear(server, "project=*", "")
	refused := n.hear(server, "", "")
	var p rest.Problem
	err := json.NewDecoder(refused.resp.Body).Decode(&p)
	if err != nil || refused.resp.StatusCode != 503 || refused.resp.Header.Get("Retry-After") == "" ||
		p.Field != "limits.listeners" || p.Value != "2" {
		t.Errorf("%v %s %+v", err, refused.resp.Status, p)
	}
	n.StopListeners()
	a.hears("end stopping")
	b.hears("end stopping")
	if _, err := a.read.Next(); err == nil {
		t.Error("it goes on after the end")
	}
	if p := n.do("GET", "/v1/events", nil).refused(503, compute.KindUnavailable); p.Message != "this node stops" {
		t.Errorf("%+v", p)
	}
}

// Those that one node drops come to the next one at different times.
func TestListenersComeAgainOneAfterTheOther(t *testing.T) {
	n := newNode(t)
	server, different := n.serve(), map[time.Duration]bool{}
	for range 6 {
		h := n.hear(server, "", "")
		h.leave()
		if different[h.retry] = true; h.retry < time.Second {
			t.Errorf("it may come again after %v", h.retry)
		}
	}
	if len(different) < 2 {
		t.Errorf("all come again after %v", different)
	}
}

// A listener that takes nothing holds nobody up, and is cut off.
func TestAListenerThatTakesNothing(t *testing.T) {
	n := nodeThat(t, func(c *Config) { c.Events = events.Bounds{Kept: 1000} }).read()
	server := n.serve()
	stuck, other := n.hear(server, "", ""), n.hear(server, "instance="+string(id2), "")
	var l log
	long := strings.Repeat("x", 1000)
	for written := 0; written < 20_000; { // 30 MB: more than sockets hold
		for range 100 {
			l.write(id1, "web", compute.StateActive, func(i *compute.Instance) {
				i.Reason = &compute.Reason{Code: compute.BuildFailed, Detail: fmt.Sprint(len(l.recs)) + long}
			})
		}
		l.write(id2, "db", compute.StateDeleted)
		n.Instances(l.recs[written:], true)
		written = len(l.recs)
		if e := other.told(); e.Name != rest.EventChange {
			t.Fatalf("the other one heard %s", e.Name)
		}
	}
	for {
		e, err := stuck.read.Next()
		if err != nil {
			t.Fatalf("cut off without a word, after %s: %v", stuck.last, err)
		}
		if e.ID != "" {
			stuck.last = e.ID
		}
		var end rest.EventsEnd
		if e.Name == rest.EventEnd {
			if err := json.Unmarshal(e.Data, &end); err != nil || end.Why != "slow" || end.ID != stuck.last {
				t.Errorf("%v %+v, and the last was %s", err, end, stuck.last)
			}
			break
		}
	}
	stuck.leave()
	n.hear(server, "", stuck.last).hears("gap forgotten")
}

// The time-outs of an HTTP server are for requests: a stream goes on beyond them, over HTTP/2 too.
func TestEventsOutliveTimeouts(t *testing.T) {
	const timeout = 2 * time.Second
	for name, tls := range map[string]bool{"http/1.1": false, "http/2": true} {
		t.Run(name, func(t *testing.T) {
			n := nodeThat(t, func(c *Config) { c.KeepOpen = 100 * time.Millisecond }).read()
			server := httptest.NewUnstartedServer(n.Handler())
			server.Config.ReadTimeout, server.Config.WriteTimeout = timeout, timeout
			server.EnableHTTP2 = true
			if tls {
				server.StartTLS()
			} else {
				server.Start()
			}
			t.Cleanup(server.Close)
			t.Cleanup(n.StopListeners)
			ctx, stop := context.WithCancel(t.Context())
			defer stop()
			req, err := http.NewRequestWithContext(ctx, "GET", server.URL+"/v1/events", nil)
			if err != nil {
				t.Fatal(err)
			}
			resp, err := server.Client().Do(req)
			for lost := time.Now().Add(time.Minute); err != nil && time.Now().Before(lost); {
				resp, err = server.Client().Do(req) // the request itself has to come in time: a busy machine may be late
			}
			if err != nil {
				t.Fatal(err)
			}
			answered := time.Now()
			defer func() { _ = resp.Body.Close() }()
			if resp.ProtoMajor == 2 != tls {
				t.Errorf("it speaks %s", resp.Proto)
			}
			read := sse.NewReader(resp.Body, 1000)
			for time.Since(answered) < 2*timeout { // a block comes every 100 ms
				if _, err := read.Next(); err != nil {
					t.Fatalf("it ends after %s: %v", time.Since(answered), err)
				}
			}
		})
	}
}

// While a listener is told the present, more changes than are kept come, each time: it is told so, once.
func TestAListenerThatIsSlowWithThePresent(t *testing.T) {
	n := nodeThat(t, func(c *Config) { c.Events = events.Bounds{Kept: 4} }).read()
	var l log
	l.life(id1, "web")
	n.Instances(l.recs, true)
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	told := 0
	w := hooked{httptest.NewRecorder(), func(text []byte) {
		if !bytes.Contains(text, []byte("event: present\n")) {
			return
		}
		if told++; told == 5 {
			stop()
		}
		for range 5 {
			l.write(id1, "web", compute.StateActive)
		}
		n.Instances(l.recs[len(l.recs)-5:], true)
	}}
	n.Handler().ServeHTTP(w, httptest.NewRequest("GET", "/v1/events?present=true", nil).WithContext(ctx))
	if told != 1 || !strings.Contains(w.Body.String(), `"why":"slow"`) {
		t.Errorf("it was told the present %d times:\n%s", told, w.Body)
	}
}

// hooked hears what is written.
type hooked struct {
	*httptest.ResponseRecorder
	hears func([]byte)
}

func (h hooked) Write(text []byte) (int, error) {
	h.hears(text)
	return h.ResponseRecorder.Write(text)
}

// A listener whose socket takes nothing any more is cut off, and what it held is free.
func TestAListenerThatIsBlocked(t *testing.T) {
	registry := prometheus.NewRegistry()
	n := nodeThat(t, func(c *Config) { c.Blocked, c.Metrics = 50*time.Millisecond, registry }).read()
	t.Cleanup(n.Close)
	over := make(chan struct{})
	var heard atomic.Bool
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		n.Handler().ServeHTTP(patient{w, &heard}, r)
		close(over)
	}))
	t.Cleanup(server.Close)
	h := n.hear(server, "", "")
	heard.Store(true)
	var l log
	long := strings.Repeat("x", 10_000)
	for i := range 3000 { // 60 MB: more than sockets hold
		l.write(id1, "web", compute.StateActive, func(m *compute.Instance) {
			m.Reason = &compute.Reason{Code: compute.BuildFailed, Detail: fmt.Sprint(i) + long}
		})
	}
	n.Instances(l.recs, true)
	<-over
	if n.events.Listeners() != 0 || testutil.ToFloat64(n.metrics.ended.WithLabelValues("blocked")) != 1 {
		t.Errorf("%d listeners, and it is not counted as blocked", n.events.Listeners())
	}
	for {
		e, err := h.read.Next()
		if err != nil {
			break
		}
		if e.Name == rest.EventEnd {
			t.Errorf("it was told the end: %s", e.Data)
		}
	}
}

// patient has a writer take as long as it likes until its listener has heard something: a busy machine may need longer
// for that than a listener may be blocked.
type patient struct {
	http.ResponseWriter
	heard *atomic.Bool
}

func (p patient) Unwrap() http.ResponseWriter { return p.ResponseWriter }

func (p patient) SetWriteDeadline(by time.Time) error {
	if !p.heard.Load() {
		by = time.Time{}
	}
	return http.NewResponseController(p.ResponseWriter).SetWriteDeadline(by)
}

// As many as there may be listen over HTTP, and each hears what all do.
func TestAThousandListeners(t *testing.T) {
	const listeners = 1000
	n := newNode(t)
	server := n.serve()
	heard := make([]*hearing, listeners)
	for i := range heard {
		heard[i] = n.hear(server, []string{"", "project=*", "instance=" + string(id1), "present=true"}[i%4], "")
	}
	if p := n.do("GET", "/v1/events", nil).refused(503, compute.KindUnavailable); p.Value != "1000" {
		t.Errorf("one more: %+v", p)
	}
	var l log
	l.life(id1, "web")
	n.Instances(l.recs, true)
	for i, h := range heard {
		if i%4 == 3 {
			h.hears("presented")
		}
		h.hears("change web queued", "change web queued starting h1", "change web starting active h1")
	}
	n.StopListeners()
	for _, h := range heard {
		h.hears("end stopping")
	}
}

// What cannot be written is over, at once.
func TestAListenerThatLeft(t *testing.T) {
	s := &stream{w: broken{httptest.NewRecorder()}, server: newNode(t).Server}
	s.control = http.NewResponseController(s.w)
	if err := s.put(sse.Event{ID: "0:0"}); !errors.Is(err, errBroken) {
		t.Error(err)
	}
}

var errBroken = errors.New("broken")

type broken struct{ *httptest.ResponseRecorder }

func (broken) Write([]byte) (int, error) { return 0, errBroken }
