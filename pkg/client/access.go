// SPDX-License-Identifier: Apache-2.0

package client

import (
	"context"
	"net/http"

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
