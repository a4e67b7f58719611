// SPDX-License-Identifier: Apache-2.0

package ring

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/berth-project/berth/pkg/compute"
)

// model is what a ringer was told, and what it did.
type model struct {
	*Ringer
	t     *rapid.T
	hosts *hosts
	now   time.Time
	works map[compute.QueueName]map[string]Work
	fed   map[compute.QueueName]time.Time // since when it had work and a host to be rung, or was rung
}

type ringed struct {
	queue compute.QueueName
	host  compute.HostID
}

var modelQueues = []compute.QueueName{"a", "b", "c"}

const modelHosts = 6

func newModel(t *rapid.T) *model {
	rules := DefaultRules()
	rules.Often = rapid.SampledFrom([]float64{0.2, 1e9}).Draw(t, "often")
	rules.AtOnce = rapid.SampledFrom([]float64{3, 4000}).Draw(t, "at once")
	lots := rand.New(rand.NewPCG(rapid.Uint64().Draw(t, "lots"), 1))
	h := &hosts{fit: map[compute.QueueName][]compute.HostID{}, room: 2, lots: lots}
	m := &model{Ringer: New(rules, h), t: t, hosts: h, now: zero, works: map[compute.QueueName]map[string]Work{}}
	m.fed = map[compute.QueueName]time.Time{}
	for _, q := range modelQueues {
		m.works[q], h.fit[q] = map[string]Work{}, ids(rapid.IntRange(0, modelHosts).Draw(t, "fit"))
	}
	return m
}

func (m *model) queue(s string) compute.QueueName { return rapid.SampledFrom(modelQueues).Draw(m.t, s) }

func (m *model) some(s string) []compute.HostID {
	return rapid.SliceOfNDistinct(rapid.SampledFrom(ids(modelHosts)), 0, modelHosts, rapid.ID[compute.HostID]).Draw(
		m.t, s,
	)
}

func (m *model) came() {
	q, key := m.queue("queue"), fmt.Sprint("k", rapid.IntRange(0, 30).Draw(m.t, "key"))
	if _, there := m.works[q][key]; there {
		return
	}
	w := Work{Key: key, Due: m.now}
	switch rapid.IntRange(0, 5).Draw(m.t, "kind") {
	case 0:
		w.Due = m.now.Add(time.Duration(rapid.IntRange(1, 40_000).Draw(m.t, "due")) * ms)
	case 1:
		w.Avoid = m.some("avoid")
	case 2:
		w.Failed = m.some("failed")
	}
	m.works[q][key] = w
	m.Came(q, w, m.now)
}

func (m *model) went() {
	q := m.queue("queue")
	keys := slices.Sorted(maps.Keys(m.works[q]))
	if len(keys) == 0 {
		m.Went(q, "none", true, m.now)
		return
	}
	key := rapid.SampledFrom(keys).Draw(m.t, "key")
	delete(m.works[q], key)
	m.Went(q, key, rapid.Bool().Draw(m.t, "claimed"), m.now)
}

func (m *model) change() {
	q, was := m.queue("queue"), m.hosts.fit
	before := slices.Clone(was[q])
	m.hosts.fit[q] = m.some("fit")
	for _, h := range m.hosts.fit[q] {
		if !slices.Contains(before, h) && rapid.Bool().Draw(m.t, "told") {
			m.NowFits(q, h, m.now)
		}
	}
}

// published is the work that lies in a queue.
func (m *model) published(q compute.QueueName) (out []Work) {
	for _, w := range m.works[q] {
		if !w.Due.After(m.now) {
			out = append(out, w)
		}
	}
	return out
}

// welcome says whether some work in a queue may run on a host, and did not fail there.
func (m *model) welcome(q compute.QueueName, h compute.HostID) (may, welcome bool) {
	for _, w := range m.published(q) {
		ok := !slices.Contains(w.Avoid, h)
		may, welcome = may || ok, welcome || ok && !slices.Contains(w.Failed, h)
	}
	return may, welcome
}

// feeds says whether a queue has work and a host that should be rung for it.
func (m *model) feeds(q compute.QueueName) bool {
	return slices.ContainsFunc(m.hosts.fit[q], func(h compute.HostID) bool {
		_, welcome := m.welcome(q, h)
		return welcome
	})
}

// ask asks for rings now, then whenever the ringer wants to be asked, and after so long.
func (m *model) ask(pass time.Duration) {
	end := m.now.Add(pass)
	for {
		m.ring()
		next := m.Next()
		if !next.IsZero() && next.Before(m.now) && m.tokens >= 1 {
			m.t.Fatalf("it wants to have been asked %s ago", m.now.Sub(next))
		}
		if next.IsZero() || next.After(end) {
			break
		}
		m.now = later(next, m.now.Add(ms))
	}
	m.now = later(m.now, end)
	m.ring()
}

func later(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}

