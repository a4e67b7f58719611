// SPDX-License-Identifier: Apache-2.0

package api

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/berth-project/berth/flavors"
	"github.com/berth-project/berth/flavors/catalog"
	"github.com/berth-project/berth/pkg/compute"
	"github.com/berth-project/berth/pkg/leaktest"
	"github.com/berth-project/berth/pkg/wire"
	"github.com/berth-project/berth/pkg/wire/rest"
)

func TestMain(m *testing.M) { os.Exit(leaktest.Main(m.Run)) }

const (
	id1 = compute.InstanceID("11111111-1111-4111-8111-111111111111")
	id2 = compute.InstanceID("22222222-2222-4222-8222-222222222222")
	id3 = compute.InstanceID("33333333-3333-4333-8333-333333333333")
)

var start = time.Date(2026, 3, 4, 5, 6, 7, 0, time.UTC)

// node is an API node with real views and a real catalog; only what would be
// Kafka is here.
type node struct {
	testing.TB
	*Server
	catalog *flavors.Service

	mu   sync.Mutex
	sent []wire.Record
	fail error         // what Send answers
	hold chan struct{} // if set, Send waits for it
	held chan struct{} // if set, hears of each Send that waits
	sync func() error  // what a Sync does
	mute bool          // nothing is answered any more
	away *int32        // a partition of requests and instances of which nothing is answered any more
	// behind hands over the beacons that this node has not read yet; nil: there are none.
	behind func(context.Context) error

	as      string              // the token that is shown; empty: none
	deaf    string              // Send fails for this topic alone
	after   func([]wire.Record) // hears what was written; nil: nobody does
	answers func(wire.Record)   // hears what is written to hosts; nil: nobody does
}

// holds lets nothing that is sent from now on arrive until n.hold is closed.
func (n *node) holds() {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.hold = make(chan struct{})
}

// Send is the broker.
func (n *node) Send(ctx context.Context, recs ...wire.Record) error {
	n.mu.Lock()
	fail, hold, held, mute := n.fail, n.hold, n.held, n.mute
	n.mu.Unlock()
	if mute {
		<-ctx.Done()
		return ctx.Err()
	}
	if hold != nil {
		if held != nil {
			held <- struct{}{}
		}
		select {
		case <-hold:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	if fail != nil {
		return fail
	}
	for _, rec := range recs {
		if rec.Topic == n.config.Topics.Requests() && n.isAway(rec.Partition) {
			<-ctx.Done()
			return ctx.Err()
		}
		if rec.Topic == n.deaf {
			return errors.New("no leader")
		}
		if rec.Topic == n.config.Topics.Tokens() {
			n.TokenRecords([]wire.Record{rec}, true)
		}
		if rec.Topic == n.config.Topics.Catalog() {
			n.catalog.Apply([]wire.Record{rec}, true)
			continue
		}
		n.mu.Lock()
		n.sent = append(n.sent, rec)
		n.mu.Unlock()
		if _, host := n.config.Topics.HostOf(rec.Topic); host && n.answers != nil {
			n.answers(rec)
		}
	}
	if n.after != nil {
		n.after(recs)
	}
	return nil
}

// Append is the broker, too: every stream has 41 records already.
func (n *node) Append(ctx context.Context, rec wire.Record) (int64, error) {
	if err := n.Send(ctx, rec); err != nil {
		return -1, err
	}
	return 41, nil
}

// Sync is what other nodes have published.
func (n *node) Sync(ctx context.Context) error {
	n.mu.Lock()
	f, mute := n.sync, n.mute || n.away != nil
	n.mu.Unlock()
	if mute {
		<-ctx.Done()
		return ctx.Err()
	}
	if f == nil {
		return nil
	}
	return f()
}

// SyncPartition is Sync of one partition.
func (n *node) SyncPartition(ctx context.Context, p int32) error {
	n.mu.Lock()
	f, mute := n.sync, n.mute
	n.mu.Unlock()
	if mute || n.isAway(p) {
		<-ctx.Done()
		return ctx.Err()
	}
	if f == nil {
		return nil
	}
	return f()
}

// setAway has one partition of requests and instances answer nothing; nil: all answer.
func (n *node) setAway(p *int32) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.away = p
}

func (n *node) isAway(p int32) bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.away != nil && *n.away == p
}

// heard is what hosts have said.
type heard struct{ *node }

func (h heard) Sync(ctx context.Context) error {
	if h.behind == nil {
		return nil
	}
	return h.behind(ctx)
}

// published takes what was sent since the last call.
func (n *node) published() []wire.Record {
	n.mu.Lock()
	defer n.mu.Unlock()
	out := n.sent
	n.sent = nil
	return out
}

// Requests hands over records of requests from the partitions they belong to.
func (n *node) Requests(recs []wire.Record, end bool) {
	for i, rec := range recs {
		recs[i].Partition = wire.Partition(compute.Project(rec.Key), 4)
	}
	n.Server.Requests(recs, end)
}

// hook is the operator's fence command.
type hook func(context.Context, compute.HostID) error

func (f hook) Fence(ctx context.Context, h compute.HostID) error { return f(ctx, h) }

