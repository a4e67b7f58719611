// SPDX-License-Identifier: Apache-2.0

package client

import (
	"cmp"
	"context"
	"encoding/json"
	"iter"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"github.com/berth-project/berth/pkg/compute"
	"github.com/berth-project/berth/pkg/wire"
	"github.com/berth-project/berth/pkg/wire/rest"
)

// Boot asks for one machine. It returns once the request cannot be lost. With
// an id of the caller's own it may be repeated safely, and is; the API then
// looks whether another node knows the id, which takes it a moment. KeyedID
// makes an id of any text.
func (c *Client) Boot(ctx context.Context, id compute.InstanceID, b compute.Boot) (Instance, error) {
	var out Instance
	ask := c.call
	if id != "" {
		ask = c.harmless
	}
	err := ask(ctx, http.MethodPost, nil, rest.FromBoot(c.project, id, b), &out, "instances")
	return booted(out, err)
}

// booted refuses an answer to a boot that names no instance: another server's.
func booted(i Instance, err error) (Instance, error) {
	if err == nil && i.ID == "" {
		err = rest.Foreign(http.StatusOK)
	}
	return i, err
}

// BootUnder is Boot under a key of the caller's own, which gives the id: KeyedID.
func (c *Client) BootUnder(ctx context.Context, key string, b compute.Boot) (Instance, error) {
	var out Instance
	body := keyed{rest.FromBoot(c.project, "", b), key}
	err := c.harmless(ctx, http.MethodPost, nil, body, &out, "instances")
	return booted(out, err)
}

// BootSet asks for several machines of which all start or none; an instance that is left out gets an id. It returns once
// the request cannot be lost. Where the caller gives all ids it may be repeated safely, and is.
func (c *Client) BootSet(ctx context.Context, set []compute.SetBoot) ([]Instance, error) {
	var out rest.Instances
	ask := c.harmless
	if slices.ContainsFunc(set, func(b compute.SetBoot) bool { return b.Instance == "" }) {
		ask = c.call
	}
	err := ask(ctx, http.MethodPost, nil, c.setOf(set, true), &out, "sets")
	return bootedSet(out.Items, err)
}

// bootedSet refuses an answer to a set that names no instance: another server's.
func bootedSet(items []Instance, err error) ([]Instance, error) {
	if err == nil && len(items) == 0 {
		return nil, rest.Foreign(http.StatusOK)
	}
	return items, err
}

// BootSetUnder is BootSet under a key of the caller's own, which gives the ids: KeyedID of KEY-1, KEY-2 and so on.
func (c *Client) BootSetUnder(ctx context.Context, key string, set []compute.SetBoot) ([]Instance, error) {
	var out rest.Instances
	err := c.harmless(ctx, http.MethodPost, nil, keyed{c.setOf(set, false), key}, &out, "sets")
	return bootedSet(out.Items, err)
}

func (c *Client) setOf(set []compute.SetBoot, ids bool) rest.BootSet {
	body := rest.BootSet{}
	for _, b := range set {
		one := rest.FromBoot(c.project, "", b.Boot)
		if ids {
			one.ID = b.Instance
		}
		body.Boots = append(body.Boots, one)
	}
	return body
}

// keyed is a body about a boot, with its key.
type keyed struct {
	body any
	key  string
}

// MarshalJSON is the body alone: the key is a header.
func (k keyed) MarshalJSON() ([]byte, error) { return json.Marshal(k.body) }

// KeyedID is the id that the API gives to a boot of this project with the header
// Idempotency-Key: the same for the same key, for ever. Without a project it is
// the server's default, as in Boot.
func KeyedID(p compute.Project, key string) compute.InstanceID {
	return wire.KeyedInstance(cmp.Or(p, rest.DefaultProject), key)
}

// Instance shows one instance.
func (c *Client) Instance(ctx context.Context, id compute.InstanceID) (Instance, error) {
	var out Instance
	err := c.call(ctx, http.MethodGet, c.scoped(), nil, &out, "instances", string(id))
	return out, err
}

