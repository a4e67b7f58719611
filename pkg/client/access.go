// SPDX-License-Identifier: Apache-2.0

package client

import (
	"context"
	"net/http"
	"net/url"
	"strconv"
	"time"

	"github.com/berth-project/berth/pkg/compute"
)

// Whoami says who calls, by what it shows to the node.
func (c *Client) Whoami(ctx context.Context) (Caller, error) {
	var out Caller
	err := c.call(ctx, http.MethodGet, nil, nil, &out, "whoami")
	return out, err
}

// CreateToken makes a token. The answer alone has its secret.
func (c *Client) CreateToken(ctx context.Context, wish TokenWish) (NewToken, error) {
	var out NewToken
	err := c.call(ctx, http.MethodPost, nil, wish, &out, "tokens")
	return out, err
}

// Tokens lists those that are not revoked, by their ids.
func (c *Client) Tokens(ctx context.Context) ([]Token, error) {
	return walk[Token](ctx, c, nil, "tokens")
}

// RevokeToken ends a token. One that is revoked already is not found.
func (c *Client) RevokeToken(ctx context.Context, id compute.TokenID) error {
	return c.single(ctx, http.MethodDelete, nil, nil, nil, "tokens", string(id))
}

// RejectedFilter says which refused records are wanted. What is empty lets all pass.
type RejectedFilter struct {
	AllProjects bool   // everything, instead of the requests that name the client's project; operators may
	Topic       string // without the cell's prefix
	Record      string // that one, as in requests/3/41
	Reason      compute.ReasonCode
	Since       time.Time // no older than this
}

// Rejected lists the newest records that were refused, as Audit lists entries.
func (c *Client) Rejected(ctx context.Context, f RejectedFilter, most int) ([]Rejected, error) {
	query := c.scoped()
	query.Set("limit", strconv.Itoa(min(most, maxOnPage)))
	if f.AllProjects {
		query.Set("project", "*")
	}
	for key, value := range map[string]string{"topic": f.Topic, "record": f.Record, "reason": string(f.Reason)} {
		if value != "" {
			query.Set(key, value)
		}
	}
	if !f.Since.IsZero() {
		query.Set("since", f.Since.UTC().Format(time.RFC3339Nano))
	}
	return newest[Rejected](ctx, c, query, most, "rejected")
}

// newest asks for page after page until it has so many.
func newest[T any](ctx context.Context, c *Client, query url.Values, most int, list string) ([]T, error) {
	all := []T{}
	for page, err := range pages[T](ctx, c, query, list) {
		if err != nil {
			return all, err
		}
		if all = append(all, page...); len(all) >= most {
			return all[:most], nil
		}
	}
	return all, nil
}

// AuditFilter says which entries of the audit are wanted. What is empty lets all pass.
type AuditFilter struct {
	Project   compute.Project
	Who       string // a caller's name or id
	Operation string
	Result    string    // ok, refused, a status or the kind of a problem
	Since     time.Time // no older than this
}

// Audit lists the newest entries that are wanted, the newest first and at most so many. It asks for page after page
// until it has them, or has seen all. With an error it answers those that it has by then.
func (c *Client) Audit(ctx context.Context, f AuditFilter, most int) ([]AuditEntry, error) {
	query := url.Values{"limit": {strconv.Itoa(min(most, maxOnPage))}}
	for key, value := range map[string]string{
		"project": string(f.Project), "who": f.Who, "operation": f.Operation, "result": f.Result,
	} {
		if value != "" {
			query.Set(key, value)
		}
	}
	if !f.Since.IsZero() {
		query.Set("since", f.Since.UTC().Format(time.RFC3339Nano))
	}
	return newest[AuditEntry](ctx, c, query, most, "audit")
}
