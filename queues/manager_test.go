package queues

import (
	"errors"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"

	"github.com/berth-project/berth/pkg/compute"
	"github.com/berth-project/berth/pkg/kafkatest"
	"github.com/berth-project/berth/pkg/wire"
)

func TestMain(m *testing.M) {
	code := kafkatest.Main(m)
	if err := goleak.Find(); err != nil && code == 0 {
		fmt.Fprintln(os.Stderr, err)
		code = 1
	}
	os.Exit(code)
}

func flavor(name string, axes ...compute.AxisName) wire.Record {
	return wire.EncodeFlavor(compute.Flavor{Name: compute.FlavorName(name), Resources: compute.Resources{compute.VCPU: 1}, Capabilities: axes})
}

func noFlavor(name string) wire.Record {
	return wire.Tombstone(wire.KeyFlavor(compute.FlavorName(name)))
}

func axis(name compute.AxisName, values ...compute.AxisValue) wire.Record {
	c := compute.Capability{Axis: name}
	for _, v := range values {
		c.Values = append(c.Values, compute.CapabilityValue{Value: v, Consumes: compute.Resources{"CUSTOM_X": 1}})
	}
	return wire.EncodeCapability(c)
}

func instance(n int, queue string, s compute.State, change ...func(*compute.Instance)) wire.Record {
	i := compute.Instance{ID: compute.InstanceID(fmt.Sprintf("5f0c6f0e-3c41-4a53-9d0b-%012d", n)), Project: "p", Version: 1, State: s,
		Queue: compute.QueueName(queue), Boot: compute.Boot{Flavor: "x"}, QueuedAt: time.Now()}
	for _, c := range change {
		c(&i)
	}
	return wire.EncodeInstance(i)
}

func beacon(host string, vcpus int64) wire.Record {
	r := compute.Resources{compute.VCPU: vcpus, "CUSTOM_X": 1}
	return wire.EncodeBeacon(compute.Beacon{Host: compute.HostID(host), Inventory: compute.Inventory{Totals: r}, Free: r})
}

// bubble runs a test on virtual time and holds the far end's rules at its end.
func bubble(t *testing.T, f func(t *testing.T, far *far)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		far := newFar()
		f(t, far)
		far.mu.Lock()
		managers := slices.Clone(far.managers)
		far.mu.Unlock()
		for _, m := range managers {
			m.stop(t)
		}
		time.Sleep(time.Minute) // what was late arrives
		for _, b := range far.breaches {
			t.Error("BREACH:", b)
		}
	})
}

// settle lets virtual time pass.
func settle(d time.Duration) { time.Sleep(d); synctest.Wait() }

// has checks the open queues, that each topic is theirs and initialised, and
// that nothing is left over.
func (f *far) has(t *testing.T, want ...compute.QueueName) {
	t.Helper()
	f.mu.Lock()
	defer f.mu.Unlock()
	var open []compute.QueueName
	for n, q := range f.listed() {
		topic := f.topics[n]
		if q.State == compute.QueueOpen && q.Error == "" && topic != nil && topic.id == q.TopicID && topic.group == q.Group {
			open = append(open, n)
		} else {
			t.Errorf("%s is %+v, its topic %+v", n, q, topic)
		}
	}
	slices.Sort(open)
	slices.Sort(want)
	if diff := cmp.Diff(want, open); diff != "" {
		t.Errorf("open queues (-want +got): %s", diff)
	}
	if diff := cmp.Diff(want, slices.Sorted(maps.Keys(f.topics))); diff != "" {
		t.Errorf("topics (-want +got): %s", diff)
	}
}

// changes are the calls that change something, since the last time asked.
func (f *far) changes() []string {
	f.mu.Lock()
	defer f.mu.Unlock()
	var out []string
	for _, d := range f.done {
		op, _, _ := strings.Cut(d, " ")
		if slices.Contains([]string{"create", "init", "write", "delete", "host", "truncate"}, op) {
			out = append(out, d)
		}
	}
	f.done = nil
	return out
}

