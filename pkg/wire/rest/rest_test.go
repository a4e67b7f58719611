// SPDX-License-Identifier: Apache-2.0

package rest

import (
	"encoding/json"
	"net/http"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/berth-project/berth/pkg/compute"
)

var at = time.Date(2026, 3, 4, 5, 6, 7, 0, time.UTC)

// through is what the far side reads of a body.
func through[T any](t *testing.T, in T) T {
	t.Helper()
	data, err := json.Marshal(in)
	if err != nil {
		t.Fatal(err)
	}
	var out T
	if err := json.Unmarshal(data, &out); err != nil {
		t.Fatalf("%v in %s", err, data)
	}
	return out
}

func TestBootThereAndBack(t *testing.T) {
	for _, b := range []compute.Boot{
		{Flavor: "m1.small"},
		{
			Name: "web", Flavor: "m1.small", With: compute.Choices{"gpu": "a100"}, Image: "debian",
			Metadata: map[string]string{"a": "b"},
			UserData: compute.UserData([]byte{0, 255}), Attempts: 5, Deadline: 90 * time.Second,
			OnNoCapacity: compute.FailAtOnce,
			Host:         "h1", Avoid: []compute.HostID{"h2"},
		},
	} {
		got, err := through(t, FromBoot("p", "i", b)).Compute()
		if diff := cmp.Diff(b, got); diff != "" || err != nil {
			t.Error(err, diff)
		}
	}
	if _, err := (Boot{OnNoCapacity: "cry"}).Compute(); compute.KindOf(err) != compute.KindInvalid {
		t.Error(err)
	}
}

func TestReasonThereAndBack(t *testing.T) {
	hosts := compute.HostCounts{Eligible: 1, Full: 2, Disabled: 3, Draining: 4, Silent: 5, Quarantined: 6, NeverFits: 7}
	for want, r := range map[string]compute.Reason{
		"over quota: VCPU limit 10, used 0, asked 11": {
			Code: compute.QuotaExceeded, Resource: compute.VCPU, Limit: 10, Asked: 11,
		},
		"no such flavor: m9":                   {Code: compute.NoSuchFlavor, Detail: "m9"},
		"no such capability: gpu=b200":         {Code: compute.NoSuchCapability, Detail: "gpu=b200."},
		"the flavor or capability was removed": {Code: compute.QueueClosedReason},
		"none of 4 hosts could ever fit it, even when empty": {
			Code: compute.NeverFits, Hosts: compute.HostCounts{NeverFits: 4},
		},
		"there is no host for it": {Code: compute.NoEligibleHost},
		"no host can take it now: of 28 hosts 1 eligible, 2 full, 3 disabled, 4 draining, 5 silent, 6 " +
			"quarantined, 7 too small or lacking a trait": {Code: compute.NoEligibleHost, Hosts: hosts},
		"waiting for a host":                 {Code: compute.WaitingForCapacity},
		"waiting for a host, 1 of 1 in line": {Code: compute.WaitingForCapacity, Depth: 1, Oldest: at},
		"a group rule forbids it: spread":    {Code: compute.GroupRule, Detail: "spread"},
		"waiting for the rest of its set":    {Code: compute.SetWaits},
		"another of its set cannot start: x": {Code: compute.SetFailed, Detail: "x"},
		"host h1 cannot take it: it is silent": {
			Code: compute.PinnedHostUnavailable, Host: "h1", Detail: "it is silent",
		},
		"attempt 2 failed on h1 (timeout)": {
			Code: compute.BuildFailed, Host: "h1", Attempt: 2, Class: compute.FailureTimeout,
		},
		"every attempt failed":                                  {Code: compute.AttemptsExhausted},
		"no host took it before its deadline":                   {Code: compute.DeadlineExceeded},
		"deleted before it ran":                                 {Code: compute.Cancelled},
		"host h1 is gone, or has lost the machine":              {Code: compute.HostLost, Host: "h1"},
		"the request could not be read: bad":                    {Code: compute.Malformed, Detail: "bad"},
		"another claim was first":                               {Code: compute.AttemptOver},
		"there was another request before, which differs: name": {Code: compute.RequestDiffers, Detail: "name"},
		"it does not count as host h1's: why":                   {Code: compute.Forged, Host: "h1", Detail: "why"},
		"no publisher that may write it has signed it: why":     {Code: compute.ForeignProject, Detail: "why"},
		"a machine is left alone: why":                          {Code: compute.LeftAlone, Detail: "why"},
		"Later":                                                 {Code: "Later"},
	} {
		body := through(t, FromReason(&r))
		if body.Message != want {
			t.Errorf("%s: %q, want %q", r.Code, body.Message, want)
		}
		if diff := cmp.Diff(&r, body.Compute()); diff != "" {
			t.Errorf("%s: %s", r.Code, diff)
		}
	}
	if FromReason(nil) != nil || (*Reason)(nil).Compute() != nil {
		t.Error("no reason is no reason")
	}
}

