// SPDX-License-Identifier: Apache-2.0

package flavors

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/berth-project/berth/flavors/catalog"
	"github.com/berth-project/berth/pkg/compute"
	"github.com/berth-project/berth/pkg/leaktest"
	"github.com/berth-project/berth/pkg/wire"
)

func TestMain(m *testing.M) { os.Exit(leaktest.Main(m.Run)) }

// topic is the far end: one log that several nodes read, each as far as it
// was made to.
type topic struct {
	recs   []wire.Record
	nodes  []*node
	before func() // runs once, before the next record is appended
	fail   error  // the next Send
	lose   bool   // acknowledged, but readers do not get on
	work   map[compute.QueueName]int
}

type node struct {
	*Service
	log  *topic
	read int
}

func (l *topic) node() *node {
	n := &node{log: l}
	n.Service = New(Options{Topics: wire.Topics{Prefix: "t."}, Log: n, View: n,
		Work: func(q compute.QueueName) int { return l.work[q] }})
	l.nodes = append(l.nodes, n)
	return n
}

func (n *node) Send(ctx context.Context, recs ...wire.Record) error {
	l := n.log
	if err := l.fail; err != nil {
		l.fail = nil
		return err
	}
	if f := l.before; f != nil {
		l.before = nil
		f()
	}
	for _, r := range recs {
		if r.Topic != "t.catalog" || r.Partition != 0 {
			panic("sent to " + r.Topic)
		}
		r.Offset = int64(len(l.recs))
		l.recs = append(l.recs, r)
	}
	if !l.lose {
		return n.Sync(ctx)
	}
	return nil
}

func (n *node) Sync(context.Context) error {
	fresh := n.log.recs[n.read:]
	n.read = len(n.log.recs)
	n.Apply(fresh, true)
	return nil
}

func small() compute.Flavor {
	return compute.Flavor{
		Name: "small", Resources: compute.Resources{compute.VCPU: 1}, Capabilities: []compute.AxisName{"gpu"},
	}
}

func gpu(values ...compute.AxisValue) compute.Capability {
	c := compute.Capability{Axis: "gpu"}
	for _, v := range values {
		c.Values = append(c.Values, compute.CapabilityValue{Value: v, Requires: []compute.Trait{"CUSTOM_GPU"}})
	}
	return c
}

func must(t *testing.T, ch catalog.Change, err error) catalog.Change {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
	return ch
}

func kind(t *testing.T, err error, want compute.Kind) {
	t.Helper()
	if err == nil || compute.KindOf(err) != want {
		t.Fatalf("got %v (%s), want %s", err, compute.KindOf(err), want)
	}
}

func TestChangesAreReadBackFromTheLog(t *testing.T) {
	log := &topic{}
	a, b := log.node(), log.node()
	ctx := t.Context()
	ch, err := a.AddCapability(ctx, gpu("a100"), How{})
	must(t, ch, err)
	ch, err = b.AddFlavor(ctx, small(), How{}) // b reads a's axis first
	if ch = must(t, ch, err); ch.Added != 2 || ch.Total != 2 {
		t.Errorf("counts: %+v", ch)
	}
	if _, ok := b.Catalog().Flavor("small"); !ok {
		t.Error("answered before it was seen")
	}
	ch, err = a.AddFlavor(ctx, small(), How{})
	if must(t, ch, err); !ch.Nothing() || len(log.recs) != 2 {
		t.Errorf("the same again was written: %+v", ch)
	}
	ch, err = a.SetQuota(ctx, compute.Quota{Project: "web", Limits: compute.Resources{compute.Instances: 2}}, How{
		DryRun: true,
	})
	if must(t, ch, err); ch.Quota == nil || len(log.recs) != 2 {
		t.Errorf("a dry run: %+v", ch)
	}
	log.work = map[compute.QueueName]int{"small.gpu-a100": 3}
	_, err = a.RemoveFlavor(ctx, "small", How{})
	kind(t, err, compute.KindConflict)
	if !strings.Contains(err.Error(), "flavor remove: ") || !strings.Contains(err.Error(), "3 queued") {
		t.Error(err)
	}
	ch, err = a.RemoveFlavor(ctx, "small", How{Drain: true})
	must(t, ch, err)
	if len(a.Catalog().Flavors()) != 0 {
		t.Error("still there")
	}
}

func TestReadyOnceRead(t *testing.T) {
	s := New(Options{})
	s.Apply([]wire.Record{wire.EncodeFlavor(small()), {Key: []byte("nonsense"), Value: []byte{1}}}, false)
	select {
	case <-s.Ready():
		t.Fatal("ready before the end")
	default:
	}
	s.Apply(nil, true)
	s.Apply(nil, true)
	<-s.Ready()
	if len(s.Catalog().Flavors()) != 1 {
		t.Error("the readable record was lost with the unreadable one")
	}
}

