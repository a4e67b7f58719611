// SPDX-License-Identifier: Apache-2.0

package celltest

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/berth-project/berth/pkg/client"
	"github.com/berth-project/berth/pkg/compute"
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
		r.must(admin.DeleteTopics(t.Context(), older.Topics().Audit()))
		r.poll("the topic is gone", func() bool {
			ids, err := admin.TopicIDs(t.Context(), older.Topics().Audit())
			return err == nil && len(ids) == 0
		})
		none := older.ReadAudit(t.Context(), time.Now().Add(-time.Hour), false, nil)
		var e *compute.Error
		if !errors.As(none, &e) || e.Kind != compute.KindNotFound || e.Remedy == "" {
			t.Errorf("without a topic: %v", none)
		}
		first, _, err := older.FirstToken(t.Context(), "bootstrap", time.Hour)
		r.must(err)
		a, other := r.auditedAPI("api-a"), r.auditedAPI("api-b")
		root := r.with(a, first, "p")
		token, err := root.CreateToken(t.Context(), client.TokenWish{Role: compute.RoleMember, Project: "p", Name: "ci"})
		r.must(err)
		there := r.with(other, token.Secret, "p")
		r.poll("the token on the other node", func() bool { _, err := there.Whoami(t.Context()); return err == nil })
		if _, err := there.Hosts(t.Context()); compute.KindOf(err) != compute.KindForbidden {
			t.Errorf("a member lists hosts: %v", err)
		}
		r.must(root.RevokeToken(t.Context(), token.ID))

		var seen []compute.AuditEntry
		done := errors.New("seen enough")
		ctx, cancel := context.WithTimeout(t.Context(), patience)
		defer cancel()
		err = older.ReadAudit(ctx, time.Now().Add(-time.Hour), true, func(e compute.AuditEntry, err error) error {
			r.must(err)
			if e.Status == 401 { // of the poll: it is not known yet
				return nil
			}
			if seen = append(seen, e); e.Operation == "revoke-token" {
				return done
			}
			return nil
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
				Operation: got.Operation, Who: got.Who, Status: got.Status, Kind: got.Kind, Project: got.Project, Target: got.Target,
			}
			if short != want || got.At.IsZero() || got.Node == "" || got.Request == "" || got.How != "token" {
				t.Errorf("%+v, want %+v", got, want)
			}
		}
		var all int
		r.must(older.ReadAudit(ctx, time.Now().Add(-time.Hour), false, func(compute.AuditEntry, error) error { all++; return nil }))
		if all < 3 {
			t.Errorf("%d entries", all)
		}
		r.must(older.ReadAudit(ctx, time.Now().Add(time.Hour), false, func(e compute.AuditEntry, _ error) error {
			t.Errorf("of before the time: %+v", e)
			return nil
		}))
	})
}