func TestAQueueIsMadeInOrder(t *testing.T) {
	bubble(t, func(t *testing.T, f *far) {
		m := f.join(t, "a")
		f.publish(names.Catalog(), axis("gpu", "a100"), flavor("small", "gpu"))
		settle(time.Minute)
		if got := f.changes(); len(got) > 0 {
			t.Fatalf("worked without being elected: %v", got)
		}
		m.elected <- true
		settle(time.Second) // a new cell is up at once, without Settle
		f.has(t, "small", "small.gpu-a100")
		want := []string{"create small,small.gpu-a100", "init t.agents-0 small,small.gpu-a100", "write small"}
		if diff := cmp.Diff(want, f.changes()); diff != "" {
			t.Error(diff)
		}
		q := f.list()["small.gpu-a100"]
		if q.Resources.String() != "CUSTOM_X=1 VCPU=1" || q.Choices["gpu"] != "a100" || q.Flavor != "small" {
			t.Errorf("%+v", q)
		}
		f.publish(names.Catalog(), axis("gpu", "a100", "h100")) // one more value
		settle(time.Second)
		f.has(t, "small", "small.gpu-a100", "small.gpu-h100")
		f.changes()
		settle(10 * time.Minute)
		if got := f.changes(); len(got) > 0 {
			t.Errorf("not quiet: %v", got)
		}
	})
}

func TestTwentyFiveQueuesInGroupsOfTen(t *testing.T) {
	bubble(t, func(t *testing.T, f *far) {
		m := f.join(t, "a", func(o *Options) { o.PerGroup = 10 })
		m.elected <- true
		var want []compute.QueueName
		for i := range 25 {
			f.publish(names.Catalog(), flavor(fmt.Sprintf("f%02d", i)))
			want = append(want, compute.QueueName(fmt.Sprintf("f%02d", i)))
		}
		settle(time.Second)
		f.has(t, want...)
		groups := map[string]int{}
		for _, q := range f.list() {
			groups[q.Group]++
		}
		if diff := cmp.Diff(map[string]int{"t.agents-0": 10, "t.agents-1": 10, "t.agents-2": 5}, groups); diff != "" {
			t.Error(diff)
		}
	})
}

func TestARemovedFlavorClosesDrainsAndGoes(t *testing.T) {
	bubble(t, func(t *testing.T, f *far) {
		m := f.join(t, "a")
		m.elected <- true
		f.publish(names.Catalog(), flavor("old"), flavor("new"))
		settle(time.Second)
		f.publish(names.Instances(), instance(1, "old", compute.StateQueued))
		f.publish(names.Catalog(), noFlavor("old"))
		settle(time.Hour)
		if q := f.list()["old"]; q.State != compute.QueueClosed || f.topic("old") == nil {
			t.Fatalf("%+v", q)
		}
		f.publish(names.Instances(), instance(1, "old", compute.StateStarting))
		settle(time.Hour)
		if f.topic("old") == nil {
			t.Fatal("gone while an instance was starting")
		}
		f.publish(names.Instances(), instance(1, "old", compute.StateActive))
		settle(time.Second)
		f.has(t, "new")
	})
}

// Somebody may admit an instance before having read that the queue is closed.
func TestAClosedQueueIsNotGoneAtOnce(t *testing.T) {
	bubble(t, func(t *testing.T, f *far) {
		m := f.join(t, "a")
		m.elected <- true
		f.publish(names.Catalog(), flavor("old"))
		settle(time.Second)
		f.publish(names.Catalog(), noFlavor("old"))
		settle(4 * time.Second)
		if f.topic("old") == nil {
			t.Fatal("gone before everybody knew it was closed")
		}
		f.publish(names.Instances(), instance(1, "old", compute.StateQueued))
		settle(time.Minute)
		f.publish(names.Instances(), instance(1, "old", compute.StateDeleted))
		settle(time.Second)
		f.has(t)
	})
}

