// SPDX-License-Identifier: Apache-2.0

package celltest

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/berth-project/berth/pkg/cell"
	"github.com/berth-project/berth/pkg/client"
	"github.com/berth-project/berth/pkg/compute"
	kafkaadmin "github.com/berth-project/berth/pkg/kafka/admin"
	"github.com/berth-project/berth/pkg/kafkatest"
	"github.com/berth-project/berth/pkg/service"
	"github.com/berth-project/berth/pkg/statusserver"
	"github.com/berth-project/berth/pkg/telemetry"
	"github.com/berth-project/berth/pkg/wire"
)

// tokenAPI starts an API node whose callers sign in, and answers its address.
func (r *rig) tokenAPI(name string) string { return r.signedAPI(name, false) }

// auditedAPI is a tokenAPI that keeps an audit.
func (r *rig) auditedAPI(name string) string { return r.signedAPI(name, true) }

func (r *rig) signedAPI(name string, audit bool) string {
	r.t.Helper()
	c := r.cell(name)
	c.Tokens, c.Audit = true, audit
	r.prepare(&c)
	f := statusserver.New(statusserver.Options{
		Address: "127.0.0.1:0", Listen: r.net.listen, Metrics: telemetry.NewMetrics().Handler(),
	})
	g := service.NewGroup()
	g.Add("front", f)
	g.Add("api", service.Made(func(ctx context.Context) (service.Part, error) {
		return cell.NewAPI(ctx, c, cell.APIOptions{Server: f, Tokens: true, Audit: audit})
	}))
	r.start(name, g)
	return f.Addr().String()
}

// with talks to a node with a token.
func (r *rig) with(node, token string, p compute.Project) *client.Client {
	r.t.Helper()
	c, err := client.New(client.Config{
		Address: node, Token: token, Project: p, Timeout: patience, Patience: patience, Dial: r.net.dial,
	})
	r.must(err)
	r.t.Cleanup(c.Close)
	return c
}