// Of two changes that do not go together, made at once at two nodes, the later
// one in the log loses and is taken back.
func TestTwoNodesAtOnce(t *testing.T) {
	other := small()
	other.Resources = compute.Resources{compute.VCPU: 2}
	for name, c := range map[string]struct {
		first, second func(context.Context, *node) (catalog.Change, error)
		want          string
	}{
		"the same name": {
			first: func(ctx context.Context, n *node) (catalog.Change, error) {
				return n.AddFlavor(ctx, other, How{})
			},
			second: func(ctx context.Context, n *node) (catalog.Change, error) {
				return n.AddFlavor(ctx, small(), How{})
			},
			want: "flavor small 2, axis gpu",
		},
		"an axis goes": {
			first: func(ctx context.Context, n *node) (catalog.Change, error) {
				return n.RemoveCapability(ctx, "gpu", nil, How{})
			},
			second: func(ctx context.Context, n *node) (catalog.Change, error) {
				return n.AddFlavor(ctx, small(), How{})
			},
			want: "",
		},
		"an axis goes too late": {
			first: func(ctx context.Context, n *node) (catalog.Change, error) {
				return n.AddFlavor(ctx, small(), How{})
			},
			second: func(ctx context.Context, n *node) (catalog.Change, error) {
				return n.RemoveCapability(ctx, "gpu", nil, How{})
			},
			want: "flavor small 1, axis gpu",
		},
	} {
		t.Run(name, func(t *testing.T) {
			log := &topic{}
			a, b := log.node(), log.node()
			ctx := t.Context()
			ch, err := a.AddCapability(ctx, gpu("a100"), How{})
			must(t, ch, err)
			log.before = func() {
				ch, err := c.first(ctx, a)
				must(t, ch, err)
			}
			_, err = c.second(ctx, b)
			kind(t, err, compute.KindConflict)
			for _, n := range []*node{a, b} {
				if err := n.Sync(ctx); err != nil {
					t.Fatal(err)
				}
				if got := summary(n.Catalog()); got != c.want {
					t.Errorf("left: %q, want %q", got, c.want)
				}
				if p := n.Catalog().Problems(); len(p) > 0 {
					t.Error(p)
				}
			}
		})
	}
}

// A change of a quota is decided upon what is there then: what others have changed of it stays, also at another node at
// the same moment.
func TestQuotaIsChangedByTwo(t *testing.T) {
	log := &topic{}
	a, b := log.node(), log.node()
	set := func(n *node, class compute.ResourceClass) error {
		_, err := n.ChangeQuota(t.Context(), "web", func(q compute.Quota) (compute.Quota, error) {
			q.Limits = q.Limits.Clone()
			if q.Limits == nil {
				q.Limits = compute.Resources{}
			}
			q.Limits[class] = 1
			return q, nil
		})
		return err
	}
	if err := errors.Join(set(a, compute.VCPU), set(b, compute.DiskGB)); err != nil {
		t.Fatal(err)
	}
	log.before = func() {
		if err := set(a, compute.Instances); err != nil {
			t.Error(err)
		}
	}
	kind(t, set(b, compute.MemoryMB), compute.KindConflict)
	if err := a.Sync(t.Context()); err != nil {
		t.Fatal(err)
	}
	want := compute.Resources{compute.VCPU: 1, compute.DiskGB: 1, compute.Instances: 1}
	if q, _ := a.Catalog().Quota("web"); !maps.Equal(q.Limits, want) {
		t.Errorf("%v, want %v", q.Limits, want)
	}
}

// A change of a group's rule is decided upon what it is then, as that of a quota: of two at once none writes back what
// the other one has changed.
func TestGroupIsChangedByTwo(t *testing.T) {
	log := &topic{}
	a, b := log.node(), log.node()
	key := compute.GroupKey{Project: "web", Name: "front"}
	ch, err := a.AddCapability(t.Context(), gpu("a100"), How{})
	must(t, ch, err)
	change := func(n *node, with func(*compute.Group)) error {
		_, err := n.ChangeGroup(t.Context(), key, func(g compute.Group) (compute.Group, error) {
			with(&g)
			return g, nil
		})
		return err
	}
	apart := func(g *compute.Group) { g.Policy, g.Most = compute.AntiAffinity, 2 }
	kind(t, change(a, apart), compute.KindNotFound)
	g := compute.Group{Project: key.Project, Name: key.Name, Policy: compute.SpreadOnly, Spread: "gpu"}
	ch, err = a.SetGroup(t.Context(), g, true)
	must(t, ch, err)
	if err := errors.Join(change(a, apart), change(b, func(g *compute.Group) { g.Skew = 2 })); err != nil {
		t.Fatal(err)
	}
	log.before = func() {
		if err := change(a, func(g *compute.Group) { g.Skew = 3 }); err != nil {
			t.Error(err)
		}
	}
	kind(t, change(b, func(g *compute.Group) { g.Most = 4 }), compute.KindConflict)
	if err := a.Sync(t.Context()); err != nil {
		t.Fatal(err)
	}
	g.Policy, g.Most, g.Skew = compute.AntiAffinity, 2, 3
	if now, _ := a.Catalog().Group(key); now != g {
		t.Errorf("it is %+v, want %+v", now, g)
	}
}

