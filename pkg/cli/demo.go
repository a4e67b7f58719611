// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/spf13/cobra"

	"github.com/berth-project/berth/pkg/client"
	"github.com/berth-project/berth/pkg/compute"
	"github.com/berth-project/berth/pkg/service"
)

// Starter runs a whole Berth with so many simulated hosts while use does, and stops it
// afterwards. use gets the API's address.
type Starter func(ctx context.Context, hosts int, use func(ctx context.Context, address string) error) error

// NewDemo is a tour of Berth in one process and half a minute.
func NewDemo(start Starter) *cobra.Command {
	return &cobra.Command{
		Use:   "demo",
		Short: "Show it: 20 simulated hosts, 100 machines, everything in this process",
		Long: `demo starts a whole Berth in this process, on an embedded broker and 20 simulated
hosts, boots 100 machines, shows what is refused and why, deletes half, and ends.
Nothing is left behind. "berth dev" starts the same and stays up.`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return start(cmd.Context(), demoHostCount, func(ctx context.Context, address string) error {
				return tour(ctx, cmd.OutOrStdout(), address)
			})
		},
	}
}

// demo is the tour's state: its client of the API and where it prints.
type demo struct {
	out    io.Writer
	screen *progress
	users  map[compute.Project]*client.Client
	api    string
}

// tour is the demo from the first flavor to the last quota.
func tour(ctx context.Context, out io.Writer, address string) error {
	d := &demo{out: out, screen: newProgress(out), users: map[compute.Project]*client.Client{}, api: address}
	defer d.close()
	began := time.Now()
	for _, step := range []func(context.Context) error{
		d.offer, d.bootMany, d.exceedQuota, d.neverFit, d.deleteHalf,
	} {
		if err := step(ctx); err != nil {
			return err
		}
	}
	fmt.Fprintf(
		out,
		"\nDone in %s. \"berth dev\" starts the same and stays up; \"berth --help\" shows the rest.\n",
		time.Since(began).Round(100*time.Millisecond),
	)
	return nil
}

// as is the client of a project.
func (d *demo) as(p compute.Project) (*client.Client, error) {
	if c, ok := d.users[p]; ok {
		return c, nil
	}
	c, err := client.New(client.Config{Address: d.api, Project: p, Timeout: 30 * time.Second})
	if err == nil {
		d.users[p] = c
	}
	return c, err
}

func (d *demo) close() {
	for _, c := range d.users {
		c.Close()
	}
}

// title begins a part of the tour.
func (d *demo) title(format string, args ...any) {
	fmt.Fprintf(d.out, "\n▸ "+format+"\n", args...)
}

// await asks until done says so; what it answers shows on the progress line.
func (d *demo) await(
	ctx context.Context,
	what string,
	done func(context.Context) (line string, ok bool, err error),
) error {
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	for {
		line, ok, err := done(ctx)
		if err != nil {
			return err
		}
		d.screen.show(line)
		if ok {
			d.screen.keep()
			return nil
		}
		if !service.Sleep(ctx, 50*time.Millisecond) {
			return &compute.Error{
				Op:      what,
				Kind:    compute.KindTimeout,
				Message: "did not happen within a minute: " + line,
				Cause:   context.Cause(ctx),
			}
		}
	}
}

// offer adds what the operator of this cloud offers.
func (d *demo) offer(ctx context.Context) error {
	c, err := d.as(demoProject)
	if err != nil {
		return err
	}
	d.title("The operator adds capabilities and flavors; Berth makes a queue for every permutation")
	for _, axis := range demoCapabilities() {
		if _, err := c.AddCapability(ctx, axis, false); err != nil {
			return err
		}
		fmt.Fprintf(d.out, "  capability %-4s %s\n", axis.Axis, valueNames(axis))
	}
	for _, f := range demoFlavors() {
		change, err := c.AddFlavor(ctx, f, false)
		if err != nil {
			return err
		}
		fmt.Fprintf(
			d.out,
			"  flavor     %-9s %-30s +%s\n",
			f.Name,
			humanResources(f.Resources),
			Plural(change.Added, "queue"),
		)
	}
	for _, q := range demoQuotas() {
		if _, err := c.SetQuota(ctx, q); err != nil {
			return err
		}
		fmt.Fprintf(d.out, "  quota      %-9s %s\n", q.Project, q.Limits)
	}
	return d.await(ctx, "queues", func(ctx context.Context) (string, bool, error) {
		open, wanted, err := countQueues(ctx, c)
		hosts, err2 := c.Hosts(ctx)
		line := fmt.Sprintf("  %d of %d queues open, %d hosts heard", open, wanted, len(hosts))
		return line, open == wanted && len(hosts) == demoHostCount, errors.Join(err, err2)
	})
}