// TestZeroesOfAQuotaAreSaid: used 0 is a number, not an absence.
func TestZeroesOfAQuotaAreSaid(t *testing.T) {
	data, _ := json.Marshal(FromReason(&compute.Reason{
		Code: compute.QuotaExceeded, Resource: compute.VCPU, Limit: 0, Used: 0, Asked: 1,
	}))
	const want = `{"code":"QuotaExceeded","message":"over quota: VCPU limit 0, used 0, asked ` +
		`1","quota":{"resource":"VCPU","limit":0,"used":0,"asked":1}}`
	if string(data) != want {
		t.Errorf("got %s", data)
	}
}

func TestCatalogThereAndBack(t *testing.T) {
	f := compute.Flavor{
		Name: "m1.small", Resources: compute.Resources{compute.VCPU: 1}, Required: []compute.Trait{"A"},
		Forbidden: []compute.Trait{"B"}, Capabilities: []compute.AxisName{"gpu"},
	}
	if diff := cmp.Diff(f, through(t, FromFlavor(f)).Compute()); diff != "" {
		t.Error(diff)
	}
	c := compute.Capability{Axis: "gpu", Values: []compute.CapabilityValue{
		{Value: "a100", Requires: []compute.Trait{"A", "B"}, Consumes: compute.Resources{"CUSTOM_X": 1}},
		{Value: "h100"},
	}}
	if diff := cmp.Diff(c, through(t, FromCapability(c)).Compute()); diff != "" {
		t.Error(diff)
	}
	unsorted := Capability{
		Axis: "gpu",
		Values: []CapabilityValue{
			{Value: "h100"},
			{Value: "a100", Requires: []compute.Trait{"B", "A"}, Consumes: compute.Resources{"CUSTOM_X": 1}},
		},
	}
	if diff := cmp.Diff(c, unsorted.Compute()); diff != "" {
		t.Error("sorted as package compute promises:", diff)
	}
}

func TestInstanceShowsWhenTheNextTryIs(t *testing.T) {
	i := compute.Instance{State: compute.StateQueued, Attempt: 2, PublishAt: at}
	if got := FromInstance(&i); !got.NextTryAt.Equal(at) {
		t.Errorf("%+v", got)
	}
	i.Attempt = 1
	if got := FromInstance(&i); !got.NextTryAt.IsZero() {
		t.Errorf("the first try is no next one: %+v", got)
	}
	data, _ := json.Marshal(FromInstance(&compute.Instance{ID: "x", State: compute.StateError}))
	const want = `{"id":"x","project":"","name":"","state":"error","flavor":"","on_no_capacity":"wait"}`
	if string(data) != want {
		t.Errorf("what does not apply is left out: %s", data)
	}
}

func TestStates(t *testing.T) {
	for s := compute.StateQueued; s <= compute.StateUnknown; s++ {
		if State(s.String()).Compute() != s {
			t.Errorf("%s", s)
		}
	}
	if State("later").Compute() != compute.StateNone {
		t.Error("a state of a newer server")
	}
}

func TestDuration(t *testing.T) {
	var d Duration
	if err := d.UnmarshalText([]byte("1h30m")); err != nil || time.Duration(d) != 90*time.Minute ||
		d.String() != "1h30m0s" {
		t.Error(d, err)
	}
	if err := d.UnmarshalText([]byte("90")); compute.KindOf(err) != compute.KindInvalid {
		t.Error(err)
	}
}

// TestProblemKeepsWhatACallerActsOn: whatever the kind, the client's error is the
// server's but for what is the operator's alone.
func TestProblemKeepsWhatACallerActsOn(t *testing.T) {
	for k := compute.KindInternal; k <= compute.KindUnauthenticated; k++ {
		e := &compute.Error{
			Op: "boot", Kind: k, Field: "flavor", Value: "x", Message: "does not exist", Remedy: "try y",
			Reason: &compute.Reason{Code: compute.NoSuchFlavor, Detail: "x"}, Cause: http.ErrServerClosed,
		}
		p := NewProblem(e)
		if p.Status < 400 || p.GetStatus() != p.Status || p.Error() != `flavor "x": does not exist; try y` {
			t.Errorf("%s: %+v", k, p)
		}
		want := *e
		want.Op, want.Cause = "", nil
		got := through(t, p).Compute()
		if diff := cmp.Diff(&want, got); diff != "" {
			t.Errorf("%s: %s", k, diff)
		}
	}
}

func TestProblemsOfOthers(t *testing.T) {
	for status, want := range map[int]compute.Kind{
		400: compute.KindInvalid, 401: compute.KindUnauthenticated, 403: compute.KindForbidden, 404: compute.KindNotFound,
		408: compute.KindTimeout, 409: compute.KindConflict, 410: compute.KindNotFound, 412: compute.KindConflict,
		422: compute.KindInvalid,
		429: compute.KindUnavailable, 500: compute.KindInternal, 502: compute.KindUnavailable,
		503: compute.KindUnavailable, 504: compute.KindTimeout,
	} {
		if e := Foreign(status); e.Kind != want || e.Message == "" || e.Remedy == "" {
			t.Errorf("%d: %+v", status, e)
		}
		if e := (&Problem{Status: status, Title: "Oh"}).Compute(); e.Kind != want || e.Error() != "Oh" {
			t.Errorf("%d: %+v", status, e)
		}
	}
}