// newNode has read all its topics; they were empty.
func newNode(t testing.TB) *node {
	return unreadNode(t).read()
}

// read has read all its topics; they were empty.
func (n *node) read() *node {
	n.Instances(nil, true)
	n.Requests(nil, true)
	n.Queues(nil, true)
	n.Hosts(nil, true)
	n.TokenRecords(nil, true)
	n.catalog.Apply(nil, true)
	return n
}

func unreadNode(t testing.TB) *node { return nodeThat(t, func(*Config) {}) }

// nodeThat is an unread node with other settings.
func nodeThat(t testing.TB, change func(*Config)) *node {
	n := &node{TB: t}
	topics := wire.Topics{Prefix: "test."}
	n.catalog = flavors.New(flavors.Options{
		Topics: topics, Log: writer{n}, View: n, Work: func(q compute.QueueName) int { return n.Work(q) },
		Members: func(key compute.GroupKey) int { return n.Server.Members(key) },
	})
	c := Config{
		Topics: topics, Partitions: 4, Publisher: n, Syncer: n, Heard: heard{n}, Catalog: testCatalog{n.catalog},
		Blocked: time.Hour, // a listener that reads nothing for a while is on a busy machine, not gone
	}
	change(&c)
	s, err := New(c)
	if err != nil {
		t.Fatal(err)
	}
	n.Server = s
	return n
}

// writer is what the catalog writes to: with an audit, beside its entries.
type writer struct{ *node }

func (w writer) Send(ctx context.Context, recs ...wire.Record) error {
	if w.config.Audit != nil {
		return w.config.Audit.Beside().Send(ctx, recs...)
	}
	return w.node.Send(ctx, recs...)
}

// testCatalog is the catalog as the wiring joins it.
type testCatalog struct{ *flavors.Service }

func (s testCatalog) Flavors() []compute.Flavor          { return s.Catalog().Flavors() }
func (s testCatalog) Capabilities() []compute.Capability { return s.Catalog().Capabilities() }
func (s testCatalog) Quotas() []compute.Quota            { return s.Catalog().Quotas() }
func (s testCatalog) Flavor(f compute.FlavorName) (compute.Flavor, bool) {
	return s.Catalog().Flavor(f)
}
func (s testCatalog) Capability(a compute.AxisName) (compute.Capability, bool) {
	return s.Catalog().Capability(a)
}

func (s testCatalog) Quota(p compute.Project) (compute.Quota, bool) { return s.Catalog().Quota(p) }

func (s testCatalog) AddFlavor(ctx context.Context, f compute.Flavor, dry bool) (Change, error) {
	c, err := s.Service.AddFlavor(ctx, f, flavors.How{DryRun: dry})
	return counts(c), err
}

func (s testCatalog) RemoveFlavor(ctx context.Context, f compute.FlavorName, dry bool) (Change, error) {
	c, err := s.Service.RemoveFlavor(ctx, f, flavors.How{DryRun: dry})
	return counts(c), err
}

func (s testCatalog) AddCapability(ctx context.Context, a compute.Capability, dry bool) (Change, error) {
	c, err := s.Service.AddCapability(ctx, a, flavors.How{DryRun: dry})
	return counts(c), err
}

func (s testCatalog) RemoveCapability(ctx context.Context, a compute.AxisName, dry bool) (Change, error) {
	c, err := s.Service.RemoveCapability(ctx, a, nil, flavors.How{DryRun: dry})
	return counts(c), err
}

func (s testCatalog) RemoveValues(
	ctx context.Context, a compute.AxisName, values []compute.AxisValue, drain, dry bool,
) (Change, error) {
	c, err := s.Service.RemoveCapability(ctx, a, values, flavors.How{DryRun: dry, Drain: drain})
	return counts(c), err
}

func (s testCatalog) SetQuota(ctx context.Context, q compute.Quota) error {
	_, err := s.Service.SetQuota(ctx, q, flavors.How{})
	return err
}

func (s testCatalog) ChangeQuota(
	ctx context.Context, p compute.Project, change func(compute.Quota) (compute.Quota, error),
) error {
	_, err := s.Service.ChangeQuota(ctx, p, change)
	return err
}

func (s testCatalog) Groups(p compute.Project) []compute.Group { return s.Catalog().Groups(p) }

func (s testCatalog) Group(key compute.GroupKey) (compute.Group, bool) { return s.Catalog().Group(key) }

func (s testCatalog) SetGroup(ctx context.Context, g compute.Group, onlyNew bool) error {
	_, err := s.Service.SetGroup(ctx, g, onlyNew)
	return err
}

func (s testCatalog) ChangeGroup(
	ctx context.Context, key compute.GroupKey, change func(compute.Group) (compute.Group, error),
) error {
	_, err := s.Service.ChangeGroup(ctx, key, change)
	return err
}

func (s testCatalog) RemoveGroup(ctx context.Context, key compute.GroupKey) error {
	_, err := s.Service.RemoveGroup(ctx, key)
	return err
}

func counts(c catalog.Change) Change {
	return Change{Added: c.Added, Removed: c.Removed, Total: c.Total, Limit: c.Limit}
}

