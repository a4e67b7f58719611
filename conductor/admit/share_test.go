// SPDX-License-Identifier: Apache-2.0

package admit

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/berth-project/berth/pkg/compute"
)

// verifyShares finds a share that does not count what is there.
func (c *checked) verifyShares() {
	c.t.Helper()
	for key, h := range c.shares {
		for _, e := range h.held.items {
			if e.pub == nil || e.pub.state != heldByShare || e.pub.share != h {
				c.t.Fatalf("%v: %s is held, and does not know it", key, e.inst.ID)
			}
		}
		ahead := 0
		for i, e := range h.line {
			if e == nil {
				continue
			}
			if ahead++; e.pub == nil || e.pub.share != h || e.pub.number != h.first+uint32(i) {
				c.t.Fatalf("%v: %s is in the line, and does not know it", key, e.inst.ID)
			}
		}
		if ahead != h.ahead || h.key != key || h.dirty || len(h.loaded) > 0 {
			c.t.Fatalf("%v: %d are in the line: %+v", key, ahead, h)
		}
		if len(h.line)+len(h.held.items) == 0 || len(h.held.items) > 0 && h.timer.index == 0 {
			c.t.Fatalf("%v has nothing, or nobody looks at what it holds: %+v", key, h)
		}
	}
	var held Held
	for id, e := range c.instances {
		switch {
		case e.pub == nil:
		case e.pub.state == heldByShare:
			held.ByShare++
		case e.pub.state == heldByGroup:
			held.ByGroup++
		}
		if e.pub != nil && e.pub.state == heldByShare && !slices.Contains(c.share(e).held.items, e) {
			c.t.Fatalf("%s is held by nothing: %+v", id, *e.pub)
		}
	}
	if held != c.Held() {
		c.t.Fatalf("%+v are held, and %+v counted", held, c.Held())
	}
}

// crowd is one partition, one queue that is served in order, and hosts that prepare what they take before they claim
// it.
type crowd struct {
	t         *testing.T
	state     *checked
	view      View
	now       time.Time
	apart     time.Duration // from one boot to the next
	queue     []compute.Build
	published map[compute.InstanceID]int
}

func newCrowd(t *testing.T) *crowd {
	c := &crowd{
		t: t, state: fresh(t), view: catalog(), now: epoch, apart: time.Microsecond, published: map[compute.InstanceID]int{},
	}
	c.hear(HostsRead{})
	return c
}

func (c *crowd) hear(in Input) {
	c.t.Helper()
	c.carry(c.state.Step(in, c.view, c.now))
	if len(c.state.log)%97 == 0 || len(c.state.log) < 300 {
		c.state.verifyShares()
	}
}

func (c *crowd) carry(out Output) {
	c.state.log = append(c.state.log, out.Changed...)
	for _, effect := range out.Effects {
		if p, ok := effect.(Publish); ok {
			c.queue = append(c.queue, p.Build)
			c.published[p.Build.Instance]++
		}
	}
}

func (c *crowd) boot(p compute.Project, from, n int) {
	c.t.Helper()
	for i := range n {
		c.now = c.now.Add(c.apart)
		b := compute.Boot{Flavor: "m1.small"}
		c.hear(Requested{Request: compute.Request{Op: compute.OpBoot, Project: p,
			Instance: long(fmt.Sprint(from + i)), Boot: &b}})
	}
}

// take takes the first build out of the queue.
func (c *crowd) take() compute.Build {
	c.t.Helper()
	if len(c.queue) == 0 {
		c.t.Fatal("nothing is in the queue")
	}
	b := c.queue[0]
	c.queue = c.queue[1:]
	return b
}

func (c *crowd) claim(b compute.Build) {
	c.t.Helper()
	c.hear(Reported{Report: compute.Report{
		Op: compute.ReportClaim, Host: "h1", Project: b.Project, Instance: b.Instance, Attempt: b.Attempt,
		Claim: compute.ClaimID(fmt.Sprintf("%s-%d", b.Instance, b.Attempt)),
	}})
}