// metricsOf looks whether a node shows its metrics.
func (r *rig) metricsOf(node, token string, want int) error {
	req, err := http.NewRequestWithContext(r.t.Context(), http.MethodGet, "http://"+node+"/metrics", nil)
	if err != nil {
		return err
	}
	if token != "" {
		req.Header.Set("Authorization", "Bearer "+token)
	}
	resp, err := (&http.Client{Transport: &http.Transport{DisableKeepAlives: true, DialContext: r.net.dial}}).Do(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	if resp.StatusCode != want {
		return fmt.Errorf("the metrics of %s answer %s, want %d", node, resp.Status, want)
	}
	return nil
}

// deleteTopic returns once the broker has forgotten the topic. Until then it takes records for the deleted one, also
// of a producer that means the topic of this name that was made since.
func (r *rig) deleteTopic(admin *kafkaadmin.Admin, topic string) {
	r.t.Helper()
	known := func(want int) func() bool {
		return func() bool {
			ids, err := admin.TopicIDs(r.t.Context(), topic)
			return err == nil && len(ids) == want
		}
	}
	r.poll("the broker knows "+topic, known(1)) // it may hear of a new one after the broker that made it
	r.must(admin.DeleteTopics(r.t.Context(), topic))
	r.poll("the broker forgets "+topic, known(0))
}

// firstToken makes the first token of a cell, for an hour. A broker with much to do may not know the topic for longer
// than is waited for that.
func (r *rig) firstToken(c cell.Cell, name string) (text string, made compute.Token) {
	r.t.Helper()
	r.poll("the first token", func() (ok bool) {
		var err error
		if text, made, err = c.FirstToken(r.t.Context(), name, time.Hour); errors.Is(err, wire.ErrNoTopic) {
			return false
		}
		r.must(err)
		return true
	})
	return text, made
}

// A token counts on every node, and once it is revoked on none, nor on one that starts later. The first one needs
// no node, and a cell of before there were tokens gets their topic.
func TestTokensCountOnEveryNode(t *testing.T) {
	each(t, func(t *testing.T, b kafkatest.Broker) {
		r := newRig(t, b)
		older := r.cell("older")
		admin, err := kafkaadmin.New(older.Kafka)
		r.must(err)
		defer admin.Close()
		r.deleteTopic(admin, older.Topics().Tokens())
		first, made := r.firstToken(older, "bootstrap")
		a, other := r.tokenAPI("api-a"), r.tokenAPI("api-b")
		root := r.with(a, first, "p")
		is := func(c *client.Client) error {
			_, err := c.Whoami(t.Context())
			return err
		}
		counts := func(c *client.Client) bool { return is(c) == nil }
		r.must(is(root))
		r.poll("the first token on the other node", func() bool { return counts(r.with(other, first, "p")) })
		token := answered(r, func() (client.NewToken, error) {
			return root.CreateToken(t.Context(), client.TokenWish{Role: compute.RoleMember, Project: "p", Name: "ci"})
		})
		here, there := r.with(a, token.Secret, "p"), r.with(other, token.Secret, "p")
		r.must(is(here)) // at once where it was made
		r.poll("the token on the other node", func() bool { return counts(there) })
		if _, err := there.Instances(t.Context(), client.Filter{}); err != nil {
			t.Error(err)
		}
		if _, err := there.Hosts(t.Context()); compute.KindOf(err) != compute.KindForbidden {
			t.Errorf("a member lists hosts: %v", err)
		}
		r.gone(func() error { return r.with(other, first, "p").RevokeToken(t.Context(), token.ID) })
		if err := is(there); compute.KindOf(err) != compute.KindUnauthenticated {
			t.Errorf("it counts where it was revoked: %v", err)
		}
		began := time.Now()
		r.poll("it does not count on the other node", func() bool { return !counts(here) })
		t.Logf("revoked on the other node after %s", time.Since(began))
		r.must(r.metricsOf(a, first, http.StatusOK))
		r.must(r.metricsOf(a, "", http.StatusUnauthorized))
		err = r.settles(func() error { return root.RevokeToken(t.Context(), made.ID) }) // also with itself
		if compute.KindOf(err) != compute.KindUnauthenticated {                         // so it was when it was asked before
			r.must(err)
		}
		late := r.tokenAPI("api-c")
		for _, text := range []string{first, token.Secret} {
			if err := is(r.with(late, text, "p")); compute.KindOf(err) != compute.KindUnauthenticated {
				t.Errorf("a revoked token counts on a node that starts later: %v", err)
			}
		}
	})
}

// TestTurnedOnWithoutStopping is what OPERATIONS says to do in a cell of before there were tokens, with processes.
func TestTurnedOnWithoutStopping(t *testing.T) {
	t.Parallel()
	r := processRig(t)
	older := r.cell("older")
	admin, err := kafkaadmin.New(older.Kafka)
	r.must(err)
	defer admin.Close()
	r.deleteTopic(admin, older.Topics().Tokens())
	open := r.apiProcess("api-a")
	serves := func(c *client.Client) {
		t.Helper()
		if _, err := c.Instances(t.Context(), client.Filter{}); err != nil {
			t.Error(err)
		}
	}
	serves(r.as("p"))
	open.says("nobody signs in")
	r.daemonOf("queues", "queues", map[string]any{}) // it makes the topic
	r.poll("the topic of the tokens", func() bool {
		ids, err := admin.TopicIDs(t.Context(), older.Topics().Tokens())
		return err == nil && len(ids) == 1
	})
	code, out, errs := reaches(t, "token", "bootstrap", "--config", filepath.Join(r.data, "api-a.yaml"))
	if code != 0 {
		t.Fatalf("exit %d %s", code, errs)
	}
	first := strings.TrimSpace(out)
	address := freeAddress(t)
	r.daemonOf("api-b", "api", map[string]any{"listen": address, "auth": map[string]any{"tokens": true}})
	wish := client.TokenWish{Role: compute.RoleMember, Project: "p"}
	token := answered(r, func() (client.NewToken, error) {
		return r.with(address, first, "").CreateToken(t.Context(), wish)
	})
	serves(r.with(address, token.Secret, "p"))
	serves(r.with(r.api, token.Secret, "p")) // it does not ask
	serves(r.as("p"))
	open.terminate()
	locked := freeAddress(t)
	r.daemonOf("api-a", "api", map[string]any{"listen": locked, "auth": map[string]any{"tokens": true}})
	serves(r.with(locked, token.Secret, "p"))
	_, err = r.with(locked, "", "p").Instances(t.Context(), client.Filter{})
	if compute.KindOf(err) != compute.KindUnauthenticated {
		t.Errorf("without a token: %v", err)
	}
}
