// SPDX-License-Identifier: Apache-2.0

package judge

import (
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/berth-project/berth/compute-agent/hypervisor"
	"github.com/berth-project/berth/pkg/compute"
	"github.com/berth-project/berth/pkg/lab/sim/schedule"
)

// Given is what a hypervisor was asked to prepare.
type Given struct {
	At   time.Time
	Host compute.HostID
	Spec hypervisor.Spec
}

// AddGiven notes what a hypervisor is asked to prepare, before anything comes of it.
func (r *Recording) AddGiven(h compute.HostID, s hypervisor.Spec) {
	s.Resources, s.Metadata = s.Resources.Clone(), maps.Clone(s.Metadata)
	s.SSHKeys, s.UserData = slices.Clone(s.SSHKeys), slices.Clone(s.UserData)
	r.mu.Lock()
	defer r.mu.Unlock()
	r.Given = append(r.Given, Given{time.Now(), h, s})
}

// field is something that was asked for, and what became of it.
type field struct{ name, got, want string }

// checkRequest: what is in the log and in queues, and what hypervisors are asked to
// prepare, is what the client asked for. Each instance is said once for each of the three.
func checkRequest(r *Recording) []Violation {
	s := &sameness{
		asked: r.withReserved(r.wanted()), labels: r.labelsGiven(), reckons: r.reckons(), said: map[string]bool{},
	}
	names := map[compute.InstanceID]string{}
	for _, w := range r.Log {
		if !w.Removed && w.Instance.Boot.Name != "" {
			names[w.Instance.ID] = w.Instance.Boot.Name
			s.record(w)
		}
	}
	for _, b := range r.Builds {
		s.build(b)
	}
	for _, g := range r.Given {
		s.prepared(g, names[g.Spec.Instance], r.Schedule)
	}
	return s.wrong
}

// sameness compares with what was asked for.
type sameness struct {
	asked   map[string]Wanted
	labels  labelsGiven
	reckons time.Duration
	said    map[string]bool
	wrong   []Violation
}

func (s *sameness) compare(where string, id compute.InstanceID, at time.Time, name string, fields []field) {
	for _, f := range fields {
		if f.got != f.want && !s.said[where+string(id)] {
			s.said[where+string(id)] = true
			s.wrong = append(s.wrong, broken("request", id, at, "%s of %s: %s is %s, and was asked for as %s",
				where, name, f.name, short(f.got), short(f.want))...)
		}
	}
}

func short(s string) string {
	const most = 80
	if len(s) > most {
		return fmt.Sprintf("%s… (%d bytes)", s[:most], len(s))
	}
	return s
}

// record compares a record of the log. What was refused before its size was known has
// none; what ended has no user data any more.
func (s *sameness) record(w Written) {
	i := w.Instance
	x, ok := s.asked[i.Boot.Name]
	if !ok {
		return // checkInvented
	}
	kept := i.Boot.UserData
	if i.State.Ended() {
		s.compare("the record", i.ID, w.Seen, i.Boot.Name, []field{{"user_data at its end", fmt.Sprintf("%q", kept), `""`}})
		kept = x.Boot.UserData
	}
	class := x.Boot.Priority()
	if i.QueuedAt.IsZero() {
		class = x.Ask.Load.Boot.Priority() // what was refused took no placeholder, and has not its class
	}
	fields := []field{
		{"its project", string(i.Project), string(x.Project)},
		{"flavor", string(i.Boot.Flavor), string(x.Boot.Flavor)},
		{"with", fmt.Sprint(i.Boot.With), fmt.Sprint(x.Boot.With)},
		{"host", string(i.Boot.Host), string(x.Boot.Host)},
		{"avoid", fmt.Sprint(i.Boot.Avoid), fmt.Sprint(x.Boot.Avoid)},
		{"group", string(i.Boot.Group()), string(x.Boot.Group())},
		{"priority", i.Boot.Priority().String(), class.String()},
		{"preemptible", fmt.Sprint(i.Boot.Preemptible()), fmt.Sprint(x.Boot.Preemptible())},
		{"attempts", fmt.Sprint(i.Boot.Attempts), fmt.Sprint(x.Boot.Attempts)},
		{"deadline", i.Boot.Deadline.String(), x.Boot.Deadline.String()},
		{"on_no_capacity", i.Boot.OnNoCapacity.String(), x.Boot.OnNoCapacity.String()},
	}
	fields = append(
		fields,
		contents(i.Boot.Image, s.labels.without(i.ID, i.Boot.Metadata, w.Seen), i.Boot.SSHKeys, kept, x)...)
	if !i.QueuedAt.IsZero() {
		fields = append(fields, needs(i.Queue, i.Resources, i.Required, x)...)
		fields = append(fields, ends(i.Deadline, w.Seen, x, s.reckons))
	}
	s.compare("the record", i.ID, w.Seen, i.Boot.Name, fields)
}