func (c *crowd) pass(d time.Duration) {
	for end := c.now.Add(d); ; {
		due := c.state.NextDue()
		if due.IsZero() || due.After(end) {
			c.now = end
			return
		}
		c.now = latest(c.now, due)
		c.hear(Tick{Until: c.now})
	}
}

// eligible has advice say for how many hosts there is work.
func (c *crowd) eligible(n uint32) {
	c.view.Advice["m1.small"] = compute.QueueAdvice{Queue: "m1.small", Hosts: compute.HostCounts{Eligible: n}}
}

// TestABurstHoldsUpNobodyElse: behind 10,000 builds of one project that of another is claimed after 16.
func TestABurstHoldsUpNobodyElse(t *testing.T) {
	c := newCrowd(t)
	c.eligible(0)
	c.view.Quotas[compute.DefaultQuota] = compute.Quota{}
	c.boot("p", 1, 10_000)
	c.boot("q", 20_000, 1)
	before := 0
	for b := c.take(); b.Project != "q"; b = c.take() {
		before++
		c.claim(b)
	}
	c.claim(compute.Build{Project: "q", Instance: long("20000"), Attempt: 1})
	if before != 16 {
		t.Errorf("%d of the burst are claimed before it", before)
	}
	var order []compute.InstanceID
	for len(c.queue) > 0 {
		b := c.take()
		order = append(order, b.Instance)
		c.claim(b)
	}
	if len(order) != 10_000-16 || !slices.IsSorted(order) || len(c.published) != 10_001 {
		t.Errorf("%d of the burst are claimed behind it, %d were published", len(order), len(c.published))
	}
	for id, n := range c.published {
		if n != 1 {
			t.Errorf("%s was published %d times", id, n)
		}
	}
	if len(c.state.shares) != 0 {
		for k, h := range c.state.shares {
			t.Errorf("%v %+v are left", k, h)
		}
	}
}

// TestManyHostsHaveMore: a host that would take work now has some of each project in its queue.
func TestManyHostsHaveMore(t *testing.T) {
	c := newCrowd(t)
	c.eligible(10)
	c.boot("p", 1, 1000)
	if n := len(c.queue); n != 16+40 {
		t.Errorf("%d are in the queue", n)
	}
	c.pass(time.Second)
	for range 500 {
		c.claim(c.take())
	}
	c.pass(time.Second)
	if n := len(c.queue); n != 1000-500 {
		t.Errorf("%d are in the queue after 500 were claimed in a second", n)
	}
}

// TestAWeightIsSomeMoreOfTheQueue: a project of weight 3 has three times as many in the queue; where the default quota
// has a weight, that is of each that has none.
func TestAWeightIsSomeMoreOfTheQueue(t *testing.T) {
	for _, w := range []struct {
		own, all uint32
		want     int
	}{{0, 0, 16}, {3, 0, 48}, {0, 2, 32}, {1, 2, 16}} {
		c := newCrowd(t)
		c.eligible(0)
		c.view.Quotas["p"] = compute.Quota{Project: "p", Weight: w.own}
		c.view.Quotas[compute.DefaultQuota] = compute.Quota{Project: compute.DefaultQuota, Weight: w.all}
		c.boot("p", 1, 100)
		if n := len(c.queue); n != w.want {
			t.Errorf("%+v: %d are in the queue", w, n)
		}
	}
}

// TestWhatNobodyMayHaveHoldsUpNobody: builds that lie before one that was claimed do not count.
func TestWhatNobodyMayHaveHoldsUpNobody(t *testing.T) {
	c := newCrowd(t)
	c.eligible(0)
	c.boot("p", 1, 100)
	c.queue = c.queue[15:] // of the first 16 one can be taken
	for range 85 {
		c.claim(c.take())
	}
	if len(c.published) != 100 {
		t.Errorf("%d were published", len(c.published))
	}
	c.hear(Requested{Request: compute.Request{Op: compute.OpDelete, Project: "p", Instance: long("3")}})
	c.boot("p", 200, 16)
	if len(c.published) != 116 {
		t.Errorf("%d were published", len(c.published))
	}
}

