// SPDX-License-Identifier: Apache-2.0

package judge

import (
	"bytes"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
	"google.golang.org/protobuf/proto"

	"github.com/berth-project/berth/pkg/compute"
	pb "github.com/berth-project/berth/pkg/wire/berthv1"
)

// Reread is a record of instances as another reader and decoder have it.
type Reread struct {
	Partition int32
	Offset    int64
	Key       []byte
	Takeover  bool         // between conductors: nobody else is handed it
	Instance  *pb.Instance // nil: a tombstone
}

// ReadTime is how long reading the log once more may take, in virtual time.
const ReadTime = time.Minute

func (r *Recording) AddReread(rec *kgo.Record) {
	x := Reread{Partition: rec.Partition, Offset: rec.Offset, Key: rec.Key}
	x.Takeover = rec.Value == nil && !bytes.Contains(rec.Key, []byte("/"))
	if rec.Value != nil {
		x.Instance = &pb.Instance{}
		if err := proto.Unmarshal(rec.Value, x.Instance); err != nil {
			r.AddViolation("observer", "", "instances-%d@%d is no protobuf: %v", rec.Partition, rec.Offset, err)
		}
	}
	r.Reread = append(r.Reread, x)
}

// place is where a record lies in a topic.
type place struct {
	partition int32
	offset    int64
}

// checkObserver: another reader and another decoder find in the log what was observed.
func checkObserver(r *Recording) (wrong []Violation) {
	say := func(id compute.InstanceID, at place, what string) {
		wrong = append(wrong, broken("observer", id, r.Calm, "instances-%d@%d %s", at.partition, at.offset, what)...)
	}
	observed, end := map[place]Written{}, map[int32]int64{}
	for _, w := range r.Log {
		at := place{w.Partition, w.Offset}
		if _, twice := observed[at]; twice {
			say(w.Instance.ID, at, "was read twice")
		}
		observed[at], end[w.Partition] = w, max(end[w.Partition], w.Offset)
	}
	for _, x := range r.Reread {
		at := place{x.Partition, x.Offset}
		w, ok := observed[at]
		delete(observed, at)
		switch {
		case x.Takeover || !ok && x.Offset > end[x.Partition]: // it came after the observer had gone
		case !ok:
			say("", at, fmt.Sprintf("of %s was never observed", x.Key))
		default:
			if what := misread(x, w); what != "" {
				say(w.Instance.ID, at, what)
			}
		}
	}
	for at, w := range observed {
		if r.RereadAll {
			say(w.Instance.ID, at, "was observed and is not there")
		}
	}
	return wrong
}

