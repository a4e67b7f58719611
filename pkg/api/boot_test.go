// SPDX-License-Identifier: Apache-2.0

package api

import (
	"errors"
	"fmt"
	"maps"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/google/go-cmp/cmp/cmpopts"
	"github.com/google/uuid"

	"github.com/berth-project/berth/pkg/compute"
	"github.com/berth-project/berth/pkg/wire"
	"github.com/berth-project/berth/pkg/wire/rest"
)

func TestBootIsPublishedAsAsked(t *testing.T) {
	n := newNode(t)
	n.offer()
	n.hears(compute.Beacon{Host: "h7"})
	body := `{"project":"web","name":"web-1","flavor":"m1.small","with":{"gpu":"a100"},"image":"debian",
		"metadata":{"a":"b"},"user_data":"aGk=","attempts":5,"deadline":"10m","on_no_capacity":"fail",
		"host":"h7","avoid":["h8"]}`
	req := httptest.NewRequest("POST", "/v1/instances", strings.NewReader(body))
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("Traceparent", "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01")
	a := n.ask(req)
	got := into[rest.Instance](a, 202)
	if err := got.ID.Check(); err != nil {
		t.Error(err)
	}
	if want := "/v1/instances/" + string(got.ID) + "?project=web"; a.header.Get("Location") != want {
		t.Errorf("Location %q, want %q", a.header.Get("Location"), want)
	}
	if got.State != "accepted" || got.Queue != "m1.small.gpu-a100" || got.AcceptedAt.IsZero() {
		t.Errorf("shown as %+v", got)
	}

	recs := n.published()
	if len(recs) != 1 || recs[0].Topic != "test.requests" || recs[0].Partition != wire.Partition("web", 4) {
		t.Fatalf("published %+v", recs)
	}
	sent, err := wire.DecodeRequest(recs[0])
	if err != nil {
		t.Fatal(err)
	}
	want := compute.Request{
		Project: "web", Instance: got.ID, Op: compute.OpBoot,
		Trace: "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01",
		Boot: &compute.Boot{
			Name: "web-1", Flavor: "m1.small", With: compute.Choices{"gpu": "a100"}, Image: "debian",
			Metadata: map[string]string{"a": "b"}, UserData: "hi", Attempts: 5, Deadline: 600e9,
			OnNoCapacity: compute.FailAtOnce, Host: "h7", Avoid: []compute.HostID{"h8"},
		},
	}
	equal(t, "request", want, sent, cmpopts.IgnoreFields(compute.Request{}, "At"))
	if !sent.At.Equal(got.AcceptedAt) {
		t.Errorf("published at %s, shown %s", sent.At, got.AcceptedAt)
	}
	equal(t, "GET at Location", got, into[rest.Instance](n.do("GET", a.header.Get("Location"), nil), 200))
}

// TestBootAnswersOnlyAfterKafkaDid: a 202 is a promise.
func TestBootAnswersOnlyAfterKafkaDid(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newNode(t)
		n.offer()
		n.holds()
		done := make(chan answer, 1)
		go func() { done <- n.do("POST", "/v1/instances", rest.Boot{ID: id1, Flavor: "m1.small"}) }()
		synctest.Wait()
		if len(done) != 0 {
			t.Error("answered before the record was acknowledged")
		}
		if _, ok := n.views.instances.get(instanceKey{"default", id1}); ok {
			t.Error("shown before the record was acknowledged")
		}
		close(n.hold)
		into[rest.Instance](<-done, 202)
	})
}

func TestBootThatKafkaDidNotTake(t *testing.T) {
	n := newNode(t)
	n.offer()
	n.fail = errors.New("no leader")
	p := n.do("POST", "/v1/instances", rest.Boot{ID: id1, Flavor: "m1.small"}).refused(504, compute.KindTimeout)
	if !strings.Contains(p.Remedy, string(id1)) || strings.Contains(p.Detail, "no leader") {
		t.Errorf("the id lets the caller repeat it, the cause is for the log: %+v", p)
	}
	n.do("GET", "/v1/instances/"+string(id1), nil).refused(404, compute.KindNotFound)

	n.fail = wire.ErrNoTopic
	n.do("POST", "/v1/instances", rest.Boot{ID: id1, Flavor: "m1.small"}).refused(503, compute.KindUnavailable)
}