// ring takes the rings of now, and holds them to what is known.
func (m *model) ring() {
	for q, since := range m.fed {
		// After a claim those that are held have their chance first.
		if late := m.now.Sub(since); late > m.rules.Latest+m.rules.Slowest+step && m.feeds(q) {
			m.t.Fatalf("%s has work, and nobody was rung for %s", q, late)
		}
	}
	counting, rose := m.counting()
	for _, r := range m.Rings(m.now) {
		q := r.Look.Queue
		if !slices.Contains(m.hosts.fit[q], r.Host) {
			m.t.Fatalf("%s is rung for %s, and does not fit", r.Host, q)
		}
		if r.Look.Hold > 0 {
			continue
		}
		if may, _ := m.welcome(q, r.Host); !may {
			m.t.Fatalf("%s is rung for %s, and all work avoids it", r.Host, q)
		}
		if counting[ringed{q, r.Host}] {
			m.t.Fatalf("%s is rung for %s twice", r.Host, q)
		}
		if is := m.queues[q]; !rose[q] && len(is.rung) > min(m.wanted(is), len(m.hosts.fit[q])) {
			m.t.Fatalf("%s: %d count as rung, and %d are wanted", q, len(is.rung), m.wanted(is))
		}
		m.fed[q] = m.now
	}
	for _, q := range modelQueues {
		m.checkQueue(q)
	}
	m.checkHeld()
}

// counting are the rings that still count, and the queues whose work fits a host now and
// did not before: it is rung beside those that are wanted.
func (m *model) counting() (map[ringed]bool, map[compute.QueueName]bool) {
	counting, rose := map[ringed]bool{}, map[compute.QueueName]bool{}
	for name, q := range m.queues {
		rose[name] = len(q.nowFit) > 0
		for h, until := range q.rung {
			counting[ringed{name, h}] = until.After(m.now) && m.hosts.Fits(name, h)
		}
	}
	return counting, rose
}

// step is how much later than it should a ring may come because tokens are short.
const step = 2 * time.Second

func (m *model) checkQueue(q compute.QueueName) {
	is := m.queues[q]
	if !m.feeds(q) {
		delete(m.fed, q)
	} else if _, known := m.fed[q]; !known {
		m.fed[q] = m.now
	}
	if is == nil {
		if len(m.works[q]) > 0 {
			m.t.Fatalf("%s is forgotten, and %d wait", q, len(m.works[q]))
		}
		return
	}
	if len(is.works)+len(is.later) != len(m.works[q]) {
		m.t.Fatalf("%s has %d and %d to be published, and not %v", q, len(is.works), len(is.later), m.works[q])
	}
	for _, w := range is.later {
		if late := m.now.Sub(w.Due); late > 0 && m.rules.AtOnce > 1000 || late > step {
			m.t.Fatalf("%s: %v is due since %s", q, w, late)
		}
	}
	picky := 0
	for _, w := range is.works {
		if len(w.Avoid) > 0 || len(w.Failed) > 0 {
			picky++
		}
	}
	if picky != is.picky {
		m.t.Fatalf("%s: %d mind where they run, and not %d", q, picky, is.picky)
	}
	if _, hungry := m.waiting[q]; hungry != (len(is.works) > 0) {
		m.t.Fatalf("%s: work lies in it, and it is not said to: %v", q, is.works)
	}
	if next := m.Next(); len(m.works[q]) > 0 && (is.next.IsZero() || next.IsZero() || next.After(is.next)) {
		m.t.Fatalf("%s is to be looked at at %v, and it wants to be asked at %v", q, is.next, next)
	}
}

// checkHeld counts on how many queues each host is held.
func (m *model) checkHeld() {
	held := map[compute.HostID]int{}
	for _, q := range m.queues {
		for h := range q.held {
			held[h]++
		}
	}
	if !maps.Equal(held, m.held) {
		m.t.Fatalf("held are %v, and counted %v", held, m.held)
	}
	if len(held) > 0 && m.Next().IsZero() {
		m.t.Fatal("hosts are held, and it never wants to be asked")
	}
}

// Whatever comes, goes and changes: only hosts that may take some work are rung, and no
// work is forgotten.
func TestNoWorkIsForgotten(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		m := newModel(t)
		t.Repeat(map[string]func(*rapid.T){
			"came":   func(*rapid.T) { m.came() },
			"came2":  func(*rapid.T) { m.came() },
			"went":   func(*rapid.T) { m.went() },
			"change": func(*rapid.T) { m.change() },
			"forget": func(*rapid.T) { m.Forget(m.queue("queue")) },
			"again":  func(*rapid.T) { m.Reset(m.now) },
			"ask": func(t *rapid.T) {
				m.ask(time.Duration(rapid.IntRange(0, 20_000).Draw(t, "pass")) * ms)
			},
		})
		m.ask(time.Minute) // whatever is missed shows
		for _, q := range modelQueues {
			for key := range m.works[q] {
				m.Went(q, key, false, m.now)
			}
			m.works[q] = map[string]Work{}
		}
		for range 200 { // seconds
			m.now = m.now.Add(time.Second)
			m.ring()
		}
		if len(m.queues)+len(m.Ringer.held) != 0 {
			t.Fatalf("left are %d queues, %d holds", len(m.queues), len(m.Ringer.held))
		}
	})
}
