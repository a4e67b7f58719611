// SPDX-License-Identifier: Apache-2.0

package sim

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"time"

	"github.com/berth-project/berth/pkg/client"
	"github.com/berth-project/berth/pkg/compute"
	"github.com/berth-project/berth/pkg/lab/sim/judge"
	"github.com/berth-project/berth/pkg/lab/sim/schedule"
	"github.com/berth-project/berth/pkg/wire/rest"
)

// accepted asks, right after a boot was accepted, what has to hold then: each other API
// node knows the instance, and its key belongs to this boot, on any node, in this project.
func (c *clients) accepted(l schedule.Load, id compute.InstanceID) {
	n := (l.Node + 1) % c.play.World.Nodes
	say := func(what string) {
		if what != "" {
			c.play.rec.AddViolation(
				"API",
				id,
				"%s was accepted by node %d, and then, by node %d, %s",
				l.Name,
				l.Node+1,
				n+1,
				what,
			)
		}
	}
	if n != l.Node {
		ctx, cancel := context.WithTimeout(c.play.ours.Life, askTime)
		defer cancel()
		got, err := c.as(n, l.Project).Instance(ctx, id)
		say(shownElsewhere(l, got, err))
	}
	if l.Own != "key" {
		return
	}
	again, b := l, *l.Boot
	again.Node, b.Name = n, l.Name
	got, err := c.oneTry(again, b)
	say(sameBody(id, got, err))
	b.Image += "-other"
	got, err = c.oneTry(again, b)
	say(otherBody(got, err))
	again.Project, b.Flavor, b.With = "green", "m1.none", nil
	got, err = c.oneTry(again, b)
	say(otherProject(got, err))
}

// oneTry boots with a key, once.
func (c *clients) oneTry(l schedule.Load, b compute.Boot) (compute.InstanceID, error) {
	ctx, cancel := context.WithTimeout(c.play.ours.Life, askTime)
	defer cancel()
	out, err := c.keyed(ctx, l, b)
	return out.ID, err
}

// The following say what is wrong with an answer; empty: nothing. A node that cannot
// answer now may say so.

// shownElsewhere is about another node that is asked for the instance.
func shownElsewhere(l schedule.Load, got client.Instance, err error) string {
	switch kind := compute.KindOf(err); {
	case err != nil && kind == compute.KindNotFound:
		return fmt.Sprintf("is not known: %v", err)
	case err != nil || got.State.Compute() == compute.StateDeleted: // perhaps before its boot was read
		return ""
	case got.Name != l.Name || got.Flavor != l.Boot.Flavor || got.Image != l.Boot.Image:
		return fmt.Sprintf("is shown as %s, flavor %s, image %q", got.Name, got.Flavor, got.Image)
	}
	return ""
}

// sameBody is about the same request with the same key.
func sameBody(id, got compute.InstanceID, err error) string {
	switch kind := compute.KindOf(err); {
	case err == nil && got != id:
		return fmt.Sprintf("repeated with its key, is %s", got)
	case kind == compute.KindConflict || kind == compute.KindNotFound:
		return fmt.Sprintf("repeated with its key, is refused: %v", err)
	}
	return ""
}

// otherBody is about another request with the same key.
func otherBody(got compute.InstanceID, err error) string {
	e := judge.Cause(err)
	switch {
	case err == nil:
		return fmt.Sprintf("its key is accepted with another image, as %s", got)
	case e != nil && e.Kind == compute.KindConflict && (e.Reason == nil || e.Reason.Code != compute.RequestDiffers):
		return fmt.Sprintf("its key is refused with another image, but not since that differs: %v", err)
	}
	return ""
}

// otherProject is about the same key in another project, where it is another one: what is
// refused there is the flavor.
func otherProject(got compute.InstanceID, err error) string {
	switch {
	case err == nil:
		return fmt.Sprintf("a flavor that is not there is accepted with its key in another project, as %s", got)
	case compute.KindOf(err) == compute.KindConflict:
		return fmt.Sprintf("its key is not free in another project: %v", err)
	}
	return ""
}