func TestBootAgain(t *testing.T) {
	n := newNode(t)
	n.offer()
	body := rest.Boot{ID: id1, Flavor: "m1.small", Name: "web"}
	first := into[rest.Instance](n.do("POST", "/v1/instances", body), 202)
	equal(t, "the same again, still accepted", first, into[rest.Instance](n.do("POST", "/v1/instances", body), 202))

	n.has(instance(id1, "web", compute.StateActive))
	body.Attempts = compute.DefaultAttempts // what was left open means the same
	if again := into[rest.Instance](n.do("POST", "/v1/instances", body), 202); again.State != "active" {
		t.Errorf("the same again, now active: shown as %s", again.State)
	}
	if recs := n.published(); len(recs) != 1 {
		t.Errorf("published %d times", len(recs))
	}
	body.Name = "other"
	n.do("POST", "/v1/instances", body).refused(409, compute.KindConflict)
}

func TestBootRefusals(t *testing.T) {
	n := newNode(t)
	n.offer()
	closed := compute.Queue{
		Name: "m1.small.gpu-h100", Flavor: "m1.small", Choices: compute.Choices{"gpu": "h100"},
		State: compute.QueueClosed,
	}
	n.Queues([]wire.Record{wire.EncodeQueue(closed)}, true)
	into[rest.Change](
		n.do("POST", "/v1/flavors", rest.Flavor{
			Name: "new", Resources: compute.Resources{compute.VCPU: 1, compute.MemoryMB: 1, compute.DiskGB: 1},
		}),
		200,
	)
	long := strings.Repeat("x", 256)
	many := func(n int, f string) string {
		var parts []string
		for i := range n {
			parts = append(parts, fmt.Sprintf(f, i))
		}
		return strings.Join(parts, ",")
	}
	for name, c := range map[string]struct {
		body   string
		query  string
		status int
		kind   compute.Kind
		field  string
		reason compute.ReasonCode
	}{
		"no body":   {body: ``, status: 400, kind: compute.KindInvalid, field: "body"},
		"no JSON":   {body: `{`, status: 400, kind: compute.KindInvalid, field: "body"},
		"a list":    {body: `[]`, status: 422, kind: compute.KindInvalid, field: "body"},
		"no flavor": {body: `{}`, status: 422, kind: compute.KindInvalid, field: "body"},
		"unknown key": {
			body: `{"flavor":"m1.small","flavour":"x"}`, status: 422, kind: compute.KindInvalid,
			field: "flavour",
		},
		"flavor of wrong type": {body: `{"flavor":7}`, status: 422, kind: compute.KindInvalid, field: "flavor"},
		"flavor malformed": {
			body: `{"flavor":"M1 Small"}`, status: 422, kind: compute.KindInvalid, field: "flavor",
		},
		"flavor unknown": {
			body: `{"flavor":"m9"}`, status: 404, kind: compute.KindNotFound, field: "flavor",
			reason: compute.NoSuchFlavor,
		},
		"axis malformed": {
			body: `{"flavor":"m1.small","with":{"g.p":"a"}}`, status: 422, kind: compute.KindInvalid,
			field: "capability",
		},
		"axis unknown": {
			body: `{"flavor":"m1.small","with":{"zone":"a"}}`, status: 404, kind: compute.KindNotFound,
			field: "capability", reason: compute.NoSuchCapability,
		},
		"axis not for it": {
			body: `{"flavor":"m1.small","with":{"disk":"ssd"}}`, status: 404, kind: compute.KindNotFound,
			field: "capability", reason: compute.NoSuchCapability,
		},
		"value malformed": {
			body: `{"flavor":"m1.small","with":{"gpu":"A.1"}}`, status: 422, kind: compute.KindInvalid,
			field: "capability value",
		},
		"value unknown": {
			body: `{"flavor":"m1.small","with":{"gpu":"b200"}}`, status: 404, kind: compute.KindNotFound,
			field: "gpu", reason: compute.NoSuchCapability,
		},
		"queue closed": {
			body: `{"flavor":"m1.small","with":{"gpu":"h100"}}`, status: 404, kind: compute.KindNotFound,
			field: "queue", reason: compute.QueueClosedReason,
		},
		"queue not made yet": {body: `{"flavor":"new"}`, status: 503, kind: compute.KindUnavailable, field: "queue"},
		"id malformed": {
			body: `{"flavor":"m1.small","id":"7"}`, status: 422, kind: compute.KindInvalid, field: "instance id",
		},
		"project malformed": {
			body: `{"flavor":"m1.small","project":"Web!"}`, status: 422, kind: compute.KindInvalid,
			field: "project",
		},
		"two projects": {
			body: `{"flavor":"m1.small","project":"a"}`, query: "?project=b", status: 422,
			kind: compute.KindInvalid, field: "project",
		},
		"name too long": {
			body: `{"flavor":"m1.small","name":"` + long + `"}`, status: 422, kind: compute.KindInvalid,
			field: "name",
		},
		"image too long": {
			body: `{"flavor":"m1.small","image":"` + long + `"}`, status: 422, kind: compute.KindInvalid,
			field: "image",
		},
		"metadata too many": {
			body: `{"flavor":"m1.small","metadata":{` + many(65, `"k%d":""`) + `}}`, status: 422,
			kind: compute.KindInvalid, field: "metadata",
		},
		"metadata too big": {
			body:   `{"flavor":"m1.small","metadata":{"a":"` + strings.Repeat("x", compute.MaxMetadataSize) + `"}}`,
			status: 422, kind: compute.KindInvalid, field: "metadata",
		},
		"user data too big": {
			body:   `{"flavor":"m1.small","user_data":"` + strings.Repeat("AAAA", compute.MaxUserData/3+1) + `"}`,
			status: 422, kind: compute.KindInvalid, field: "user_data",
		},
		"user data no base64": {
			body: `{"flavor":"m1.small","user_data":"%%"}`, status: 422, kind: compute.KindInvalid,
			field: "user_data",
		},
		"ssh key malformed": {
			body: `{"flavor":"m1.small","ssh_keys":["ssh-rsa AAAA me"]}`, status: 422,
			kind: compute.KindInvalid, field: "ssh_keys[0]",
		},
		"ssh keys too many": {
			body: `{"flavor":"m1.small","ssh_keys":[` + many(65, `"k%d"`) + `]}`, status: 422,
			kind: compute.KindInvalid, field: "ssh_keys",
		},
		"body too big": {
			body: `{"flavor":"m1.small","name":"` + strings.Repeat("x", maxBootBody) + `"}`, status: 413,
			kind: compute.KindInvalid, field: "body",
		},
		"attempts too many": {
			body: `{"flavor":"m1.small","attempts":21}`, status: 422, kind: compute.KindInvalid,
			field: "attempts",
		},
		"attempts negative": {
			body: `{"flavor":"m1.small","attempts":-1}`, status: 422, kind: compute.KindInvalid,
			field: "attempts",
		},
		"attempts beyond 32bit": {
			body: `{"flavor":"m1.small","attempts":4294967297}`, status: 422, kind: compute.KindInvalid,
			field: "body",
		},
		"deadline no duration": {
			body: `{"flavor":"m1.small","deadline":"soon"}`, status: 422, kind: compute.KindInvalid,
			field: "body",
		},
		"deadline negative": {
			body: `{"flavor":"m1.small","deadline":"-1s"}`, status: 422, kind: compute.KindInvalid,
			field: "deadline",
		},
		"deadline too long": {
			body: `{"flavor":"m1.small","deadline":"169h"}`, status: 422, kind: compute.KindInvalid,
			field: "deadline",
		},
		"on_no_capacity": {
			body: `{"flavor":"m1.small","on_no_capacity":"cry"}`, status: 422, kind: compute.KindInvalid,
			field: "on_no_capacity",
		},
		"host malformed": {
			body: `{"flavor":"m1.small","host":"H 1"}`, status: 422, kind: compute.KindInvalid, field: "host",
		},
		"host unknown": {
			body: `{"flavor":"m1.small","host":"h99"}`, status: 404, kind: compute.KindNotFound, field: "host",
		},
		"avoid malformed": {
			body: `{"flavor":"m1.small","avoid":["-"]}`, status: 422, kind: compute.KindInvalid, field: "host",
		},
		"avoid too many": {
			body: `{"flavor":"m1.small","avoid":[` + many(65, `"h%d"`) + `]}`, status: 422,
			kind: compute.KindInvalid, field: "avoid",
		},
		"avoid the very host": {
			body: `{"flavor":"m1.small","host":"h1","avoid":["h1"]}`, status: 422, kind: compute.KindInvalid,
			field: "avoid",
		},
		"unknown query": {
			body: `{"flavor":"m1.small"}`, query: "?projekt=b", status: 422, kind: compute.KindInvalid,
			field: "projekt",
		},
	} {
		t.Run(name, func(t *testing.T) {
			n.TB = t
			p := n.do("POST", "/v1/instances"+c.query, c.body).refused(c.status, c.kind)
			if p.Field != c.field {
				t.Errorf("field %q, want %q in %+v", p.Field, c.field, p)
			}
			if c.reason != "" && (p.Reason == nil || p.Reason.Code != c.reason) {
				t.Errorf("reason %+v, want %s", p.Reason, c.reason)
			}
			if recs := n.published(); len(recs) != 0 {
				t.Errorf("published all the same: %v", recs)
			}
		})
	}
}