// Explain says where an instance is, or why it is not placed.
func (c *Client) Explain(ctx context.Context, id compute.InstanceID) (Explanation, error) {
	var out Explanation
	err := c.call(ctx, http.MethodGet, c.scoped(), nil, &out, "instances", string(id), "explain")
	return out, err
}

// Story tells what became of an instance, and who asked for what.
func (c *Client) Story(ctx context.Context, id compute.InstanceID) (Story, error) {
	var out Story
	err := c.call(ctx, http.MethodGet, c.scoped(), nil, &out, "instances", string(id), "events")
	return out, err
}

// Why says what would become of a boot: of it only flavor, choices, hosts, the group and the priority count.
func (c *Client) Why(ctx context.Context, b compute.Boot) (Placement, error) {
	query := c.scoped()
	query.Set("flavor", string(b.Flavor))
	for axis, value := range b.With {
		query.Add("with", string(axis)+"="+string(value))
	}
	if b.Host != "" {
		query.Set("host", string(b.Host))
	}
	for _, h := range b.Avoid {
		query.Add("avoid", string(h))
	}
	if g := b.Group(); g != "" {
		query.Set("group", string(g))
	}
	if p := b.Priority(); p != compute.PriorityNormal {
		query.Set("priority", p.String())
	}
	var out Placement
	err := c.call(ctx, http.MethodGet, query, nil, &out, "explain")
	return out, err
}

// Placements says what would become of boots, of one kind or a mix, without booting. Each of one kind is refused for what
// Boot is refused for.
func (c *Client) Placements(ctx context.Context, m Mix) (Placements, error) {
	return c.placements(ctx, m)
}

// PlacementUnder is Placements of one boot under a key, as BootUnder.
func (c *Client) PlacementUnder(ctx context.Context, key string, b compute.Boot) (Placements, error) {
	return c.placements(ctx, keyed{MixOf(c.project, b, 0), key})
}

// MixOf is the question about so many boots of one kind.
func MixOf(p compute.Project, b compute.Boot, count int64) Mix {
	body := rest.FromBoot(p, "", b)
	return Mix{Boot: body, Flavor: body.Flavor, Count: count}
}

func (c *Client) placements(ctx context.Context, body any) (Placements, error) {
	var out Placements
	err := c.harmless(ctx, http.MethodPost, c.scoped(), body, &out, "placements")
	return out, err
}

// Delete asks for an instance to be deleted. It returns once the request cannot
// be lost, with the instance as it was then known.
func (c *Client) Delete(ctx context.Context, id compute.InstanceID) (Instance, error) {
	var out Instance
	err := c.call(ctx, http.MethodDelete, c.scoped(), nil, &out, "instances", string(id))
	return out, err
}

// Change asks for another name or other labels of an instance. It returns once the request cannot be lost, with the
// instance as it will be.
func (c *Client) Change(ctx context.Context, id compute.InstanceID, to compute.Change) (Instance, error) {
	var out Instance
	err := c.harmless(ctx, http.MethodPatch, c.scoped(), rest.FromChange(to), &out, "instances", string(id))
	return out, err
}

// Power asks to stop, start or reboot an instance. The id of the command is the
// caller's own, so that it may be repeated safely, and is. It returns once the
// request cannot be lost; Instance.Answer then says how it ended.
func (c *Client) Power(
	ctx context.Context, id compute.InstanceID, op compute.RequestOp, command compute.CommandID, hard bool,
) (PowerAsked, error) {
	var out PowerAsked
	ask := c.single
	if command != "" {
		ask = c.harmless
	}
	err := ask(ctx, http.MethodPost, c.scoped(), rest.PowerWish{Hard: hard, Command: command}, &out,
		"instances", string(id), op.String())
	return out, err
}

// Console reads at most limit bytes, 1 to compute.MaxConsole, of what a machine
// printed, from offset on; a negative offset counts back from the end.
func (c *Client) Console(ctx context.Context, id compute.InstanceID, offset int64, limit int) (Console, error) {
	var out Console
	q := c.scoped()
	q.Set("offset", strconv.FormatInt(offset, 10))
	q.Set("limit", strconv.Itoa(limit))
	err := c.call(ctx, http.MethodGet, q, nil, &out, "instances", string(id), "console")
	return out, err
}

