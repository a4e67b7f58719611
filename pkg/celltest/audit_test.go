// SPDX-License-Identifier: Apache-2.0

package celltest

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/berth-project/berth/pkg/cell"
	"github.com/berth-project/berth/pkg/client"
	"github.com/berth-project/berth/pkg/compute"
	"github.com/berth-project/berth/pkg/doctor"
	kafkaadmin "github.com/berth-project/berth/pkg/kafka/admin"
	"github.com/berth-project/berth/pkg/kafkatest"
)

// Two nodes write one audit, which is read from Kafka, and followed. A cell of before there was one gets its topic.
func TestAuditOfTwoNodes(t *testing.T) {
	each(t, func(t *testing.T, b kafkatest.Broker) {
		r := newRig(t, b)
		older := r.cell("older")
		admin, err := kafkaadmin.New(older.Kafka)
		r.must(err)
		defer admin.Close()
		r.deleteTopic(admin, older.Topics().Audit())
		none := r.settles(func() error { return older.ReadAudit(t.Context(), time.Now().Add(-time.Hour), false, nil) })
		var e *compute.Error
		if !errors.As(none, &e) || e.Kind != compute.KindNotFound || e.Remedy == "" {
			t.Errorf("without a topic: %v", none)
		}
		first, _ := r.firstToken(older, "bootstrap")
		a, other := r.auditedAPI("api-a"), r.auditedAPI("api-b")
		root := r.with(a, first, "p")
		token := answered(r, func() (client.NewToken, error) {
			return root.CreateToken(t.Context(), client.TokenWish{Role: compute.RoleMember, Project: "p", Name: "ci"})
		})
		there := r.with(other, token.Secret, "p")
		r.poll("the token on the other node", func() bool { _, err := there.Whoami(t.Context()); return err == nil })
		// A node leaves out the entry of a refusal for which Kafka needs more than 2 s.
		r.poll("the audit has that a member may not list hosts", func() bool {
			if _, err := there.Hosts(t.Context()); compute.KindOf(err) != compute.KindForbidden {
				t.Errorf("a member lists hosts: %v", err)
			}
			return slices.ContainsFunc(r.audited(older), func(e compute.AuditEntry) bool {
				return e.Operation == "list-hosts" && e.Status == 403
			})
		})
		r.gone(func() error { return root.RevokeToken(t.Context(), token.ID) })

		var seen []compute.AuditEntry
		done := errors.New("seen enough")
		ctx, cancel := context.WithTimeout(t.Context(), patience)
		defer cancel()
		follow := func(e compute.AuditEntry, err error) error {
			r.must(err)
			if e.Status == 401 || comeAgain(int(e.Status)) { // of the poll: it is not known yet; or it was tried again
				return nil
			}
			if last := len(seen) - 1; last >= 0 && seen[last].Operation == e.Operation && e.Status == 403 {
				return nil // of the poll: it was refused again
			}
			if seen = append(seen, e); e.Operation == "revoke-token" {
				return done
			}
			return nil
		}
		err = r.settles(func() error {
			seen = nil
			return older.ReadAudit(ctx, time.Now().Add(-time.Hour), true, follow)
		})
		if !errors.Is(err, done) || len(seen) != 3 {
			t.Fatalf("%v: %+v", err, seen)
		}
		for i, want := range []compute.AuditEntry{
			{Operation: "create-token", Who: "token:bootstrap", Status: 201, Project: "p", Target: "token/" + string(token.ID)},
			{Operation: "list-hosts", Who: "token:ci", Status: 403, Kind: "forbidden"},
			{Operation: "revoke-token", Who: "token:bootstrap", Status: 204, Target: "token/" + string(token.ID)},
		} {
			got := seen[i]
			short := compute.AuditEntry{
				Operation: got.Operation, Who: got.Who, Status: got.Status, Kind: got.Kind, Project: got.Project,
				Target: got.Target,
			}
			if short != want || got.At.IsZero() || got.Node == "" || got.Request == "" || got.How != "token" {
				t.Errorf("%+v, want %+v", got, want)
			}
		}
		all := len(r.audited(older))
		if all < 3 {
			t.Errorf("%d entries", all)
		}
		r.able("read the audit of later", func() error {
			return older.ReadAudit(ctx, time.Now().Add(time.Hour), false, func(e compute.AuditEntry, _ error) error {
				t.Errorf("of before the time: %+v", e)
				return nil
			})
		})
		for _, n := range []*client.Client{root, r.with(other, first, "p")} { // each shows what both have written
			shown, err := n.Audit(ctx, client.AuditFilter{Since: time.Now().Add(-time.Hour), Result: "ok"}, 10)
			if err != nil || len(shown) != 2 || shown[0].Operation != "revoke-token" || shown[1].Operation != "create-token" {
				t.Errorf("an API node shows %+v, %v", shown, err)
			}
		}
		r.poll("the other node knows that the token is revoked", func() bool {
			_, err := there.Audit(ctx, client.AuditFilter{}, 1)
			if err == nil {
				t.Error("it is shown to a member whose token is revoked")
			}
			return err == nil || compute.KindOf(err) == compute.KindUnauthenticated
		})
		facts := answered(r, func() (doctor.Facts, error) { return older.Facts(ctx) })
		if f := facts.Audit; f.Looked < all || f.Err != nil || f.Garbled > 0 || f.Last.Before(seen[2].At) || f.Node == "" {
			t.Errorf("the doctor sees of %d entries: %+v", all, f)
		}
	})
}