// Two changes that do go together both stand.
func TestTwoNodesAtOnceInPeace(t *testing.T) {
	log := &topic{}
	a, b := log.node(), log.node()
	log.before = func() {
		ch, err := a.AddCapability(t.Context(), gpu("a100"), How{})
		must(t, ch, err)
	}
	f := small()
	f.Capabilities = nil
	ch, err := b.AddFlavor(t.Context(), f, How{})
	must(t, ch, err)
	if got := summary(b.Catalog()); got != "flavor small 1, axis gpu" {
		t.Error(got)
	}
}

// A change whose outcome was not known is asked for again, and the first try lands in between.
func TestTheSameChangeTwice(t *testing.T) {
	log := &topic{}
	a, b := log.node(), log.node()
	f := small()
	f.Capabilities = nil
	log.before = func() {
		ch, err := a.AddFlavor(t.Context(), f, How{})
		must(t, ch, err)
	}
	ch, err := b.AddFlavor(t.Context(), f, How{})
	must(t, ch, err)
	if got := summary(b.Catalog()); got != "flavor small 1" {
		t.Error(got)
	}
}

func TestUnknownOutcomes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		log := &topic{fail: errors.New("broker away")}
		n := log.node()
		_, err := n.AddCapability(t.Context(), gpu("a100"), How{})
		kind(t, err, compute.KindTimeout)
		for _, not := range []error{
			fmt.Errorf("no room: %w", wire.ErrFull), wire.ErrNoTopic, &compute.Error{Kind: compute.KindForbidden},
			&compute.Error{Kind: compute.KindInvalid},
		} {
			log.fail = not
			_, err = n.AddCapability(t.Context(), gpu("a100"), How{})
			kind(t, err, compute.KindUnavailable)
		}
		log.lose = true
		start := time.Now()
		_, err = n.AddCapability(t.Context(), gpu("a100"), How{})
		kind(t, err, compute.KindTimeout)
		if waited := time.Since(start); waited != 15*time.Second {
			t.Errorf("waited %s", waited)
		}
		log.lose = false
		ch, err := n.AddCapability(t.Context(), gpu("a100"), How{}) // it was there all the time
		if must(t, ch, err); !ch.Nothing() {
			t.Errorf("written twice: %+v", ch)
		}
	})
}

func summary(c *catalog.Catalog) string {
	var parts []string
	for _, f := range c.Flavors() {
		parts = append(parts, "flavor "+string(f.Name)+" "+string(rune('0'+f.Resources[compute.VCPU])))
	}
	for _, cp := range c.Capabilities() {
		parts = append(parts, "axis "+string(cp.Axis))
	}
	return strings.Join(parts, ", ")
}

// behind is a view that does not get on.
type behind struct{}

func (behind) Sync(context.Context) error { return errors.New("no leader") }

// What is not counted does not wait for what is: only removals look at instances.
func TestOnlyRemovalsWaitForInstances(t *testing.T) {
	l := &topic{}
	n := l.node()
	n.opts.Counted = behind{}
	ctx := t.Context()
	group := compute.GroupKey{Project: "p", Name: "g"}
	plain := small()
	plain.Capabilities = nil
	for what, change := range map[string]func() error{
		"axis":   func() error { _, err := n.AddCapability(ctx, gpu("a100"), How{}); return err },
		"flavor": func() error { _, err := n.AddFlavor(ctx, plain, How{}); return err },
		"quota": func() error {
			_, err := n.SetQuota(ctx, compute.Quota{Project: "p", Limits: compute.Resources{compute.VCPU: 1}}, How{})
			return err
		},
	} {
		if err := change(); err != nil {
			t.Errorf("%s: %v", what, err)
		}
	}
	for what, change := range map[string]func() error{
		"flavor": func() error { _, err := n.RemoveFlavor(ctx, small().Name, How{}); return err },
		"axis":   func() error { _, err := n.RemoveCapability(ctx, "gpu", nil, How{}); return err },
		"group":  func() error { _, err := n.RemoveGroup(ctx, group); return err },
	} {
		if err := change(); compute.KindOf(err) != compute.KindUnavailable {
			t.Errorf("%s is removed: %v", what, err)
		}
	}
}