// TestWhereNothingIsTakenMoreIsPublished: hosts would take work, and take none of what is there: what is behind it may
// be for them. It comes later and later.
func TestWhereNothingIsTakenMoreIsPublished(t *testing.T) {
	c := newCrowd(t)
	c.eligible(0)
	c.boot("p", 1, 200)
	want := func(n int) {
		t.Helper()
		if len(c.published) != n {
			t.Errorf("%d were published, want %d", len(c.published), n)
		}
	}
	c.pass(29 * time.Second)
	want(16) // no host has room
	c.eligible(1)
	c.pass(2 * time.Second)
	want(16 + 4 + 16)
	c.pass(8 * time.Second)
	want(16 + 4 + 16)
	c.pass(3 * time.Second)
	want(16 + 4 + 32)
	c.claim(c.queue[40])
	want(16 + 4 + 41)
}

// TestWhatIsHeldEnds: by its deadline, or when it is deleted.
func TestWhatIsHeldEnds(t *testing.T) {
	c := newCrowd(t)
	c.eligible(0)
	c.boot("p", 1, 40)
	c.hear(Requested{Request: compute.Request{Op: compute.OpDelete, Project: "p", Instance: long("30")}})
	c.pass(time.Hour)
	for i := range 40 {
		inst := c.state.Instance(long(fmt.Sprint(i + 1)))
		if !inst.State.Ended() {
			t.Errorf("%s is %s", short(inst.ID), inst.State)
		}
	}
	if len(c.state.shares) != 0 {
		t.Errorf("%d shares are left", len(c.state.shares))
	}
}

// TestATakeoverDoesNotPublishAll: of what waits as many are taken to be in the queue as may be, the longest waiting;
// the others are published as these are claimed.
func TestATakeoverDoesNotPublishAll(t *testing.T) {
	c := newCrowd(t)
	c.eligible(0)
	c.boot("p", 1, 1000)
	c.state = loaded(t, c.state.log, c.view, c.now)
	clear(c.published)
	c.hear(HostsRead{})
	c.mustPublish(long("16")) // as after a look at the share that the conductor before did not end
	c.queue = slices.Delete(c.queue, 16, 17)
	for i := range 1000 {
		b := c.take()
		if b.Instance != long(fmt.Sprint(i+1)) {
			t.Fatalf("%s is the next after %d", b.Instance, i)
		}
		c.claim(b)
	}
	if len(c.published) != 1+1000-16 {
		t.Errorf("%d were published again", len(c.published))
	}
}

// TestATakeoverOfWhatHasOneTime: of builds admitted in one turn nobody knows after a takeover in which order they were
// published, so those that may be in the queue are published again, and no more.
func TestATakeoverOfWhatHasOneTime(t *testing.T) {
	c := newCrowd(t)
	c.apart = 0
	c.eligible(0)
	for i := range 40 {
		c.boot("p", 40-i, 1)
	}
	c.state = loaded(t, c.state.log, c.view, c.now)
	clear(c.published)
	c.hear(HostsRead{})
	var want []compute.InstanceID
	for id := range c.state.instances {
		want = append(want, id)
	}
	slices.Sort(want)
	c.mustPublish(want[:16]...)
}

// mustPublish fails where anything else was published, or more than once.
func (c *crowd) mustPublish(ids ...compute.InstanceID) {
	c.t.Helper()
	want := map[compute.InstanceID]int{}
	for _, id := range ids {
		want[id] = 1
	}
	if diff := cmp.Diff(want, c.published); diff != "" {
		c.t.Fatal(diff)
	}
}