func contents(image string, metadata map[string]string, keys []string, data compute.UserData, x Wanted) []field {
	fields := []field{
		{"image", fmt.Sprintf("%q", image), fmt.Sprintf("%q", x.Boot.Image)},
		{"metadata", fmt.Sprintf("%q", metadata), fmt.Sprintf("%q", x.Boot.Metadata)},
		{"ssh_keys", fmt.Sprintf("%q", keys), fmt.Sprintf("%q", x.Boot.SSHKeys)},
	}
	if data != x.Boot.UserData {
		fields = append(fields, field{"user_data", fmt.Sprintf("%q", data), fmt.Sprintf("%q", x.Boot.UserData)})
	}
	return fields
}

func needs(q compute.QueueName, res compute.Resources, required []compute.Trait, x Wanted) []field {
	return []field{
		{"its queue", string(q), string(x.Queue)},
		{"what it takes", res.String(), x.Resources.String()},
		{"what it requires", fmt.Sprint(required), fmt.Sprint(x.Required)},
	}
}

// reckoned is how far a process whose clock drifts may be from the log's time, which it
// reckons from the last record that it read.
const reckoned = 100 * time.Millisecond

// reckons is how far one may be here. The longer a conductor with a fast clock lives, the further it is.
func (r *Recording) reckons() time.Duration { return max(reckoned, r.Schedule.World.Drifts()) }

// ends holds that a deadline is as far as was asked for from a time at which it may have
// begun: after the client asked, and before it was seen. An
// evacuation begins it anew, and what is for a reservation waits from its beginning on. A placeholder waits until its
// reservation ends.
func ends(deadline, seen time.Time, x Wanted, reckons time.Duration) field {
	if !x.Until.IsZero() {
		return field{"the end of its wait", deadline.Format(time.StampMilli), x.Until.Truncate(time.Millisecond).Format(time.StampMilli)}
	}
	if began := deadline.Add(-x.Boot.Deadline); began.Before(x.logged()) ||
		began.After(seen.Add(reckons)) && began.After(x.Begins.Add(reckons)) {
		return field{"the end of its wait", deadline.Format(time.StampMilli),
			fmt.Sprintf("%s from %s on", x.Boot.Deadline, x.Began.Format(time.StampMilli))}
	}
	return field{}
}

// build compares a record of a queue.
func (s *sameness) build(b Published) {
	x, ok := s.asked[b.Name]
	if !ok {
		s.compare("work", b.Instance, b.Seen, b.Name, []field{{"it", "in queue " + string(b.Queue), "nothing"}})
		return
	}
	fields := append([]field{
		{"its project", string(b.Project), string(x.Project)},
		{"avoid", fmt.Sprint(b.Avoid), fmt.Sprint(x.Boot.Avoid)},
		{"host", "any", anyHost(x.Boot.Host)},
		endsOf(b, x, s.reckons),
	}, contents(b.Image, s.labels.without(b.Instance, b.Metadata, b.Seen), b.SSHKeys, compute.UserData(b.UserData), x)...)
	s.compare("the work", b.Instance, b.Seen, b.Name, append(fields, needs(b.Queue, b.Resources, b.Required, x)...))
}

func anyHost(h compute.HostID) string {
	if h == "" {
		return "any"
	}
	return string(h)
}

// prepared compares what a hypervisor was asked for, and where.
func (s *sameness) prepared(g Given, name string, world schedule.Schedule) {
	x, ok := s.asked[name]
	if !ok {
		unasked := []field{{"it", "prepared on " + string(g.Host), "nothing"}}
		s.compare("a machine", g.Spec.Instance, g.At, string(g.Spec.Instance), unasked)
		return
	}
	fields := append([]field{
		{"its project", string(g.Spec.Project), string(x.Project)},
		{"its name", g.Spec.Name, x.Name},
		{"what it takes", g.Spec.Resources.String(), x.Resources.String()},
	}, contents(g.Spec.Image, s.labels.without(g.Spec.Instance, g.Spec.Metadata, g.At), g.Spec.SSHKeys, compute.UserData(g.Spec.UserData), x)...)
	if x.Boot.Host != "" {
		fields = append(fields, field{"its host", string(g.Host), string(x.Boot.Host)})
	}
	if slices.Contains(x.Boot.Avoid, g.Host) {
		fields = append(fields, field{"its host", string(g.Host), "any but that"})
	}
	h, _ := world.Host(g.Host)
	for _, t := range x.Required {
		if !slices.Contains(h.Traits, t) {
			fields = append(fields, field{"a host", string(g.Host), "one with " + string(t)})
		}
	}
	s.compare("the machine", g.Spec.Instance, g.At, name, fields)
}