// audited is what the audit has.
func (r *rig) audited(c cell.Cell) (all []compute.AuditEntry) {
	r.t.Helper()
	r.able("read the audit", func() error {
		all = nil
		return c.ReadAudit(r.t.Context(), time.Now().Add(-time.Hour), false, func(e compute.AuditEntry, err error) error {
			all = append(all, e)
			return err
		})
	})
	return all
}

// caller sends requests as one caller to one node.
type caller struct {
	r           *rig
	node, token string
}

// asks sends a request with this id, and answers the status.
func (c caller) asks(id, method, path, body string) int {
	c.r.t.Helper()
	req, err := http.NewRequestWithContext(c.r.t.Context(), method, "http://"+c.node+path, strings.NewReader(body))
	c.r.must(err)
	req.Header.Set("Authorization", "Bearer "+c.token)
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("X-Request-Id", id)
	resp, err := (&http.Client{Transport: &http.Transport{DisableKeepAlives: true, DialContext: c.r.net.dial}}).Do(req)
	c.r.must(err)
	defer resp.Body.Close()
	if got := resp.Header.Get("X-Request-Id"); got != id {
		c.r.t.Errorf("%s: its answer has the request id %q", id, got)
	}
	return resp.StatusCode
}

// changing are the operations of a node's own document that change something: by their id, method and path.
func (r *rig) changing(node string) map[string][2]string {
	r.t.Helper()
	req, err := http.NewRequestWithContext(r.t.Context(), http.MethodGet, "http://"+node+"/openapi.json", nil)
	r.must(err)
	resp, err := (&http.Client{Transport: &http.Transport{DisableKeepAlives: true, DialContext: r.net.dial}}).Do(req)
	r.must(err)
	defer resp.Body.Close()
	var doc struct {
		Paths map[string]map[string]struct{ OperationID string }
	}
	r.must(json.NewDecoder(resp.Body).Decode(&doc))
	all := map[string][2]string{}
	for path, methods := range doc.Paths {
		for method, op := range methods {
			if method != "get" && op.OperationID != "ask-placements" { // which only asks
				all[op.OperationID] = [2]string{strings.ToUpper(method), path}
			}
		}
	}
	return all
}