// misread says what a record says otherwise than it was observed to; empty: nothing.
func misread(x Reread, w Written) string {
	i, m := w.Instance, x.Instance
	if w.Removed || m == nil {
		if w.Removed != (m == nil) {
			return fmt.Sprintf("is a tombstone: %v, and was observed as one: %v", m == nil, w.Removed)
		}
		return ""
	}
	b := m.GetBoot()
	for _, f := range []field{
		{"key", string(x.Key), string(i.Project) + "/" + string(i.ID)},
		{"id", m.GetId(), string(i.ID)},
		{"project", m.GetProject(), string(i.Project)},
		{"version", fmt.Sprint(m.GetVersion()), fmt.Sprint(uint64(i.Version))},
		{"state", m.GetState().String(), "STATE_" + strings.ToUpper(i.State.String())},
		{"attempt", fmt.Sprint(m.GetAttempt()), fmt.Sprint(uint32(i.Attempt))},
		{"host", m.GetHost(), string(i.Host)},
		{"claim", m.GetClaim(), string(i.Claim)},
		{"queue", m.GetQueue(), string(i.Queue)},
		{"resources", fmt.Sprint(m.GetResources()), fmt.Sprint(map[compute.ResourceClass]int64(i.Resources))},
		{"name", b.GetName(), i.Boot.Name},
		{"flavor", b.GetFlavor(), string(i.Boot.Flavor)},
		{"image", b.GetImage(), i.Boot.Image},
		{"metadata", fmt.Sprintf("%q", b.GetMetadata()), fmt.Sprintf("%q", i.Boot.Metadata)},
		{"user_data", fmt.Sprintf("%q", b.GetUserData()), fmt.Sprintf("%q", i.Boot.UserData)},
		{"ssh_keys", fmt.Sprintf("%q", b.GetSshKeys()), fmt.Sprintf("%q", i.Boot.SSHKeys)},
		{"attempts", fmt.Sprint(b.GetAttempts()), fmt.Sprint(uint32(i.Boot.Attempts))},
		{"deadline", fmt.Sprint(b.GetDeadline().AsDuration()), fmt.Sprint(i.Boot.Deadline)},
		{"host of the boot", b.GetHost(), string(i.Boot.Host)},
		{"avoid", fmt.Sprint(b.GetAvoid()), fmt.Sprint(i.Boot.Avoid)},
		{"with", fmt.Sprint(b.GetWith()), fmt.Sprint(i.Boot.With)},
		{
			"on_no_capacity", strings.ToLower(otherwise(b.GetOnNoCapacity().String(), "NO_CAPACITY_", "WAIT")),
			i.Boot.OnNoCapacity.String(),
		},
		{"group", b.GetGroup(), string(i.Boot.Group())},
		{
			"priority", strings.ToLower(otherwise(b.GetPriority().String(), "PRIORITY_", "NORMAL")),
			i.Boot.Priority().String(),
		},
		{"required", fmt.Sprint(m.GetRequired()), fmt.Sprint(i.Required)},
		{"forbidden", fmt.Sprint(m.GetForbidden()), fmt.Sprint(i.Forbidden)},
		{"journal", m.GetJournal(), string(i.Journal)},
		{"fence", fmt.Sprint(m.GetFence()), fmt.Sprint(uint64(i.Fence))},
		{"confirm", fmt.Sprint(m.GetConfirm()), fmt.Sprint(i.Confirm)},
		{"power", otherwise(m.GetPower().String(), "POWER_STATE_", "UNKNOWN"), strings.ToUpper(i.Power.String())},
		{"reason", m.GetReason().GetCode(), codeOf(i.Reason)},
		{"power reason", m.GetPowerReason().GetCode(), codeOf(i.Stopped)},
		{"failures", failuresIn(m), failuresOf(i.Failures)},
		{"delete", fmt.Sprint(m.GetDelete()), fmt.Sprint(i.Delete)},
		{"end of the wait", nanos(m.GetDeadline().AsTime()), nanos(i.Deadline)},
		{"publish_at", nanos(m.GetPublishAt().AsTime()), nanos(i.PublishAt)},
		{"accepted_at", nanos(m.GetAcceptedAt().AsTime()), nanos(i.AcceptedAt)},
		{"queued_at", nanos(m.GetQueuedAt().AsTime()), nanos(i.QueuedAt)},
		{"starting_at", nanos(m.GetStartingAt().AsTime()), nanos(i.StartingAt)},
		{"active_at", nanos(m.GetActiveAt().AsTime()), nanos(i.ActiveAt)},
		{"ended_at", nanos(m.GetEndedAt().AsTime()), nanos(i.EndedAt)},
		{"changed_at", nanos(m.GetChangedAt().AsTime()), nanos(i.ChangedAt)},
	} {
		if f.got != f.want {
			return fmt.Sprintf("has %s %s, and was observed with %s", f.name, short(f.got), short(f.want))
		}
	}
	return ""
}

// otherwise is the word of an enum without its prefix; of the unspecified one it is what that stands for.
func otherwise(word, prefix, unspecified string) string {
	if word = strings.TrimPrefix(word, prefix); word == "UNSPECIFIED" {
		return unspecified
	}
	return word
}

func codeOf(r *compute.Reason) string {
	if r == nil {
		return ""
	}
	return string(r.Code)
}

func failuresIn(m *pb.Instance) (text string) {
	for _, f := range m.GetFailures() {
		text += fmt.Sprintln(f.GetHost(), f.GetAttempt(), f.GetMessage(), nanos(f.GetAt().AsTime()))
	}
	return text
}

func failuresOf(all []compute.Failure) (text string) {
	for _, f := range all {
		text += fmt.Sprintln(f.Host, f.Attempt, f.Message, nanos(f.At))
	}
	return text
}

// nanos is a time in nanoseconds; protobuf has 0 for one that is not there.
func nanos(t time.Time) string {
	if t.IsZero() {
		return "0"
	}
	return strconv.FormatInt(t.UnixNano(), 10)
}