// Filter says which instances to list. All that is set must apply.
type Filter struct {
	Project      compute.Project // empty: the client's
	States       []compute.State // empty: all but deleted
	All          bool            // deleted ones too
	Name         string          // exactly
	Host         compute.HostID
	Queue        compute.QueueName
	Flavor       compute.FlavorName
	Group        compute.GroupName // what was booted into it; an older node refuses it
	Labels       []string          // as compute.ParseSelector reads them
	IDs          []compute.InstanceID
	Ref          string   // what a person typed: an id, else a name, else the beginning of either
	Fresh        bool     // of what any node has accepted until now, to act upon; an older node refuses it
	Placeholders bool     // of reservations, too
	Fields       []string // of each instance, by their names in JSON; the id always comes; empty: all
}

// maxIDs is how many ids one request names; it keeps the address short.
const maxIDs = 200

// Instances lists the project's instances, oldest first. It asks for as many
// pages as there are; what changes meanwhile may show or not.
func (c *Client) Instances(ctx context.Context, f Filter) ([]Instance, error) {
	if len(f.IDs) <= maxIDs {
		return c.filtered(ctx, f)
	}
	var all []Instance
	for ids := range slices.Chunk(f.IDs, maxIDs) {
		f.IDs = ids
		some, err := c.filtered(ctx, f)
		if err != nil {
			return nil, err
		}
		all = append(all, some...)
	}
	return all, nil
}

func (c *Client) filtered(ctx context.Context, f Filter) ([]Instance, error) {
	return collect(c.InstancePages(ctx, f))
}

// InstancePages lists instances as Instances does, page by page, of at most 200 ids.
func (c *Client) InstancePages(ctx context.Context, f Filter) iter.Seq2[[]Instance, error] {
	return pages[Instance](ctx, c, f.query(c.scoped()), "instances")
}

// maxOnPage is the largest page that the API gives.
const maxOnPage = 1000

// walk asks for a whole list. It is never nil without an error.
func walk[T any](ctx context.Context, c *Client, query url.Values, list ...string) ([]T, error) {
	return collect(pages[T](ctx, c, query, list...))
}

// collect is what is on all pages.
func collect[T any](pages iter.Seq2[[]T, error]) ([]T, error) {
	all := []T{}
	for page, err := range pages {
		if err != nil {
			return nil, err
		}
		all = append(all, page...)
	}
	return all, nil
}

// pages asks for a list, page by page, until the last or an error.
func pages[T any](ctx context.Context, c *Client, query url.Values, list ...string) iter.Seq2[[]T, error] {
	return func(yield func([]T, error) bool) {
		query := maps.Clone(query)
		for {
			var page struct {
				Items []T    `json:"items"`
				Next  string `json:"next"`
			}
			err := c.call(ctx, http.MethodGet, query, nil, &page, list...)
			if !yield(page.Items, err) || err != nil || page.Next == "" {
				return
			}
			if query == nil {
				query = url.Values{}
			}
			query.Set("marker", page.Next)
		}
	}
}

func (f Filter) query(q url.Values) url.Values {
	if f.Project != "" {
		q.Set("project", string(f.Project))
	}
	for _, s := range f.States {
		q.Add("state", s.String())
	}
	if f.Placeholders {
		q.Set("placeholders", "true")
	}
	if f.Fresh {
		q.Set("fresh", "true")
	}
	for _, label := range f.Labels {
		q.Add("label", label)
	}
	for _, id := range f.IDs {
		q.Add("id", string(id))
	}
	if f.All {
		q.Set("all", "true")
	}
	for key, value := range map[string]string{
		"name": f.Name, "host": string(f.Host), "queue": string(f.Queue),
		"flavor": string(f.Flavor), "group": string(f.Group), "ref": f.Ref, "fields": strings.Join(f.Fields, ","),
	} {
		if value != "" {
			q.Set(key, value)
		}
	}
	return q
}