func TestHostsGetTheirStreams(t *testing.T) {
	bubble(t, func(t *testing.T, f *far) {
		m := f.join(t, "a")
		f.publish(names.Hosts(), beacon("h1", 1))
		m.elected <- true
		refused := 0
		f.mu.Lock()
		f.fault = func(c call) fault {
			if c.op == "host" && c.name == "h2" && refused < 3 {
				refused++
				return fault{refuse: errors.New("no")}
			}
			return fault{}
		}
		f.mu.Unlock()
		f.publish(names.Hosts(), beacon("h2", 1), beacon("h3", 1))
		settle(time.Second)
		if diff := cmp.Diff(map[compute.HostID]int{"h1": 1, "h3": 1}, f.streams()); diff != "" {
			t.Error(diff)
		}
		f.publish(names.Hosts(), beacon("h1", 1))
		settle(time.Minute)
		if diff := cmp.Diff(map[compute.HostID]int{"h1": 1, "h2": 1, "h3": 1}, f.streams()); diff != "" {
			t.Error(diff)
		}
	})
}

// One queue that cannot be made keeps no other from being made, says why in its
// record, and is made once it can be.
func TestOneBadQueue(t *testing.T) {
	for _, op := range []string{"create", "init"} {
		t.Run(op, func(t *testing.T) {
			bubble(t, func(t *testing.T, f *far) {
				broken := true
				f.fault = func(c call) fault {
					if broken && c.op == op && strings.Contains(c.name, "bad") {
						return fault{refuse: compute.Conflict("topic", "bad", "cannot be made", "make room")}
					}
					return fault{}
				}
				m := f.join(t, "a")
				m.elected <- true
				var want []compute.QueueName
				for i := range 9 {
					f.publish(names.Catalog(), flavor(fmt.Sprintf("f%d", i)))
					want = append(want, compute.QueueName(fmt.Sprintf("f%d", i)))
				}
				f.publish(names.Catalog(), flavor("bad"))
				settle(40 * time.Second)
				for _, q := range want {
					if f.list()[q].TopicID == "" {
						t.Errorf("%s was not made", q)
					}
				}
				if _, told := f.list()["bad"]; told {
					t.Error("given up too soon: whoever asks for it now is refused")
				}
				settle(10 * time.Minute)
				bad := f.list()["bad"]
				if bad.State != compute.QueueClosed || bad.TopicID != "" || !strings.Contains(bad.Error, "cannot be made") {
					t.Errorf("%+v", bad)
				}
				f.mu.Lock()
				broken = false
				f.mu.Unlock()
				settle(2 * time.Minute)
				f.has(t, append(want, "bad")...)
			})
		})
	}
}

func TestATopicMadeAnewIsInitialisedAnew(t *testing.T) {
	bubble(t, func(t *testing.T, f *far) {
		m := f.join(t, "a")
		m.elected <- true
		f.publish(names.Catalog(), flavor("x"))
		settle(time.Minute)
		f.mu.Lock()
		f.topics["x"] = &topic{id: "other"}
		f.mu.Unlock()
		settle(2 * time.Minute)
		f.has(t, "x")
		if id := f.list()["x"].TopicID; id != "other" {
			t.Error(id)
		}
	})
}

func TestFinishedRecordsAreRemoved(t *testing.T) {
	bubble(t, func(t *testing.T, f *far) {
		m := f.join(t, "a")
		m.elected <- true
		f.publish(names.Catalog(), flavor("x"), flavor("y"))
		settle(time.Second)
		f.mu.Lock()
		f.topics["x"].start, f.topics["x"].end = 40, 43
		f.mu.Unlock()
		f.changes()
		settle(5 * time.Minute)
		if diff := cmp.Diff([]string{"truncate x"}, f.changes()); diff != "" || f.topic("x").low != 40 {
			t.Errorf("log start %d; %s", f.topic("x").low, diff)
		}
		// Three records nobody waits for: agents are told, so that they go.
		if a := f.lastAdvice(t); a["x"].Depth != 3 || a["y"].Depth != 0 {
			t.Errorf("%+v", a)
		}
	})
}

// list is the queue list; topic one topic, a copy; streams those of hosts.
func (f *far) list() map[compute.QueueName]compute.Queue {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.listed()
}