// TestRefusalsSayWhatThereIs: a person should not have to ask again.
func TestRefusalsSayWhatThereIs(t *testing.T) {
	n := newNode(t)
	n.offer()
	for body, want := range map[string]string{
		`{"flavor":"m9"}`: `flavor "m9": does not exist; choose one of m1.small`,
		`{"flavor":"m1.small","with":{"gpu":"b200"}}`: `gpu "b200": does not exist; choose one of a100, h100`,
		`{"flavor":"m1.small","with":{"disk":"ssd"}}`: `capability "disk": is not offered with flavor m1.small; ` +
			`flavor m1.small can be combined with [gpu]`,
		`{"flavor":"m1.small","attempts":21}`: `attempts "21 attempts" is not valid; give at most 20 attempts`,
		`{"flavor":"m1.small","on_no_capacity":"cry"}`: `on_no_capacity "cry": does not fit; ` +
			`expected value to be one of "wait, fail"`,
	} {
		if got := into[rest.Problem](n.do("POST", "/v1/instances", body),
			n.do("POST", "/v1/instances", body).status).Detail; got != want {
			t.Errorf("%s:\n got %s\nwant %s", body, got, want)
		}
	}
}

func TestNewIDsAreUUIDsAndDiffer(t *testing.T) {
	seen := map[compute.InstanceID]bool{}
	for range 1000 {
		id := compute.InstanceID(uuid.NewString())
		if err := id.Check(); err != nil || id[14] != '4' || !strings.ContainsRune("89ab", rune(id[19])) || seen[id] {
			t.Fatalf("%s: %v", id, err)
		}
		seen[id] = true
	}
	short := map[string]bool{}
	for _, id := range slices.Collect(maps.Keys(seen)) {
		short[string(id[:8])] = true
	}
	if len(short) < 990 {
		t.Errorf("only %d of 1000 differ in their first eight digits", len(short))
	}
}
