// SPDX-License-Identifier: Apache-2.0

package admit

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/berth-project/berth/pkg/compute"
)

// args are the words of a story's line: bare ones and key=value.
type args struct {
	bare []string
	key  map[string]string
}

func parse(words []string) args {
	a := args{key: map[string]string{}}
	for _, w := range words {
		if k, v, ok := strings.Cut(w, "="); ok {
			a.key[k] = v
		} else {
			a.bare = append(a.bare, w)
		}
	}
	return a
}

func (a args) has(word string) bool { return slices.Contains(a.bare, word) }

func (a args) or(key, otherwise string) string {
	if v := a.key[key]; v != "" {
		return v
	}
	return otherwise
}

const idFormat = "00000000-0000-0000-0000-%012s"

func long(id string) compute.InstanceID {
	return compute.InstanceID(strings.ReplaceAll(fmt.Sprintf(idFormat, id), " ", "0"))
}

func short(id compute.InstanceID) string { return strings.TrimLeft(string(id), "0-") }

// brief shortens a command id that was made from an instance id.
func brief(c compute.CommandID) string { return strings.TrimLeft(string(c), "0-") }

func (s *story) request(t *testing.T, op string, a args) compute.Request {
	ops := map[string]compute.RequestOp{
		"boot": compute.OpBoot, "delete": compute.OpDelete, "stop": compute.OpStop, "start": compute.OpStart,
		"reboot": compute.OpReboot, "fence": compute.OpFence, "forget": compute.OpForget, "confirm": compute.OpConfirm,
		"change": compute.OpChange, "boot-set": compute.OpBootSet,
		"reserve": compute.OpReserve,
	}
	r := compute.Request{
		Op: ops[op], Project: compute.Project(a.or("project", "p")), Host: compute.HostID(a.key["host"]),
		Command: compute.CommandID(a.key["command"]), Hard: a.has("hard"), At: s.now,
	}
	if r.Op.OfHost() {
		r.Project, r.Fence = "", compute.FenceEpoch(number(t, a.or("fence", "0")))
		return r
	}
	if op == "reserve" {
		return s.reserve(t, r, a)
	}
	r.Instance = long(a.bare[0])
	if at := a.key["at"]; at != "" {
		r.At = s.now.Add(span(t, at))
	}
	switch op {
	case "boot":
		r.Boot, r.Host = bootOf(t, a), ""
	case "boot-set":
		r.Host = ""
		each := map[string][]string{}
		for _, key := range []string{"priority", "group", "zone"} {
			if values := strings.Split(a.key[key], ","); len(values) > 1 {
				each[key] = values
			}
		}
		for i, id := range a.bare {
			if id != "fail" {
				for key, values := range each {
					a.key[key] = values[min(i, len(values)-1)]
				}
				r.Set = append(r.Set, compute.SetBoot{Instance: long(id), Boot: *bootOf(t, a)})
			}
		}
	case "change":
		r.Change = changeOf(a)
	}
	return r
}

// reserve is the request for a reservation: NAME ID... for=2h [from=+1h].
func (s *story) reserve(t *testing.T, r compute.Request, a args) compute.Request {
	v := &compute.Reserve{Name: compute.ReservationName(a.bare[0]), Boot: *bootOf(t, a)}
	for _, id := range a.bare[1:] {
		v.Instances = append(v.Instances, long(id))
	}
	from := s.now
	if f := a.key["from"]; f != "" {
		from = s.now.Add(span(t, f))
		v.From = from
	}
	v.Until = from.Add(span(t, a.key["for"]))
	r.Host, r.Instance, r.Reserve = "", v.Instances[0], v
	return r
}

// changeOf is a change: name=N, set=KEY:VALUE and remove=KEY.
func changeOf(a args) *compute.Change {
	c := &compute.Change{}
	if name, ok := a.key["name"]; ok {
		c.Name = &name
	}
	if set := a.key["set"]; set != "" {
		k, v, _ := strings.Cut(set, ":")
		c.Set = map[string]string{k: v}
		if n, err := strconv.Atoi(v); err == nil { // so many bytes
			c.Set[k] = strings.Repeat("x", n)
		}
	}
	if name := a.key["remove"]; name != "" {
		c.Remove = []string{name}
	}
	return c
}