func (f *far) topic(q compute.QueueName) *topic {
	f.mu.Lock()
	defer f.mu.Unlock()
	if t := f.topics[q]; t != nil {
		found := *t
		return &found
	}
	return nil
}

func (f *far) streams() map[compute.HostID]int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return maps.Clone(f.hosts)
}

func (f *far) advice(t *testing.T) []compute.Advice {
	t.Helper()
	f.mu.Lock()
	defer f.mu.Unlock()
	var out []compute.Advice
	for _, r := range f.logs[names.Advice()] {
		a, err := wire.DecodeAdvice(r)
		if err != nil {
			t.Fatal(err)
		}
		out = append(out, a)
	}
	return out
}

func (f *far) lastAdvice(t *testing.T) map[compute.QueueName]compute.QueueAdvice {
	t.Helper()
	out := map[compute.QueueName]compute.QueueAdvice{}
	for _, a := range f.advice(t) {
		for _, q := range a.About {
			out[q.Queue] = q
		}
	}
	return out
}

func TestAdvice(t *testing.T) {
	bubble(t, func(t *testing.T, f *far) {
		m := f.join(t, "a")
		f.publish(names.Hosts(), beacon("h1", 4), beacon("h2", 0))
		f.publish(names.Catalog(), flavor("x"), flavor("y"))
		m.elected <- true
		settle(5 * time.Second)
		told := f.lastAdvice(t)
		if told["x"].Hosts != (compute.HostCounts{NeverFits: 1, Eligible: 1}) || len(told) != 2 {
			t.Fatalf("%+v", told)
		}
		n := len(f.advice(t))
		queued := time.Now()
		pinned := func(i *compute.Instance) { i.Boot.Host = "h1" }
		later := func(i *compute.Instance) { i.PublishAt = time.Now().Add(20 * time.Second) }
		f.publish(names.Instances(), instance(1, "x", compute.StateQueued), instance(2, "x", compute.StateQueued, later),
			instance(3, "y", compute.StateQueued, pinned))
		settle(100 * time.Millisecond) // an idle manager tells at once
		news := f.advice(t)[n:]
		if len(news) != 1 || len(news[0].About) != 1 || news[0].About[0].Queue != "x" || news[0].About[0].Depth != 1 || !news[0].About[0].Oldest.Equal(queued) {
			t.Fatalf("%+v", news)
		}
		settle(40 * time.Second) // due by now, and told in full
		if told := f.lastAdvice(t); told["x"].Depth != 2 || told["y"].Depth != 0 {
			t.Errorf("%+v", told)
		}
		f.publish(names.Instances(), instance(1, "x", compute.StateStarting), instance(2, "x", compute.StateDeleted))
		settle(2 * time.Second)
		if told := f.lastAdvice(t); told["x"].Depth != 0 || !told["x"].Oldest.IsZero() {
			t.Errorf("%+v", told)
		}
		settle(time.Minute) // no beacon for long
		if told := f.lastAdvice(t); told["x"].Hosts.Silent != 1 {
			t.Errorf("%+v", told)
		}
		f.checkPace(t)
	})
}

// checkPace holds advice to one record a second.
func (f *far) checkPace(t *testing.T) {
	t.Helper()
	all := f.advice(t)
	for i := 1; i < len(all); i++ {
		if gap := all[i].At.Sub(all[i-1].At); gap < time.Second {
			t.Errorf("advice after %s", gap)
		}
	}
}

// Whatever the active manager was doing when it was lost, and whether that was
// done, never arrived or arrives late: the other one ends in the same state,
// with no rule broken.
func TestTakeoverInTheMiddleOfEverything(t *testing.T) {
	for mode, name := range map[faultMode]string{before: "never arrives", after: "done", late: "arrives late"} {
		t.Run(name, func(t *testing.T) {
			n := 1
			for takeover(t, mode, n) {
				n++
			}
			if n < 20 {
				t.Errorf("only %d calls could be interrupted", n)
			}
		})
	}
}