// listTime is how long a node may take until its lists are what the log says: it reads
// the log as fast as it can, and nothing changes any more.
const listTime = 20 * time.Second

// listing is a filter of a list, and what it lets through.
type listing struct {
	query url.Values
	wants func(compute.Instance) bool
}

// askLists compares the lists of each node, with filters and in pages of three, with the
// log, once nothing moves any more.
func (w *play) askLists() {
	for n := range w.World.Nodes {
		for _, p := range w.Projects() {
			for _, l := range w.listings(p) {
				w.compareList(n, p, l)
			}
		}
	}
}

func (w *play) listings(p compute.Project) []listing {
	live := func(i compute.Instance) bool { return i.State != compute.StateDeleted }
	list := []listing{
		{url.Values{"all": {"true"}}, func(compute.Instance) bool { return true }},
		{url.Values{}, live},
	}
	for _, s := range []compute.State{
		compute.StateQueued, compute.StateActive, compute.StateError, compute.StateDeleted,
	} {
		in := func(i compute.Instance) bool { return i.State == s }
		list = append(list, listing{url.Values{"state": {s.String()}}, in})
	}
	for _, i := range w.byID() {
		if i.Project != p {
			continue
		}
		by := func(key, value string, is func(compute.Instance) string) {
			if value != "" {
				wants := func(o compute.Instance) bool { return live(o) && is(o) == value }
				list = append(list, listing{url.Values{key: {value}}, wants})
			}
		}
		by("name", i.Boot.Name, func(o compute.Instance) string { return o.Boot.Name })
		by("host", string(i.Host), func(o compute.Instance) string { return string(o.Host) })
		by("queue", string(i.Queue), func(o compute.Instance) string { return string(o.Queue) })
		by("flavor", string(i.Boot.Flavor), func(o compute.Instance) string { return string(o.Boot.Flavor) })
		break // one of each is enough
	}
	return list
}

// compareList asks until the answer is right, for at most listTime.
func (w *play) compareList(n int, p compute.Project, l listing) {
	wrong := ""
	for end := time.Now().Add(listTime); time.Now().Before(end); {
		got, err := w.list(n, p, l.query)
		if wrong = w.rec.ListDiffers(got, p, l.wants); err != nil {
			wrong = err.Error()
		}
		if wrong == "" || !w.sleep(time.Second) {
			return
		}
	}
	w.rec.AddViolation("API", "", "the list %q of %s by node %d: %s", l.query.Encode(), p, n+1, wrong)
}

// list asks for a list page by page.
func (w *play) list(n int, p compute.Project, q url.Values) (all []rest.Instance, err error) {
	q = maps.Clone(q)
	q.Set("project", string(p))
	q.Set("limit", "3")
	for {
		var page struct {
			Items []rest.Instance `json:"items"`
			Next  string          `json:"next"`
		}
		if err := w.clients.get("http://"+node(n)+"/v1/instances?"+q.Encode(), &page); err != nil {
			return all, err
		}
		if len(page.Items) > 3 {
			return all, fmt.Errorf("a page of 3 has %d", len(page.Items))
		}
		if all = append(all, page.Items...); page.Next == "" {
			return all, nil
		}
		q.Set("marker", page.Next)
	}
}

func (c *clients) get(address string, into any) error {
	ctx, cancel := context.WithTimeout(c.play.ours.Life, askTime)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, address, nil)
	if err != nil {
		return err
	}
	resp, err := c.http.Do(req)
	if err != nil {
		return err
	}
	defer func() { _ = resp.Body.Close() }() // it was read, or is of no use
	if resp.StatusCode != http.StatusOK {
		return fmt.Errorf("answered with %s", resp.Status)
	}
	return json.NewDecoder(resp.Body).Decode(into)
}
