// SPDX-License-Identifier: Apache-2.0

package client

import (
	"context"
	"iter"
	"net/http"
	"net/url"
	"strconv"
	"time"

	"github.com/berth-project/berth/pkg/compute"
	"github.com/berth-project/berth/pkg/wire/rest"
)

// Queue shows one queue.
func (c *Client) Queue(ctx context.Context, name compute.QueueName) (Queue, error) {
	var out Queue
	err := c.call(ctx, http.MethodGet, nil, nil, &out, "queues", string(name))
	return out, err
}

// Queues lists queues by name; with a flavor, only its own.
func (c *Client) Queues(ctx context.Context, f compute.FlavorName) ([]Queue, error) {
	return collect(c.QueuePages(ctx, f))
}

// QueuePages lists queues as Queues does, page by page: the next one is asked for
// when the caller is done with the one before. An error is the last that comes.
// A cell may have 20,000 queues.
func (c *Client) QueuePages(ctx context.Context, f compute.FlavorName) iter.Seq2[[]Queue, error] {
	query := url.Values{"limit": {strconv.Itoa(maxOnPage)}}
	if f != "" {
		query.Set("flavor", string(f))
	}
	return pages[Queue](ctx, c, query, "queues")
}

// CapacityBy says how many machines of each flavor, or of one, hosts could have, by the values of an axis; without one
// on all hosts together.
func (c *Client) CapacityBy(ctx context.Context, axis compute.AxisName, f compute.FlavorName) (CapacityBy, error) {
	query := url.Values{}
	if axis != "" {
		query.Set("by", string(axis))
	}
	if f != "" {
		query.Set("flavor", string(f))
	}
	var out CapacityBy
	err := c.call(ctx, http.MethodGet, query, nil, &out, "capacity")
	return out, err
}

// Host shows what a host last said.
func (c *Client) Host(ctx context.Context, h compute.HostID) (Host, error) {
	var out Host
	err := c.call(ctx, http.MethodGet, nil, nil, &out, "hosts", string(h))
	return out, err
}

// HostBefore is Host, with only those of its instances counted that it claimed
// under a lower fence.
func (c *Client) HostBefore(ctx context.Context, h compute.HostID, fence compute.FenceEpoch) (Host, error) {
	var out Host
	err := c.call(ctx, http.MethodGet, url.Values{"fence": {strconv.FormatUint(uint64(fence), 10)}}, nil, &out,
		"hosts", string(h))
	return out, err
}

// HostInstances lists what a host has, of all projects, oldest first. What it
// prepares and has not been granted yet is not among them.
func (c *Client) HostInstances(ctx context.Context, h compute.HostID) ([]Instance, error) {
	return walk[Instance](ctx, c, nil, "hosts", string(h), "instances")
}

// Hosts lists hosts by name: all, or those with such labels, as compute.ParseSelector reads them.
func (c *Client) Hosts(ctx context.Context, labels ...string) ([]Host, error) {
	return walk[Host](ctx, c, url.Values{"label": labels}, "hosts")
}

// Drain asks a host to make no more offers. The deadline is when it should be
// empty, and is shown with the host; zero: no hurry. Nothing is ended by it. A
// later drain takes the place of this one, its deadline too.
func (c *Client) Drain(ctx context.Context, h compute.HostID, reason string, deadline time.Time) (HostAsked, error) {
	return c.askHost(ctx, h, "drain", rest.HostWish{Reason: reason, Deadline: deadline})
}

// Enable asks a host to offer again.
func (c *Client) Enable(ctx context.Context, h compute.HostID, reason string) (HostAsked, error) {
	return c.askHost(ctx, h, "enable", rest.HostWish{Reason: reason})
}

// Disable asks a host to make no more offers; its machines stay.
func (c *Client) Disable(ctx context.Context, h compute.HostID, reason string) (HostAsked, error) {
	return c.askHost(ctx, h, "disable", rest.HostWish{Reason: reason})
}

// Evacuate says that a host is dead, so that what it had is built elsewhere. It
// may be repeated; after a time-out it has to be.
func (c *Client) Evacuate(ctx context.Context, h compute.HostID, w DeadHost) (HostDead, error) {
	return c.deadHost(ctx, h, "evacuate", w)
}

// Forget says that a host is gone for good, so that what it had ends. It may be
// repeated, as Evacuate.
func (c *Client) Forget(ctx context.Context, h compute.HostID, w DeadHost) (HostDead, error) {
	return c.deadHost(ctx, h, "forget", w)
}

func (c *Client) deadHost(ctx context.Context, h compute.HostID, verb string, w DeadHost) (HostDead, error) {
	var out HostDead
	err := c.call(ctx, http.MethodPost, nil, w, &out, "hosts", string(h), verb)
	return out, err
}

func (c *Client) askHost(ctx context.Context, h compute.HostID, verb string, w rest.HostWish) (HostAsked, error) {
	var out HostAsked
	err := c.call(ctx, http.MethodPost, nil, w, &out, "hosts", string(h), verb)
	return out, err
}