// takeover interrupts the n-th call of a story in which every step happens. It
// says whether the story has so many calls.
func takeover(t *testing.T, mode faultMode, n int) (happened bool) {
	bubble(t, func(t *testing.T, f *far) {
		small := func(o *Options) { o.PerGroup = 2 }
		a, b := f.join(t, "a", small), f.join(t, "b", small)
		cut := ""
		f.fault = func(c call) fault {
			if c.who == "a" && cut != "" {
				return fault{refuse: errors.New("cut off")}
			}
			if c.who == "a" && c.n == n {
				cut = c.op + " " + c.name
				return fault{mode: mode, hook: func() { a.elected <- false; b.elected <- true }}
			}
			return fault{}
		}
		a.elected <- true
		f.publish(names.Catalog(), axis("gpu", "a100"), flavor("old", "gpu"), flavor("kept"))
		settle(20 * time.Second)
		f.publish(names.Instances(), instance(1, "old", compute.StateQueued))
		f.publish(names.Hosts(), beacon("h1", 4))
		f.publish(names.Catalog(), noFlavor("old"), flavor("new"))
		settle(20 * time.Second)
		f.publish(names.Instances(), instance(1, "old", compute.StateActive))
		settle(2 * time.Minute)
		f.has(t, "kept", "new")
		if f.streams()["h1"] == 0 {
			t.Error("the host has no stream")
		}
		f.changes()
		settle(5 * time.Minute)
		// A manager elected only now makes the host's stream again: no harm.
		if got := slices.DeleteFunc(f.changes(), func(s string) bool { return s == "host h1" }); len(got) > 0 {
			t.Errorf("not quiet: %v", got)
		}
		if happened = cut != ""; happened && t.Failed() {
			t.Logf("call %d was %s", n, cut)
		}
	})
	return happened && !t.Failed()
}

// A topic just made may not be known everywhere yet: look again, calmly.
func TestBrokersThatHearLate(t *testing.T) {
	bubble(t, func(t *testing.T, f *far) {
		f.unheard = true
		m := f.join(t, "a")
		m.elected <- true
		f.publish(names.Catalog(), flavor("x"))
		settle(3 * time.Second)
		f.mu.Lock()
		if f.calls > 100 {
			t.Errorf("%d calls in 3 seconds", f.calls)
		}
		f.unheard = false
		f.mu.Unlock()
		settle(time.Second)
		f.has(t, "x")
	})
}

// An initialisation without an answer may still be at work: it is not asked for
// again before it has arrived or died.
func TestAnInitialisationWithoutAnAnswer(t *testing.T) {
	for mode, name := range map[faultMode]string{before: "never arrives", after: "done", late: "arrives late"} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T, f *far) {
				lost := false
				f.fault = func(c call) fault {
					if c.op == "init" && !lost {
						lost = true
						return fault{mode: mode}
					}
					return fault{}
				}
				m := f.join(t, "a", func(o *Options) { o.StepTimeout = 2 * time.Second })
				m.elected <- true
				f.publish(names.Catalog(), flavor("x"))
				settle(time.Minute)
				f.has(t, "x")
			})
		})
	}
}

// Brokers that have not heard of a new topic answer for the one before it.
func TestShareStateOfAnotherTopicSaysNothing(t *testing.T) {
	bubble(t, func(t *testing.T, f *far) {
		f.stale = true
		m := f.join(t, "a")
		m.elected <- true
		f.publish(names.Catalog(), flavor("x"))
		settle(time.Minute)
		for _, d := range f.changes() {
			if strings.HasPrefix(d, "init") {
				t.Error("initialised without knowing whether it was")
			}
		}
		f.mu.Lock()
		f.stale = false
		f.mu.Unlock()
		settle(2 * time.Minute)
		f.has(t, "x")
	})
}

func TestATopicStaysWhileItIsListed(t *testing.T) {
	bubble(t, func(t *testing.T, f *far) {
		m := f.join(t, "a")
		m.elected <- true
		f.publish(names.Catalog(), flavor("x"))
		settle(time.Second)
		f.publish(names.Catalog(), noFlavor("x"))
		settle(time.Second)
		f.mu.Lock()
		f.fault = func(c call) fault {
			if c.op == "write" {
				return fault{refuse: errors.New("no")}
			}
			return fault{}
		}
		f.mu.Unlock()
		settle(5 * time.Minute)
		if f.topic("x") == nil {
			t.Fatal("topic deleted, its record is still there")
		}
		f.mu.Lock()
		f.fault = nil
		f.mu.Unlock()
		settle(2 * time.Minute)
		f.has(t)
	})
}

