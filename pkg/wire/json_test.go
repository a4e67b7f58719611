// SPDX-License-Identifier: Apache-2.0

package wire

import (
	"errors"
	"os"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/berth-project/berth/pkg/compute"
)

func jsonRequest(body string) Record {
	return Record{
		Key:     []byte("web-shop"),
		Value:   []byte(body),
		Headers: []Header{{Key: HeaderContentType, Value: []byte("Application/JSON; charset=utf-8")}},
	}
}

// documented takes the examples out of the comment of message Request.
func documented(t *testing.T) (boot string, others []string) {
	t.Helper()
	file, err := os.ReadFile("proto/berth/v1/request.proto")
	if err != nil {
		t.Fatal(err)
	}
	comment, _, found := strings.Cut(string(file), "\nmessage Request {")
	if !found {
		t.Fatal("message Request is not there")
	}
	text := strings.ReplaceAll(strings.ReplaceAll(comment, "\n// ", "\n"), "0b9c…", string(sampleInstance))
	_, text, _ = strings.Cut(text, "a boot is\n")
	boot, text, _ = strings.Cut(text, "\nof which")
	boot = strings.TrimPrefix(boot, "//\n")
	boot = strings.ReplaceAll(boot, "\n//", "")
	return boot, regexp.MustCompile(`(?m)^ *\{.*\}$`).FindAllString(text, -1)
}

func TestDocumentedBoot(t *testing.T) {
	body, _ := documented(t)
	got, err := DecodeRequest(jsonRequest(body))
	if err != nil {
		t.Fatalf("%v, of\n%s", err, body)
	}
	want := compute.Request{
		Project: "web-shop", Instance: sampleInstance, Op: compute.OpBoot,
		Boot: &compute.Boot{
			Name: "web-1", Flavor: "m1.small", With: compute.Choices{"gpu": "a100", "disk": "ssd"}, Image: "debian-13",
			Metadata: map[string]string{"role": "web"}, UserData: "#cloud-config\n", Attempts: 3,
			Deadline: 10 * time.Minute, OnNoCapacity: compute.FailAtOnce, Avoid: []compute.HostID{"host-17"},
		},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("-documented +read:\n%s", diff)
	}
}

func TestDocumentedOthers(t *testing.T) {
	instance := compute.Request{Project: "web-shop", Instance: sampleInstance}
	with := func(q compute.Request, op compute.RequestOp) compute.Request { q.Op = op; return q }
	hard, named := instance, instance
	hard.Hard, named.Command = true, "r-81"
	host := compute.Request{Host: "host-17", Fence: 43}
	name, changed := "web-2", with(instance, compute.OpChange)
	changed.Change = &compute.Change{Name: &name, Set: map[string]string{"team": "a"}, Remove: []string{"role"}}
	want := []compute.Request{
		with(instance, compute.OpDelete), with(hard, compute.OpStop), with(instance, compute.OpStart),
		with(named, compute.OpReboot), changed, with(host, compute.OpFence), with(host, compute.OpForget),
		{Op: compute.OpConfirm, Host: "host-17"},
	}
	_, bodies := documented(t)
	var got []compute.Request
	for _, body := range bodies {
		q, err := DecodeRequest(jsonRequest(body))
		if err != nil {
			t.Errorf("%s: %v", body, err)
		}
		got = append(got, q)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("-meant +read:\n%s", diff)
	}
}

// What one line gives is what an API node's author writes first.
func TestShortestJSON(t *testing.T) {
	q, err := DecodeRequest(jsonRequest(`{"project":"web-shop","instance":"` + string(sampleInstance) +
		`","boot":{"flavor":"m1.small","onNoCapacity":"NO_CAPACITY_WAIT"}}`))
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(&compute.Boot{Flavor: "m1.small"}, q.Boot); diff != "" {
		t.Error(diff)
	}
}

func TestJSONRefused(t *testing.T) {
	const ids = `"project":"web-shop","instance":"` + string(sampleInstance) + `"`
	for body, want := range map[string]struct{ field, value string }{
		`{` + ids + `,"boot":{"flavour":"m1.small"}}`:            {"field", "flavour"},
		`{` + ids + `,"tenant":"x","delete":{}}`:                 {"field", "tenant"},
		`{` + ids + `}`:                                          {"operation", "none"},
		`{` + ids + `,"boot":null}`:                              {"operation", "none"},
		`{` + ids + `,"boot":{}}`:                                {"flavor", ""},
		`{` + ids + `,"boot":{"flavor":"m","with":{"GPU":"x"}}}`: {"capability", "GPU"},
		`{` + ids + `,"delete":{},"start":{}}`:                   {"value", `{` + ids + `,"delete":{},"start":{}}`},
		`{"project":"other","instance":"x","delete":{}}`:         {"instance id", "x"},
		`not JSON`: {"value", "not JSON"},
		``:         {"value", ""},
	} {
		_, err := DecodeRequest(jsonRequest(body))
		var e *compute.Error
		if !errors.As(err, &e) || e.Kind != compute.KindInvalid || e.Field != want.field || e.Value != want.value {
			t.Errorf("%s: %v; wanted field %q, value %q", body, err, want.field, want.value)
		}
	}
}