// TestWhatEndsAtATakeoverLetsTheNextGo: what was in the queue, and whose deadline passed while nobody decided, is no
// reason to think that what was held behind it is there.
func TestWhatEndsAtATakeoverLetsTheNextGo(t *testing.T) {
	c := newCrowd(t)
	c.eligible(0)
	c.boot("p", 1, 16)
	c.now = c.now.Add(30 * time.Minute)
	c.boot("p", 17, 4)
	c.now = c.now.Add(40 * time.Minute)
	c.state = loaded(t, c.state.log, c.view, c.now)
	clear(c.published)
	c.hear(Tick{Until: c.now})
	for i := range 20 {
		id := long(fmt.Sprint(i + 1))
		if inst := c.state.Instance(id); inst.State.Ended() != (i < 16) {
			t.Errorf("%s is %s", short(id), inst.State)
		}
	}
	c.mustPublish(long("16"), long("17"), long("18"), long("19"), long("20"))
}

// TestATakeoverWithMoreHosts: more hosts than before would take builds, so the window is larger than what the conductor
// before has published. The rest is published within seconds, and what was claimed until then is not.
func TestATakeoverWithMoreHosts(t *testing.T) {
	c := newCrowd(t)
	c.eligible(0)
	c.boot("p", 1, 60)
	c.eligible(5)
	c.state = loaded(t, c.state.log, c.view, c.now)
	clear(c.published)
	c.hear(HostsRead{})
	for range 3 {
		c.claim(c.take())
	}
	c.mustPublish(long("16"), long("17"), long("18"), long("19"))
	c.pass(6 * time.Second)
	for i := range 60 {
		// 16 more since nothing was claimed for 5 s
		if id := long(fmt.Sprint(i + 1)); c.published[id] > 1 || c.published[id] == 1 != (i >= 15 && i < 16+3+5*4+16) {
			t.Errorf("%s was published %d times", short(id), c.published[id])
		}
	}
}

// TestWhatTheLastTurnReleasedIsPublished: a conductor that ended between the record of a claim and what followed from
// it has not published the build that the claim made place for.
func TestWhatTheLastTurnReleasedIsPublished(t *testing.T) {
	c := newCrowd(t)
	c.eligible(0)
	c.boot("p", 1, 40)
	for range 3 {
		c.claim(c.take()) // and of the builds that follow from the last two nothing came into the queue
	}
	tail := []compute.InstanceID{long("2"), long("3")}
	c.state = loaded(t, c.state.log, c.view, c.now)
	var again []string
	for _, id := range tail {
		for _, effect := range c.state.Resend(id, c.view, c.now).Effects {
			if p, is := effect.(Publish); is {
				again = append(again, short(p.Build.Instance))
			}
		}
	}
	c.state.verifyShares()
	if !slices.Equal(again, []string{"19", "18", "17"}) { // one more, as at every takeover
		t.Errorf("published were %s", again)
	}
}

// TestWhatATurnReleasedOfFewIsPublished: where two claims of one turn leave fewer than a window, the first of them has
// released something all the same.
func TestWhatATurnReleasedOfFewIsPublished(t *testing.T) {
	c := newCrowd(t)
	c.eligible(0)
	last := c.state.opts.ShareLeast + 1
	c.boot("p", 1, last)
	claimed := []compute.Build{c.take(), c.take()}
	for _, b := range claimed {
		c.claim(b)
	}
	c.state = loaded(t, c.state.log, c.view, c.now)
	clear(c.published)
	for _, b := range claimed {
		c.carry(c.state.Resend(b.Instance, c.view, c.now))
	}
	if c.published[long(fmt.Sprint(last))] == 0 {
		t.Errorf("published were %v, and not %d", c.published, last)
	}
}

