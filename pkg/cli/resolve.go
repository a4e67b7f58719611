// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"context"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/berth-project/berth/pkg/client"
	"github.com/berth-project/berth/pkg/compute"
)

// resolve finds the one instance that is meant, for commands that only look: the beginning of a
// name or an id will do. If it may be several, it lists them and refuses.
func resolve(ctx context.Context, c *client.Client, candidates io.Writer, ref string) (client.Instance, error) {
	return only(ctx, c, candidates, client.Filter{Ref: ref})
}

// only finds the one instance that a filter's ref means.
func only(ctx context.Context, c *client.Client, candidates io.Writer, f client.Filter) (client.Instance, error) {
	ref := f.Ref
	if ref == "" { // the API would take it for no filter
		return client.Instance{}, compute.Invalid("instance", "", "give a name or an id")
	}
	found, err := c.Instances(ctx, f)
	if err != nil {
		return client.Instance{}, err
	}
	switch len(found) {
	case 0:
		return client.Instance{}, compute.NotFound(
			"instance",
			ref,
			"berth list shows those of project "+string(c.Project()),
		)
	case 1:
		return found[0], nil
	}
	if err := candidateSheet().List(candidates, FormatTable, found); err != nil {
		return client.Instance{}, err
	}
	return client.Instance{}, ambiguous(ref, found, "give more of its id or name")
}

// targets finds the instances that a command ends or changes. Each is named by its
// whole name or id: what else begins so changes as others come and go. Beginnings
// are taken only if the caller said so (--prefix), and two of them never mean the
// same instance. A word that is given again counts once. With an error nothing is to be done to any.
//
// An API node that lags may know a name as that of an instance which is gone, or was renamed, and not as that of the
// next one: it is to read first what others have accepted.
func targets(
	ctx context.Context, c *client.Client, candidates io.Writer, refs []string, prefix bool,
) (out []client.Instance, err error) {
	by := map[compute.InstanceID]string{}
	for n, ref := range refs {
		if slices.Contains(refs[:n], ref) {
			continue
		}
		i, err := target(ctx, c, candidates, ref, prefix)
		if err != nil {
			return nil, err
		}
		if before, twice := by[i.ID]; twice {
			return nil, compute.Conflict("instance", ref, "means the same instance as "+before+": "+i.Name,
				"name each instance once")
		}
		by[i.ID], out = ref, append(out, i)
	}
	return out, nil
}

func target(
	ctx context.Context, c *client.Client, candidates io.Writer, ref string, prefix bool,
) (client.Instance, error) {
	f := client.Filter{Ref: ref, Fresh: true}
	if prefix || ref == "" {
		return only(ctx, c, candidates, f)
	}
	found, err := c.Instances(ctx, f) // ids, else names, else beginnings: all are of one kind
	if err != nil {
		return client.Instance{}, err
	}
	exact := func(i client.Instance) bool { return i.Name == ref || string(i.ID) == ref }
	if len(found) == 1 && exact(found[0]) {
		return found[0], nil
	}
	if len(found) > 0 {
		if err := candidateSheet().List(candidates, FormatTable, found); err != nil {
			return client.Instance{}, err
		}
	}
	switch {
	case len(found) == 0:
		return client.Instance{}, compute.NotFound(
			"instance",
			ref,
			"berth list shows those of project "+string(c.Project()),
		)
	case exact(found[0]):
		return client.Instance{}, ambiguous(ref, found, "give the whole id of one")
	}
	e := compute.NotFound("instance", ref,
		"give a whole name or a whole id; --prefix takes the one whose name or id begins so")
	e.Message = "does not exist; so begins " + firstNames(found)
	return client.Instance{}, e
}

// ambiguous says that a word may mean several.
func ambiguous(ref string, found []client.Instance, remedy string) error {
	return compute.Conflict("instance", ref, fmt.Sprintf("may mean %d instances", len(found)), remedy)
}

// firstNames is the names of a few.
func firstNames(found []client.Instance) string {
	const most = 3
	var names []string
	for _, i := range found {
		name := Printable(i.Name)
		if name == "" {
			name = shortID(i.ID)
		}
		names = append(names, name)
	}
	slices.Sort(names)
	if len(names) > most {
		names = append(names[:most], fmt.Sprintf("and %d more", len(found)-most))
	}
	return strings.Join(names, ", ")
}

// candidateSheet lists instances with their whole ids, to be copied from.
func candidateSheet() Sheet[client.Instance] {
	s := instanceSheet(time.Now())
	for n, c := range s.Columns {
		if c.Title == "ID" {
			s.Columns[n].Cell = func(i client.Instance) string { return string(i.ID) }
		}
	}
	return s
}

// prefixFlag lets a command that ends or changes instances take beginnings.
func prefixFlag(cmd *cobra.Command, prefix *bool) {
	cmd.Flags().BoolVar(
		prefix,
		"prefix",
		false,
		"take the beginning of a name or an id, if only one instance begins so",
	)
}
