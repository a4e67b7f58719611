// SPDX-License-Identifier: Apache-2.0

package client

import (
	"context"
	"net/http"
	"net/url"

	"github.com/berth-project/berth/pkg/compute"
	"github.com/berth-project/berth/pkg/wire/rest"
)

// dryParam has a change be tried, and not made.
const dryParam = "dry_run"

func dry(on bool) url.Values {
	if on {
		return url.Values{dryParam: {"true"}}
	}
	return nil
}

// AddFlavor offers a flavor; with dryRun it only says what that would do.
func (c *Client) AddFlavor(ctx context.Context, f compute.Flavor, dryRun bool) (Change, error) {
	var out Change
	err := c.call(ctx, http.MethodPost, dry(dryRun), rest.FromFlavor(f), &out, "flavors")
	return out, err
}

// RemoveFlavor stops offering a flavor. It is not repeated: when the first time
// was in fact heard, a second would say that there is no such flavor.
func (c *Client) RemoveFlavor(ctx context.Context, name compute.FlavorName, dryRun bool) (Change, error) {
	var out Change
	err := c.single(ctx, http.MethodDelete, dry(dryRun), nil, &out, "flavors", string(name))
	return out, err
}

// Flavor shows one flavor and how far its queues are.
func (c *Client) Flavor(ctx context.Context, name compute.FlavorName) (Flavor, error) {
	var out Flavor
	err := c.call(ctx, http.MethodGet, nil, nil, &out, "flavors", string(name))
	return out, err
}

// Flavors lists all flavors by name.
func (c *Client) Flavors(ctx context.Context) ([]Flavor, error) {
	return walk[Flavor](ctx, c, nil, "flavors")
}

// AddCapability offers an axis, or more values on it.
func (c *Client) AddCapability(ctx context.Context, a compute.Capability, dryRun bool) (Change, error) {
	var out Change
	err := c.call(ctx, http.MethodPost, dry(dryRun), rest.FromCapability(a), &out, "capabilities")
	return out, err
}

// RemoveCapability stops offering an axis. It is not repeated, as RemoveFlavor.
func (c *Client) RemoveCapability(ctx context.Context, axis compute.AxisName, dryRun bool) (Change, error) {
	var out Change
	err := c.single(ctx, http.MethodDelete, dry(dryRun), nil, &out, "capabilities", string(axis))
	return out, err
}

// RemoveValues stops offering some values on an axis, and never the axis itself: an older node refuses it, as it does
// not know the parameter. With drain it may be done while instances wait for them: their queues close, and go once
// nothing needs them. It is not repeated, as RemoveFlavor.
func (c *Client) RemoveValues(
	ctx context.Context, axis compute.AxisName, values []compute.AxisValue, drain, dryRun bool,
) (out Change, err error) {
	if len(values) == 0 {
		return out, compute.Invalid("value", "", "say which values to remove")
	}
	query := url.Values{}
	for _, v := range values {
		query.Add("value", string(v))
	}
	if drain {
		query.Set("drain", "true")
	}
	if dryRun {
		query.Set(dryParam, "true")
	}
	err = c.single(ctx, http.MethodDelete, query, nil, &out, "capabilities", string(axis))
	return out, err
}

// Capability shows one axis.
func (c *Client) Capability(ctx context.Context, axis compute.AxisName) (Capability, error) {
	var out Capability
	err := c.call(ctx, http.MethodGet, nil, nil, &out, "capabilities", string(axis))
	return out, err
}

// Capabilities lists all axes by name.
func (c *Client) Capabilities(ctx context.Context) ([]Capability, error) {
	return walk[Capability](ctx, c, nil, "capabilities")
}

// Valid says what is valid in a request: flavors, choices, limits, states and reasons.
func (c *Client) Valid(ctx context.Context) (Capabilities, error) {
	var out Capabilities
	err := c.call(ctx, http.MethodGet, nil, nil, &out, "capabilities")
	return out, err
}

// Quota shows what a project may have and uses; compute.DefaultQuota shows the
// limits of all that have none of their own.
func (c *Client) Quota(ctx context.Context, p compute.Project) (Quota, error) {
	var out Quota
	err := c.call(ctx, http.MethodGet, nil, nil, &out, "quotas", string(p))
	return out, err
}

// Quotas lists the projects with limits of their own or with instances.
func (c *Client) Quotas(ctx context.Context) ([]Quota, error) {
	return walk[Quota](ctx, c, nil, "quotas")
}

// ChangeQuota changes some of a project's own limits, and leaves the others as they are.
func (c *Client) ChangeQuota(ctx context.Context, p compute.Project, change QuotaChange) (Quota, error) {
	var out Quota
	err := c.call(ctx, http.MethodPatch, nil, change, &out, "quotas", string(p))
	return out, err
}

// SetQuota replaces a project's own limits.
func (c *Client) SetQuota(ctx context.Context, q compute.Quota) (Quota, error) {
	var out Quota
	limits := rest.QuotaLimits{Limits: q.Limits, Priorities: rest.FromClassLimits(q.Classes), Weight: q.Weight}
	err := c.call(ctx, http.MethodPut, nil, limits, &out, "quotas", string(q.Project))
	return out, err
}