// answer is what came back.
type answer struct {
	t      testing.TB
	status int
	header http.Header
	body   []byte
}

// do asks; a body that is a string goes as it is, anything else as JSON.
func (n *node) do(method, path string, body any) answer {
	n.Helper()
	var text string
	switch b := body.(type) {
	case nil:
	case string:
		text = b
	default:
		data, err := json.Marshal(b)
		if err != nil {
			n.Fatal(err)
		}
		text = string(data)
	}
	req := httptest.NewRequest(method, path, strings.NewReader(text))
	if text != "" {
		req.Header.Set("Content-Type", "application/json")
	}
	return n.ask(req)
}

func (n *node) ask(req *http.Request) answer {
	n.Helper()
	if n.as != "" {
		req.Header.Set("Authorization", "Bearer "+n.as)
	}
	w := httptest.NewRecorder()
	n.Handler().ServeHTTP(w, req)
	return answer{n.TB, w.Code, w.Header(), w.Body.Bytes()}
}

// into checks the status and reads the body.
func into[T any](a answer, status int) T {
	a.t.Helper()
	var out T
	if a.status != status {
		a.t.Fatalf("answered %d, want %d: %s", a.status, status, a.body)
	}
	if err := json.Unmarshal(a.body, &out); err != nil {
		a.t.Fatalf("%v in %s", err, a.body)
	}
	return out
}

// refused checks a problem's status and kind and returns it.
func (a answer) refused(status int, kind compute.Kind) rest.Problem {
	a.t.Helper()
	p := into[rest.Problem](a, status)
	if ct := a.header.Get("Content-Type"); ct != "application/problem+json" {
		a.t.Errorf("content type %q", ct)
	}
	if p.Kind != kind.String() || p.Status != status || p.Title == "" || p.Detail == "" {
		a.t.Errorf("problem %+v, want kind %s, status %d, and a title and a detail", p, kind, status)
	}
	return p
}

// tooMany is a refusal because so many wait to publish already.
func (a answer) tooMany(most string) {
	a.t.Helper()
	p := a.refused(429, compute.KindUnavailable)
	if a.header.Get("Retry-After") != "1" || p.Field != "limits.publishing" || p.Value != most || p.Remedy == "" {
		a.t.Errorf("%+v %v", p, a.header)
	}
}

func equal(t testing.TB, what string, want, got any, opts ...cmp.Option) {
	t.Helper()
	if diff := cmp.Diff(want, got, opts...); diff != "" {
		t.Errorf("%s (-want +got):\n%s", what, diff)
	}
}

// offer makes m1.small with a gpu axis, and opens its queues.
func (n *node) offer() {
	n.Helper()
	into[rest.Change](n.do("POST", "/v1/capabilities", rest.Capability{Axis: "gpu", Values: []rest.CapabilityValue{
		{Value: "a100", Requires: []compute.Trait{"CUSTOM_GPU"}, Consumes: compute.Resources{"CUSTOM_A100": 1}},
		{Value: "h100"},
	}}), 200)
	into[rest.Change](
		n.do("POST", "/v1/capabilities", rest.Capability{Axis: "disk", Values: []rest.CapabilityValue{{Value: "ssd"}}}),
		200,
	)
	into[rest.Change](n.do("POST", "/v1/flavors", rest.Flavor{
		Name: "m1.small", Capabilities: []compute.AxisName{"gpu"},
		Resources: compute.Resources{compute.VCPU: 1, compute.MemoryMB: 2048, compute.DiskGB: 20},
	}), 200)
	for _, q := range compute.Permutations(n.flavor("m1.small"), n.axes()) {
		q.Group = "agents-0"
		n.Queues([]wire.Record{wire.EncodeQueue(q)}, true)
	}
}

func (n *node) flavor(name compute.FlavorName) compute.Flavor {
	f, ok := n.catalog.Catalog().Flavor(name)
	if !ok {
		n.Fatalf("no flavor %s", name)
	}
	return f
}

// instance is a record of m1.small in project default.
func instance(
	id compute.InstanceID, name string, state compute.State, change ...func(*compute.Instance),
) compute.Instance {
	i := compute.Instance{
		ID: id, Project: "default", Version: 1, State: state,
		Boot:      compute.Boot{Name: name, Flavor: "m1.small"}.WithDefaults(),
		Queue:     "m1.small",
		Resources: compute.Resources{compute.VCPU: 1, compute.MemoryMB: 2048, compute.DiskGB: 20},
		Attempt:   1, AcceptedAt: start, QueuedAt: start.Add(time.Second), ChangedAt: start.Add(time.Second),
		Deadline: start.Add(time.Hour),
	}
	if state.OnHost() {
		i.Host, i.Claim = "h1", "claim"
	}
	for _, f := range change {
		f(&i)
	}
	return i
}

func (n *node) has(all ...compute.Instance) {
	var recs []wire.Record
	for _, i := range all {
		recs = append(recs, wire.EncodeInstance(i))
	}
	n.Instances(recs, true)
}

func (n *node) hears(b compute.Beacon) { n.Hosts([]wire.Record{wire.EncodeBeacon(b)}, true) }