// TestWhatATurnReleasedOfOneTimeIsPublished: of what was queued at one time nobody knows what was published last.
func TestWhatATurnReleasedOfOneTimeIsPublished(t *testing.T) {
	c := newCrowd(t)
	c.apart = 0
	c.eligible(0)
	for n := c.state.opts.ShareLeast + 1; n > 0; n-- {
		c.boot("p", n, 1) // the last is held
	}
	b := c.take()
	c.claim(b)
	c.state = loaded(t, c.state.log, c.view, c.now)
	clear(c.published)
	c.carry(c.state.Resend(b.Instance, c.view, c.now))
	if c.published[long("1")] != 1 {
		t.Errorf("published were %v", c.published)
	}
}

// TestATakeoverOfAnAttemptThatCameLate: it is queued since before what is in the queue, and was held behind that.
func TestATakeoverOfAnAttemptThatCameLate(t *testing.T) {
	c := newCrowd(t)
	c.eligible(0)
	c.boot("p", 1, 1)
	c.claim(c.take())
	c.boot("p", 2, 20)
	c.hear(Reported{Report: compute.Report{
		Op: compute.ReportFailed, Class: compute.FailureHost, Host: "h1", Project: "p", Instance: long("1"), Attempt: 1,
		Claim: compute.ClaimID(long("1") + "-1"),
	}})
	c.pass(2 * c.state.opts.RetryFirst)
	if e := c.state.instances[long("1")]; e.pub.state != heldByShare {
		t.Fatalf("it is %+v", *e.pub)
	}
	c.state = loaded(t, c.state.log, c.view, c.now)
	clear(c.published)
	c.hear(HostsRead{})
	c.mustPublish(long("1"), long("16")) // and the last, as at every takeover
}

// TestATakeoverBesideWhatAwaitsItsGroup: members that were in the queue are offered anew, since their queue was listed
// lately, and wait until their group is known. What was held behind them is not taken to be in the queue.
func TestATakeoverBesideWhatAwaitsItsGroup(t *testing.T) {
	c := newCrowd(t)
	c.eligible(0)
	rule := compute.Group{Project: "p", Name: "loose", Policy: compute.SoftAntiAffinity, Most: 1}
	c.view.Groups[rule.Key()] = rule
	c.view.Listed["m1.small"] = c.now
	for i := range c.state.opts.ShareLeast {
		b := compute.Boot{Flavor: "m1.small", Rules: compute.InGroup(rule.Name)}
		c.hear(Requested{Request: compute.Request{Op: compute.OpBoot, Project: "p", Instance: long(fmt.Sprint(i + 1)),
			Boot: &b}})
	}
	c.now = c.now.Add(heardListed)
	c.boot("p", 17, 3)
	if len(c.published) != 16 || c.published[long("16")] != 1 {
		t.Fatalf("published were %v", c.published)
	}
	behind := c.view
	behind.Groups, behind.CatalogBehind = nil, true
	c.state = loaded(t, c.state.log, behind, c.now)
	clear(c.published)
	c.carry(c.state.Loaded(behind, c.now))
	c.mustPublish(long("17"), long("18"), long("19"))
}

// TestATakeoverOfAProjectThatWeighsMore: its window is wider, so that nothing of this was held.
func TestATakeoverOfAProjectThatWeighsMore(t *testing.T) {
	c := newCrowd(t)
	c.eligible(0)
	c.view.Quotas["p"] = compute.Quota{Weight: 2}
	c.boot("p", 1, 2*c.state.opts.ShareLeast)
	c.state = loaded(t, c.state.log, c.view, c.now)
	clear(c.published)
	c.carry(c.state.Loaded(c.view, c.now))
	c.mustPublish()
}