func bootOf(t *testing.T, a args) *compute.Boot {
	b := &compute.Boot{Flavor: compute.FlavorName(a.or("flavor", "m1.small")), Host: compute.HostID(a.key["host"])}
	for axis, value := range a.key {
		if axis == "gpu" || axis == "disk" || axis == "zone" {
			*b = b.Having(compute.AxisName(axis), compute.AxisValue(value))
		}
	}
	if n := a.key["attempts"]; n != "" {
		b.Attempts = compute.Attempt(number(t, n))
	}
	if d := a.key["deadline"]; d != "" {
		b.Deadline = span(t, d)
	}
	if h := a.key["avoid"]; h != "" {
		b.Avoid = []compute.HostID{compute.HostID(h)}
	}
	p, err := compute.ParsePriority(a.key["priority"])
	if err != nil {
		t.Fatal(err)
	}
	b.Rules = compute.RulesOf(compute.GroupName(a.key["group"]), compute.Set{}, p)
	if then := a.key["preemptible"]; then != "" {
		p := compute.Preemptible{Grace: span(t, a.or("grace", "30s"))}
		if p.Then, err = compute.ParseAfterwards(then); err != nil {
			t.Fatal(err)
		}
		b.Preempt(p)
	}
	if n := a.key["reservation"]; n != "" {
		b.Reserving(compute.ReservationName(n))
	}
	if a.has("fail") {
		b.OnNoCapacity = compute.FailAtOnce
	}
	return b
}

// voice is the process that speaks: journal=j1, and started=n if a process with that journal was
// started again.
func voice(a args) compute.Voice {
	v := compute.Voice{Journal: compute.JournalID(a.key["journal"])}
	if n := a.key["started"]; n != "" {
		v.Started = epoch.Add(time.Duration(len(n)) * time.Hour).Add(time.Duration(n[0]) * time.Second)
	}
	return v
}

func report(t *testing.T, op string, a args) compute.Report {
	ops := map[string]compute.ReportOp{
		"claim": compute.ReportClaim, "started": compute.ReportStarted, "failed": compute.ReportFailed,
		"returned": compute.ReportReturned, "gone": compute.ReportGone, "changed": compute.ReportChanged,
		"refused": compute.ReportPinned, "hello": compute.ReportHello,
		"preempt": compute.ReportPreempt,
	}
	r := compute.Report{
		Op: ops[op], Host: compute.HostID(a.key["host"]), Journal: voice(a).Journal, Started: voice(a).Started,
		Claim: compute.ClaimID(a.or("claim", "c1")), Attempt: compute.Attempt(number(t, a.or("attempt", "1"))),
		Command: compute.CommandID(a.key["command"]), Version: compute.Version(number(t, a.or("version", "0"))),
	}
	if r.Op == compute.ReportHello {
		return r
	}
	r.Project, r.Instance = compute.Project(a.or("project", "p")), long(a.bare[0])
	r.Queue, r.MadeRoom = compute.QueueName(a.key["queue"]), uint32(number(t, a.or("room", "0")))
	r.Fence = compute.FenceEpoch(number(t, a.or("fence", "0")))
	for c := compute.FailureUnknown; c <= compute.FailureUnknownHere; c++ {
		if a.key["class"] == c.String() {
			r.Class = c
		}
	}
	for p := compute.PowerUnknown; p <= compute.PowerPaused; p++ {
		if a.key["power"] == p.String() {
			r.Power = p
		}
	}
	if why, ok := a.key["why"]; ok {
		r.Stopped = &compute.Reason{Code: compute.ReasonCode(why)}
	}
	_, failed := a.key["message"]
	if r.Op == compute.ReportFailed || r.Op == compute.ReportPinned || failed {
		r.Message = strings.ReplaceAll(a.or("message", "no-luck"), "-", " ")
	}
	return r
}

func number(t *testing.T, s string) int64 {
	n, err := strconv.ParseInt(s, 10, 64)
	if err != nil {
		t.Fatal(err)
	}
	return n
}

func span(t *testing.T, s string) time.Duration {
	d, err := time.ParseDuration(s)
	if err != nil {
		t.Fatal(err)
	}
	return d
}
