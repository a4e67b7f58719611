// SPDX-License-Identifier: Apache-2.0

package client

import (
	"context"
	"net/http"

	"github.com/berth-project/berth/pkg/compute"
	"github.com/berth-project/berth/pkg/wire/rest"
)

// Groups lists the project's groups by name, without where their members are.
func (c *Client) Groups(ctx context.Context) ([]Group, error) {
	return walk[Group](ctx, c, c.scoped(), "groups")
}

// Group shows one group, and where its members are.
func (c *Client) Group(ctx context.Context, name compute.GroupName) (Group, error) {
	var out Group
	err := c.call(ctx, http.MethodGet, c.scoped(), nil, &out, "groups", string(name))
	return out, err
}

// CreateGroup makes a group of the project. One that is there with the same rule is no change; with another rule it is a
// conflict.
func (c *Client) CreateGroup(ctx context.Context, g compute.Group) (Group, error) {
	var out Group
	err := c.harmless(ctx, http.MethodPost, c.scoped(), rest.FromGroup(g), &out, "groups")
	return out, err
}

// SetGroup makes a group of the project, or replaces its rule.
func (c *Client) SetGroup(ctx context.Context, g compute.Group) (Group, error) {
	var out Group
	err := c.call(ctx, http.MethodPut, c.scoped(), rest.FromGroup(g).GroupRule, &out, "groups", string(g.Name))
	return out, err
}

// ChangeGroup changes some of a group's rule, and leaves the rest as it is.
func (c *Client) ChangeGroup(ctx context.Context, name compute.GroupName, change GroupChange) (Group, error) {
	var out Group
	err := c.call(ctx, http.MethodPatch, c.scoped(), change, &out, "groups", string(name))
	return out, err
}

// DeleteGroup ends a group without members. It is not repeated: when the first time was in fact heard, a second would say
// that there is no such group.
func (c *Client) DeleteGroup(ctx context.Context, name compute.GroupName) error {
	var was rest.GroupRule
	return c.single(ctx, http.MethodDelete, c.scoped(), nil, &was, "groups", string(name))
}