// Every operation that changes something leaves one entry in Kafka for an admin and one for a reader, with the status
// that was answered, and no entry has anything of a body or a token.
//
// Seen to fail when End is not called, and when publications do not go through Beside.
func TestEveryChangeIsInKafka(t *testing.T) {
	r := newRig(t, kafkatest.Embedded(t))
	first, _ := r.firstToken(r.cell("admin"), "bootstrap")
	node := r.auditedAPI("api-a")
	wish := client.TokenWish{Role: compute.RoleReader, Project: "p"}
	reader := answered(r, func() (client.NewToken, error) {
		return r.with(node, first, "p").CreateToken(t.Context(), wish)
	})
	bodies := map[string]string{
		"boot":           `{"flavor": "m1.small", "project": "p", "user_data": "aHVudGVyMg==", "metadata": {"password": "hunter2"}}`,
		"boot-set":       `{"boots": [{"flavor": "m1.small", "project": "p"}, {"flavor": "m1.small", "project": "p", "metadata": {"password": "hunter2"}}]}`,
		"boot-group":     `{"boots": [{"flavor": "m1.small", "project": "p"}, {"flavor": "m1.small", "project": "p"}]}`,
		"set-quota":      `{"limits": {"INSTANCES": 3}}`,
		"change-quota":   `{"limits": {"INSTANCES": 4}}`,
		"create-group":   `{"name": "web", "policy": "affinity"}`,
		"set-group":      `{"policy": "affinity"}`,
		"change-group":   `{"policy": "affinity"}`,
		"add-flavor":     `{"name": "m1.audit", "resources": {"VCPU": 8}}`,
		"add-capability": `{"axis": "net", "values": [{"value": "fast"}]}`,
		"create-token":   `{"role": "reader", "project": "p", "name": "hunter2"}`,
	}
	path := strings.NewReplacer("{id}", string(compute.InstanceID("11111111-1111-4111-8111-111111111111")), "{host}", "h1",
		"{flavor}", "m1.none", "{axis}", "none", "{project}", "p", "{group}", "none", "{token}", "aaaaaaaaaaaaaaaa")
	calls := map[string]int{}  // how often, by operation and caller
	want := map[string]int32{} // by the id of the request: one of those, and its number
	ask := func(left func(call string) bool) {
		for id, op := range r.changing(node) {
			for who, token := range map[string]string{"admin": first, "reader": reader.Secret} {
				call := id + "." + who
				if !left(call) {
					continue
				}
				r.poll(call+" is answered", func() bool {
					calls[call]++
					as := fmt.Sprint(call, ".", calls[call])
					status := caller{r, node, token}.asks(as, op[0], path.Replace(op[1]), bodies[id])
					want[as] = int32(status)
					return !comeAgain(status)
				})
			}
		}
	}
	ask(func(string) bool { return true })
	for id := range bodies {
		last := func(call string) int32 { return want[fmt.Sprint(call, ".", calls[call])] }
		status, refused := last(id+".admin"), last(id+".reader")
		early := id == "change-group" && status == 404 // others of these make the group and delete it, in any order
		if status >= 500 || status >= 400 && !strings.HasPrefix(id, "boot") && !early || refused != 403 {
			t.Errorf("%s: %d and %d", id, status, refused)
		}
	}
	// A node leaves out the entry of a refusal for which Kafka needs more than 2 s; it may be written later all the same.
	missing := func(written map[string]bool) func(call string) bool {
		return func(call string) bool {
			for n := range calls[call] {
				if as := fmt.Sprint(call, ".", n+1); written[as] || want[as] < 400 {
					return false
				}
			}
			return true
		}
	}
	r.poll("each refusal is written down", func() bool {
		written, all := map[string]bool{}, len(want)
		for _, e := range r.audited(r.cell("admin")) {
			written[e.Request] = true
		}
		ask(missing(written))
		return len(want) == all
	})
	got, written := map[string]int32{}, map[string]bool{}
	for _, e := range r.audited(r.cell("admin")) {
		if id, _, ours := strings.Cut(e.Request, "."); ours {
			if written[e.Request] || e.Operation != id {
				t.Errorf("%+v", e)
			}
			got[e.Request], written[e.Request] = e.Status, true
		}
		for _, secret := range []string{"hunter2", "aHVudGVyMg", first[30:60], reader.Secret[30:60]} {
			if strings.Contains(fmt.Sprintf("%+v", e), secret) {
				t.Errorf("%s is in %+v", secret, e)
			}
		}
	}
	for as := range want {
		if call := as[:strings.LastIndex(as, ".")]; want[as] >= 400 && !written[as] && !missing(written)(call) {
			delete(want, as) // another one of its kind is there
		}
	}
	if diff := cmp.Diff(want, got); diff != "" || len(calls) < 30 {
		t.Errorf("%d calls (-answered +written):\n%s", len(calls), diff)
	}
}