// Who is elected again does not count on what it told the time before.
func TestEachTermBeginsWithAdviceInFull(t *testing.T) {
	bubble(t, func(t *testing.T, f *far) {
		m := f.join(t, "a")
		f.publish(names.Catalog(), flavor("x"))
		m.elected <- true
		settle(2 * time.Second)
		m.elected <- false
		settle(2 * time.Second)
		n := len(f.advice(t))
		m.elected <- true
		settle(2 * time.Second)
		if news := f.advice(t)[n:]; len(news) != 1 || !news[0].Full || len(news[0].About) != 1 {
			t.Errorf("%+v", news)
		}
	})
}

// With Kafka away, or answering but doing nothing, nothing is tried more often
// than it must be; once it is back, all is done.
func TestAnOutage(t *testing.T) {
	for _, op := range []string{"", "create", "init"} {
		t.Run(op, func(t *testing.T) { outage(t, op) })
	}
}

func outage(t *testing.T, op string) {
	bubble(t, func(t *testing.T, f *far) {
		m := f.join(t, "a")
		m.elected <- true
		settle(time.Second)
		away := errors.New("no broker answers")
		f.mu.Lock()
		tried := 0
		f.fault = func(c call) fault {
			if op != "" && c.op != op {
				return fault{}
			}
			tried++
			return fault{refuse: away}
		}
		f.mu.Unlock()
		var want []compute.QueueName
		for i := range 30 {
			f.publish(names.Catalog(), flavor(fmt.Sprintf("f%02d", i)))
			want = append(want, compute.QueueName(fmt.Sprintf("f%02d", i)))
		}
		settle(10 * time.Minute)
		f.mu.Lock()
		if tried > 100 {
			t.Errorf("%d calls in 10 minutes", tried)
		}
		f.fault = nil
		f.mu.Unlock()
		settle(3 * time.Minute)
		f.has(t, want...)
	})
}

// Elected, not elected, elected again without a word in between: one term at a
// time, and none after the last no.
func TestTermsDoNotOverlap(t *testing.T) {
	bubble(t, func(t *testing.T, f *far) {
		m := f.join(t, "a")
		for range 3 {
			m.elected <- true
			synctest.Wait()
		}
		f.publish(names.Catalog(), flavor("x"))
		settle(time.Minute)
		f.has(t, "x")
		m.elected <- false
		settle(time.Second)
		f.mu.Lock()
		before := f.calls
		f.mu.Unlock()
		f.publish(names.Catalog(), flavor("y"))
		settle(10 * time.Minute)
		f.mu.Lock()
		if f.calls != before {
			t.Errorf("%d calls while not elected", f.calls-before)
		}
		f.mu.Unlock()
		close(m.elected)
		settle(time.Minute)
	})
}

func TestNothingIsDoneBeforeAllWasRead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFar()
		f.topics["x"] = &topic{id: "1"} // nobody wants it, as far as is known
		m := &member{far: f, name: "a", elected: make(chan bool, 1), read: map[string]int{}}
		m.Manager = New(Options{Topics: names, Leader: m, View: m, Log: m, Far: Far{Topics: m, Hosts: m, Shares: m}})
		m.elected <- true
		done := make(chan error, 1)
		go func() { done <- m.Run(t.Context()) }()
		m.Queues(nil, true)
		m.Hosts(nil, true)
		m.Instances(nil, true)
		m.Catalog([]wire.Record{axis("gpu", "a100")}, false)
		settle(time.Minute)
		if len(f.changes()) > 0 || f.topic("x") == nil {
			t.Fatal("worked on half of what there is")
		}
		m.Catalog([]wire.Record{flavor("x")}, true)
		<-m.Ready()
	})
}