func countQueues(ctx context.Context, c *client.Client) (open, wanted int, err error) {
	flavors, err := c.Flavors(ctx)
	for _, f := range flavors {
		open += f.Queues.Open
		wanted += f.Queues.Wanted
	}
	return open, wanted, err
}

// bootMany boots the hundred machines and shows where they went.
func (d *demo) bootMany(ctx context.Context) error {
	c, err := d.as(demoProject)
	if err != nil {
		return err
	}
	boots := demoBoots()
	d.title("A user boots %d machines", len(boots))
	began := time.Now()
	for i, b := range boots {
		b.Name = fmt.Sprintf("vm-%03d", i+1)
		if _, err := c.Boot(ctx, "", b); err != nil {
			return err
		}
	}
	var all []client.Instance
	err = d.await(ctx, "boots", func(ctx context.Context) (string, bool, error) {
		all, err = c.Instances(ctx, client.Filter{})
		n := countStates(all)
		line := fmt.Sprintf(
			"  %s %3d active, %d starting, %d queued, %d error  (%s)",
			bar(n["active"], len(boots)),
			n["active"],
			n["starting"],
			n["queued"]+n["accepted"],
			n["error"],
			time.Since(began).Round(10*time.Millisecond),
		)
		return line, n["active"]+n["error"] == len(boots), err
	})
	if err != nil {
		return err
	}
	fmt.Fprintln(d.out)
	return printPlaces(d.out, all)
}

// exceedQuota boots one machine more than the project may have.
func (d *demo) exceedQuota(ctx context.Context) error {
	c, err := d.as(demoProject)
	if err != nil {
		return err
	}
	d.title("One more than the quota allows")
	inst, err := c.Boot(ctx, "", compute.Boot{Name: "one-too-many", Flavor: "m1.tiny"})
	if err != nil {
		return err
	}
	err = d.await(ctx, "refusal", func(ctx context.Context) (string, bool, error) {
		inst, err = c.Instance(ctx, inst.ID)
		return "  " + describe(inst), inst.State.Compute() == compute.StateError, err
	})
	return err
}

// neverFit boots one that no host can ever hold, and gives up.
func (d *demo) neverFit(ctx context.Context) error {
	c, err := d.as(bigProject)
	if err != nil {
		return err
	}
	d.title("One that no host can ever hold")
	inst, err := c.Boot(ctx, "", compute.Boot{Name: "whale", Flavor: "m1.whale"})
	if err != nil {
		return err
	}
	err = d.await(ctx, "reason", func(ctx context.Context) (string, bool, error) {
		inst, err = c.Instance(ctx, inst.ID)
		return "  " + describe(inst), inst.Waiting != nil && inst.Waiting.Code == compute.NeverFits, err
	})
	if err != nil {
		return err
	}
	if _, err = c.Delete(ctx, inst.ID); err != nil {
		return err
	}
	return d.await(ctx, "delete", func(ctx context.Context) (string, bool, error) {
		inst, err = c.Instance(ctx, inst.ID)
		if err != nil || inst.State.Compute() != compute.StateDeleted {
			return "  called off", false, err
		}
		return "  called off: " + describe(inst), true, nil
	})
}

// deleteHalf deletes every other machine and shows the quota coming back.
func (d *demo) deleteHalf(ctx context.Context) error {
	c, err := d.as(demoProject)
	if err != nil {
		return err
	}
	all, err := c.Instances(ctx, client.Filter{States: []compute.State{compute.StateActive}})
	if err != nil {
		return err
	}
	d.title("Delete half of them; the quota comes back")
	if err := d.showUsage(ctx, c, "before"); err != nil {
		return err
	}
	for i := 0; i < len(all); i += 2 {
		if _, err := c.Delete(ctx, all[i].ID); err != nil {
			return err
		}
	}
	left := len(all) - (len(all)+1)/2
	err = d.await(ctx, "deletes", func(ctx context.Context) (string, bool, error) {
		now, err := c.Instances(ctx, client.Filter{States: []compute.State{compute.StateActive, compute.StateDeleting}})
		n := countStates(now)
		return fmt.Sprintf("  %d active, %d deleting", n["active"], n["deleting"]), len(now) == left, err
	})
	if err != nil {
		return err
	}
	return d.showUsage(ctx, c, "after")
}
