// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"golang.org/x/sync/errgroup"

	"github.com/berth-project/berth/pkg/client"
	"github.com/berth-project/berth/pkg/compute"
)

// bootsAtOnce is how many requests are under way.
const bootsAtOnce = 16

// bootAsked is what became of the request for one machine; the zero value: it was not sent.
type bootAsked struct {
	booted client.Instance // as the API answered; no id: it did not
	err    error
}

// bootAll asks for all machines, several at once, and returns those that were accepted. After a request that fails none
// is sent any more. The answers of those under way are awaited: the API acts on them even if nobody listens. The ids
// are made here, so what became of each can be told.
func (f bootFlags) bootAll(
	ctx context.Context, c *client.Client, b compute.Boot, ids []compute.InstanceID, keys []string,
) ([]client.Instance, error) {
	all := make([]bootAsked, len(ids))
	group, going := errgroup.WithContext(ctx) // going ends with the first that fails, and is not that of the requests
	group.SetLimit(bootsAtOnce)
	for n, id := range ids {
		one := b
		if len(ids) > 1 {
			one.Name = numbered(b.Name, n+1)
		}
		group.Go(func() error {
			if going.Err() != nil {
				return nil // bootEnd says that it was not asked for
			}
			boot := func() (client.Instance, error) { return c.Boot(ctx, id, one) }
			if keys[n] != "" {
				boot = func() (client.Instance, error) { return c.BootUnder(ctx, keys[n], one) }
			}
			i, err := onceMore(ctx, boot)
			all[n] = bootAsked{i, err}
			return err
		})
	}
	return f.bootEnd(ctx, ids, all, group.Wait())
}

// bootEnd is which machines were accepted, and the error if these are not all. A request whose fate is open counts more
// than one that was refused: what it may have made is to be looked for.
func (f bootFlags) bootEnd(
	ctx context.Context, ids []compute.InstanceID, all []bootAsked, first error,
) (accepted []client.Instance, err error) {
	var open []compute.InstanceID
	var lost error
	sent := 0
	for n, a := range all {
		switch {
		case a.err == nil && a.booted.ID == "":
			continue
		case a.err == nil:
			accepted = append(accepted, a.booted)
		case isOpen(a.err):
			if open = append(open, ids[n]); lost == nil {
				lost = a.err
			}
		}
		sent++
	}
	switch {
	case len(accepted) == len(ids):
		return accepted, nil
	case ctx.Err() != nil && (first == nil || isOpen(first)):
		return accepted, calledOffBoot(sent, len(ids), len(open), f.openRemedy(open))
	case len(open) == 0:
		return accepted, first
	}
	err = openFate(lost, f.openRemedy(open))
	if !isOpen(first) {
		err = fmt.Errorf("%w; and another was refused: %v", err, first) // whose kind is not the answer's
	}
	return accepted, err
}

// bootSet asks for all machines in one request, of which all start or none.
func (f bootFlags) bootSet(
	ctx context.Context, c *client.Client, b compute.Boot, ids []compute.InstanceID, _ []string,
) ([]client.Instance, error) {
	if ctx.Err() != nil {
		return nil, calledOffBoot(0, len(ids), 0, "")
	}
	var set []compute.SetBoot
	for n, id := range ids {
		one := compute.SetBoot{Instance: id, Boot: b}
		one.Boot.Name = numbered(b.Name, n+1)
		set = append(set, one)
	}
	ask := func() ([]client.Instance, error) { return c.BootSet(ctx, set) }
	if f.key != "" {
		ask = func() ([]client.Instance, error) { return c.BootSetUnder(ctx, f.key, set) }
	}
	booted, err := onceMore(ctx, ask)
	switch {
	case !isOpen(err):
		return booted, err
	case ctx.Err() != nil:
		return nil, calledOffBoot(len(ids), len(ids), len(ids), f.openRemedy(ids[:1]))
	}
	return nil, openFate(err, f.openRemedy(ids[:1])) // what became of one became of all
}

// onceMore asks again where it is not known whether a request was kept: with its ids it stays one. If the second answer
// does not tell either, the first stays: that a node can do nothing now says nothing of the request before.
func onceMore[T any](ctx context.Context, ask func() (T, error)) (T, error) {
	out, err := ask()
	if compute.KindOf(err) != compute.KindTimeout || ctx.Err() != nil {
		return out, err
	}
	if again, failed := ask(); !passing(failed) {
		return again, failed
	}
	return out, err
}

// isOpen says that it is not known whether a request was kept: no answer came in time, or nobody waits for it any more.
func isOpen(err error) bool {
	return compute.KindOf(err) == compute.KindTimeout || errors.Is(err, context.Canceled)
}

// openFate is the error of a request whose fate is open, with how to find out.
func openFate(err error, remedy string) error {
	e := compute.Error{Cause: err}
	var said *compute.Error
	if errors.As(err, &said) {
		e = *said
	}
	e.Kind, e.Remedy = compute.KindTimeout, remedy
	return &e
}

// openRemedy tells how to find out about requests whose fate is open. Only one machine can be asked for with an id.
func (f bootFlags) openRemedy(open []compute.InstanceID) string {
	if len(open) == 0 {
		return ""
	}
	remedy := "it may have been kept: see berth show " + string(open[0])
	if f.atomic {
		remedy = "the set may have been kept: see berth show " + string(open[0]) + ", its first"
	}
	if len(open) > 1 {
		remedy = fmt.Sprintf("%d may have been kept: see berth show of each of %s", len(open), joined(open))
	}
	switch {
	case f.key != "":
		remedy += ", or repeat it as it was"
	case f.count == 1:
		remedy += ", or repeat it with --id " + string(open[0])
	}
	return remedy
}

// calledOffBoot is the error of a boot that was called off before all was asked for.
func calledOffBoot(sent, all, open int, remedy string) error {
	said := []string{"the boot was called off: nothing was asked for"}
	if sent > 0 {
		said[0] = fmt.Sprintf("the boot was called off: %d of %d were asked for", sent, all)
	}
	if open > 0 {
		said = append(said, fmt.Sprintf("but of %d it is not known", open))
	}
	return &compute.Error{Kind: compute.KindInternal, Message: strings.Join(said, ", "), Remedy: remedy}
}