// TestWhatWasClaimedLongAgoDoesNotCount: the window is small again once nothing is held.
func TestWhatWasClaimedLongAgoDoesNotCount(t *testing.T) {
	c := newCrowd(t)
	c.eligible(0)
	c.boot("p", 1, 401)
	for range 400 {
		c.claim(c.take())
	}
	c.pass(20 * time.Minute) // one still waits
	c.queue = nil
	c.boot("p", 1000, 100)
	if n := len(c.queue); n != 15 {
		t.Errorf("%d more are in the queue", n)
	}
}

// TestOnFullHostsMoreIsPublishedLate: builds that no host may have stop no others of their project for ever.
func TestOnFullHostsMoreIsPublishedLate(t *testing.T) {
	c := newCrowd(t)
	c.eligible(0)
	c.boot("p", 1, 40)
	c.pass(59 * time.Second)
	if n := len(c.published); n != 16 {
		t.Errorf("%d were published before a minute is over", n)
	}
	c.pass(3 * time.Minute)
	if n := len(c.published); n != 40 {
		t.Errorf("%d were published", n)
	}
}

// TestWhatNoHostMayHaveIsPassed: where hosts would take a build and take none, twice as many more are published each time.
func TestWhatNoHostMayHaveIsPassed(t *testing.T) {
	c := newCrowd(t)
	c.eligible(1)
	c.boot("p", 1, 400)
	published := []int{len(c.published)}
	for _, d := range []time.Duration{6, 10, 20, 40, 60} {
		c.pass(d * time.Second)
		published = append(published, len(c.published))
	}
	if diff := cmp.Diff([]int{20, 36, 52, 84, 148, 212}, published); diff != "" {
		t.Errorf("so many were published (-want +got): %s", diff)
	}
}

// TestAMemberIsToldToItsHostThoughItsShareHoldsIt: once another has a host, what waits for a place in its queue is
// offered there.
func TestAMemberIsToldToItsHostThoughItsShareHoldsIt(t *testing.T) {
	for name, takeover := range map[string]bool{"at once": false, "after a takeover": true} {
		c := newCrowd(t)
		c.eligible(0)
		rule := compute.Group{Project: "p", Name: "near", Policy: compute.Affinity}
		c.view.Groups[rule.Key()] = rule
		c.boot("p", 1, 40)
		for i, with := range []compute.Choices{nil, {"zone": "a"}} { // the other is in another queue
			b := compute.Boot{Flavor: "m1.small", With: with, Rules: compute.InGroup("near")}
			id := long(fmt.Sprint(102 - i))
			c.hear(Requested{Request: compute.Request{Op: compute.OpBoot, Project: "p", Instance: id, Boot: &b}})
		}
		c.claim(compute.Build{Project: "p", Instance: long("101"), Attempt: 1})
		if takeover {
			c.state = loaded(t, c.state.log, c.view, c.now)
			c.hear(HostsRead{})
			c.pass(time.Minute)
		}
		if e := c.state.instances[long("102")]; !e.pub.told {
			t.Errorf("%s: it is %+v", name, *e.pub)
		}
	}
}

// TestATakeoverWhereAQueueWasListedAgain: nothing says then whether what is older has been in the queue. It is published,
// the oldest first, and no more of it than a window.
func TestATakeoverWhereAQueueWasListedAgain(t *testing.T) {
	c := newCrowd(t)
	c.eligible(0)
	c.boot("p", 1, 20)
	c.now = c.now.Add(time.Minute)
	c.view.Listed["m1.small"] = c.now
	c.now = c.now.Add(time.Minute)
	c.boot("p", 21, 20)
	c.state = loaded(t, c.state.log, c.view, c.now)
	clear(c.published)
	for _, effect := range c.state.Loaded(c.view, c.now).Effects {
		c.published[effect.(Publish).Build.Instance]++
	}
	c.hear(HostsRead{})
	for i := range 40 {
		want := 0
		if i < 16 {
			want = 1
		}
		if id := long(fmt.Sprint(i + 1)); c.published[id] != want {
			t.Errorf("%s was published %d times", short(id), c.published[id])
		}
	}
}
