// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"context"
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/google/uuid"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/berth-project/berth/pkg/client"
	"github.com/berth-project/berth/pkg/compute"
)

// defaultWait is how long --wait waits if --timeout does not say.
const defaultWait = 10 * time.Minute

// bootFlags are the command line of boot.
type bootFlags struct {
	flavor, name, image, userData, onNoCapacity, host, id, key, group string
	priority, preemptible, reservation                                string
	with, labels, avoid, sshKeys                                      []string
	count                                                             int
	attempts                                                          uint32
	deadline, timeout, grace                                          time.Duration
	wait, dry, atomic                                                 bool
}

func newBoot(s *settings) *cobra.Command {
	var f bootFlags
	cmd := &cobra.Command{
		Use:   "boot --flavor FLAVOR --name NAME",
		Short: "Boot machines",
		Long: `Boot machines. Returns once the requests cannot be lost; with --wait, once the
machines run or have failed.

With --count N the names are NAME-1 to NAME-N; with --atomic none of them starts
unless each has a host, and all end if one fails. With --dry-run nothing is booted:
it says what would become of them, with --atomic as a set, refuses what a boot is
refused for, and exits with 4 if the quota keeps some out, with 5 if they would not
wait for room and there is none, and with 6 if you may not boot them.

A request whose answer is lost is repeated and still makes one machine. For the
same in a script that may run again, give --key: the same key and the same
flags answer the machine of the first time, whatever became of it.`,
		Example: `  berth boot --flavor m1.small --name web --count 3
  berth boot --flavor m1.small --with gpu=a100 --name train --wait --timeout 30s`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return runBoot(cmd, s, f) },
	}
	flags := cmd.Flags()
	flags.StringVar(&f.flavor, "flavor", "", "size of the machine")
	flags.StringVar(&f.name, "name", "", "what people call it")
	flags.StringArrayVar(&f.with, "with", nil, "a choice on a capability, as in gpu=a100; repeatable")
	flags.IntVar(&f.count, "count", 1, "how many")
	flags.BoolVar(&f.atomic, "atomic", false, "with --count: all of them start, or none")
	flags.DurationVar(&f.deadline, "deadline", 0, "how long it may wait for a host (default 1h)")
	flags.Uint32Var(&f.attempts, "attempts", 0, "most tries to build it (default 3)")
	flags.StringVar(&f.onNoCapacity, "on-no-capacity", "wait", "when no host takes it: wait or fail")
	flags.StringVar(&f.host, "host", "", "build it there and nowhere else")
	flags.StringArrayVar(&f.avoid, "avoid", nil, "never build it on this host; repeatable")
	flags.StringVar(&f.group, "group", "", "make it a member of this group, whose rule says where it may run")
	flags.StringVar(&f.reservation, "reservation", "",
		"give it the room that this reservation holds; its flavor and choices need not be given")
	flags.StringVar(&f.priority, "priority", "normal",
		"low, normal or high: which is served first where there is not room for all")
	flags.StringVar(&f.preemptible, "preemptible", "",
		"delete or requeue: it may be taken away for work of normal or high priority, and then is deleted, "+
			"or waits in its queue again; its priority is low")
	flags.DurationVar(&f.grace, "grace", compute.DefaultGrace, "with --preemptible: how long its guest has to stop, up to 10m")
	flags.StringVar(&f.image, "image", "", "image to boot (default: the driver's)")
	flags.StringArrayVar(&f.labels, "label", nil, "NAME=VALUE, by which lists select it and which its guest sees; repeatable")
	flags.SetNormalizeFunc(func(_ *pflag.FlagSet, name string) pflag.NormalizedName {
		if name == "metadata" { // as it was called
			name = "label"
		}
		return pflag.NormalizedName(name)
	})
	flags.StringVar(&f.userData, "user-data", "", "file with data for the first start")
	flags.StringArrayVar(
		&f.sshKeys,
		"ssh-key",
		nil,
		"file with public keys, as in authorized_keys, of those who may log in; repeatable",
	)
	flags.StringVar(&f.id, "id", "", "id of your own, so that a repeated request changes nothing")
	flags.StringVar(
		&f.key,
		"key",
		"",
		"any text of your own, for the same: an Idempotency-Key; with --count N, KEY-1 to KEY-N",
	)
	flags.BoolVar(&f.dry, "dry-run", false, "boot nothing: only say what would become of them")
	flags.BoolVar(&f.wait, "wait", false, "wait until the machines run or have failed")
	timeoutFlag(cmd, &f.timeout, defaultWait, "how long --wait waits; 0 waits for ever")
	return cmd
}

// boot is the request, as far as the command line alone can tell.
func (f bootFlags) boot(cmd *cobra.Command) (compute.Boot, error) {
	b := compute.Boot{Name: f.name, Flavor: compute.FlavorName(f.flavor), Image: f.image, Host: compute.HostID(f.host)}
	for _, needed := range []struct{ flag, value string }{{"flavor", f.flavor}, {"name", f.name}} {
		if needed.value == "" {
			return b, compute.Invalid(needed.flag, "", "give --"+needed.flag)
		}
	}
	switch {
	case f.count < 1 || f.count > compute.MaxBoots:
		return b, compute.Invalid("count", fmt.Sprint(f.count), fmt.Sprintf("give a number from 1 to %d", compute.MaxBoots))
	case f.atomic && (f.count < 2 || f.count > compute.MaxSet):
		return b, compute.Invalid("count", fmt.Sprint(f.count), fmt.Sprintf("give 2 to %d with --atomic", compute.MaxSet))
	case f.dry && f.reservation != "":
		return b, compute.Invalid("reservation", f.reservation,
			"leave out --dry-run: berth reservation show says what it holds")
	case f.atomic && f.reservation != "":
		return b, compute.Invalid("reservation", f.reservation, "leave out --atomic: each gets its room by itself")
	case f.id != "" && f.key != "":
		return b, compute.Invalid("key", f.key, "a key stands for an id: leave out --id")
	case len(f.key) > f.maxKey() || strings.ContainsFunc(f.key, func(r rune) bool { return r < ' ' || r > '~' }):
		return b, compute.Invalid("key", f.key, fmt.Sprintf("give at most %d printable ASCII characters", f.maxKey()))
	case f.count > 1 && f.id != "":
		return b, compute.Invalid("id", f.id, "an id names one machine: leave out --count")
	case cmd.Flags().Changed("deadline") && f.deadline <= 0:
		return b, compute.Invalid("deadline", f.deadline.String(), "give a duration above 0, as in 10m")
	case cmd.Flags().Changed("attempts") && f.attempts == 0:
		return b, compute.Invalid("attempts", "0", "give at least 1")
	}
	priority, err := compute.ParsePriority(f.priority)
	if err != nil {
		return b, err
	}
	b.Rules = compute.RulesOf(compute.GroupName(f.group), compute.Set{}, priority)
	if err := f.preempt(cmd, &b); err != nil {
		return b, err
	}
	if f.reservation != "" {
		b.Reserving(compute.ReservationName(f.reservation))
	}
	b.Deadline, b.Attempts = f.deadline, compute.Attempt(f.attempts)
	for _, h := range f.avoid {
		b.Avoid = append(b.Avoid, compute.HostID(h))
	}
	if b.OnNoCapacity, err = compute.ParseNoCapacity(f.onNoCapacity); err != nil {
		return b, err
	}
	if b.With, err = ParsePairs[compute.AxisName, compute.AxisValue]("with", f.with); err != nil {
		return b, err
	}
	if b.Metadata, err = ParsePairs[string, string]("label", f.labels); err != nil {
		return b, err
	}
	if f.userData != "" {
		data, err := os.ReadFile(f.userData)
		if b.UserData = compute.UserData(data); err != nil {
			return b, &compute.Error{
				Kind:    compute.KindInvalid,
				Field:   "user-data",
				Value:   f.userData,
				Message: "cannot be read",
				Cause:   err,
			}
		}
	}
	if b.SSHKeys, err = readKeys(f.sshKeys); err != nil {
		return b, err
	}
	return b, b.Check()
}

// preempt says whether the machine may be taken away.
func (f bootFlags) preempt(cmd *cobra.Command, b *compute.Boot) error {
	given := cmd.Flags().Changed
	switch {
	case f.preemptible == "" && given("grace"):
		return compute.Invalid("grace", f.grace.String(), "give it with --preemptible")
	case f.preemptible == "" && !given("preemptible"):
		return nil
	}
	p := compute.Preemptible{Grace: f.grace}
	var err error
	if p.Then, err = compute.ParseAfterwards(f.preemptible); err != nil {
		return err
	}
	if f.atomic {
		return p.CheckNoSet()
	}
	if _, err := compute.ClassOf(p, b.Priority(), given("priority")); err != nil {
		return err
	}
	b.Preempt(p)
	return nil
}

// readKeys reads files as authorized_keys is read: empty lines and comments count
// for nothing.
func readKeys(files []string) ([]string, error) {
	var keys []string
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			return nil, &compute.Error{
				Kind:    compute.KindInvalid,
				Field:   "ssh-key",
				Value:   file,
				Message: "cannot be read",
				Cause:   err,
			}
		}
		if strings.Contains(string(text), "PRIVATE KEY") { // it must not leave this machine
			return nil, compute.Invalid("ssh-key", file, "it holds a private key: give the file that ends in .pub")
		}
		before := len(keys)
		for line := range strings.Lines(string(text)) {
			if line = strings.TrimSpace(line); line != "" && !strings.HasPrefix(line, "#") {
				keys = append(keys, line)
			}
		}
		if len(keys) == before {
			return nil, compute.Invalid("ssh-key", file, "it holds no key: give a file of public keys")
		}
	}
	return keys, nil
}

// likeReservation gives the flavor and the choices that are not given: those of the reservation. A repeated boot has
// those of the first time: the reservation may be gone since, or its name that of another one.
func (f *bootFlags) likeReservation(ctx context.Context, c *client.Client) error {
	was, again, err := f.before(ctx, c)
	if err != nil {
		return err
	}
	flavor, with := was.Flavor, was.With
	if !again || flavor == "" { // what was deleted before it was ever booted has none
		v, err := c.Reservation(ctx, compute.ReservationName(f.reservation))
		if err != nil {
			return err
		}
		flavor, with = v.Flavor, v.With
	}
	f.flavor = string(flavor)
	if len(f.with) == 0 {
		for axis, value := range with {
			f.with = append(f.with, fmt.Sprintf("%s=%s", axis, value))
		}
	}
	return nil
}

// before finds what the same command booted before, by its key or id: of several one, since they are alike.
func (f *bootFlags) before(ctx context.Context, c *client.Client) (was client.Instance, again bool, err error) {
	if f.id == "" && f.key == "" || f.count < 1 || f.count > compute.MaxBoots {
		return was, false, nil
	}
	ids := f.ids(c.Project(), f.keys())
	was, err = c.Instance(ctx, ids[0])
	if err == nil || compute.KindOf(err) != compute.KindNotFound {
		return was, err == nil, err
	}
	if len(ids) == 1 {
		return was, false, nil
	}
	some, err := c.Instances(ctx, client.Filter{IDs: ids[1:], All: true}) // the first may have been refused
	if err != nil || len(some) == 0 {
		return was, false, err
	}
	return some[0], true, nil
}

func runBoot(cmd *cobra.Command, s *settings, f bootFlags) error {
	c, out, err := s.open()
	if err != nil {
		return err
	}
	defer c.Close()
	if f.reservation != "" && f.flavor == "" {
		if err := f.likeReservation(cmd.Context(), c); err != nil {
			return err
		}
	}
	b, err := f.boot(cmd)
	if err != nil {
		return err
	}
	if f.dry {
		return f.dryRun(cmd, c, out, b)
	}
	keys := f.keys()
	ids := f.ids(c.Project(), keys)
	var w *watch
	if f.wait {
		w = watchInstances(cmd.Context(), c, ids)
		defer w.close()
	}
	boot := f.bootAll
	if f.atomic {
		boot = f.bootSet
	}
	booted, err := boot(cmd.Context(), c, b, ids, keys)
	if err == nil && f.wait {
		booted, err = waitInstances(cmd.Context(), c, w, newLiveLine(cmd.ErrOrStderr()), f.timeout, ids, settled)
	}
	if len(booted) > 0 {
		if printed := instanceSheet(time.Now()).List(cmd.OutOrStdout(), out, booted); err == nil {
			err = printed
		}
	}
	if err != nil || !f.wait {
		return err
	}
	return firstFailure(booted)
}

// maxKey is the longest --key, in bytes: as long as the API takes one, and with
// --count less by what is put behind it.
func (f bootFlags) maxKey() int {
	if f.count > 1 {
		return 240
	}
	return 255
}

// numbered is the name of the n-th of several machines, from 1 on.
func numbered(name string, n int) string { return fmt.Sprintf("%s-%d", name, n) }

// nameOf is the name of the n-th machine.
func (f bootFlags) nameOf(name string, n int) string {
	if f.count == 1 {
		return name
	}
	return numbered(name, n)
}

// keys are those of each machine, empty without --key.
func (f bootFlags) keys() []string {
	keys := make([]string, f.count)
	for n := range keys {
		if keys[n] = f.key; f.key != "" && f.count > 1 {
			keys[n] = fmt.Sprintf("%s-%d", f.key, n+1)
		}
	}
	return keys
}

// ids are made here, so that a boot whose answer is lost can be asked for again
// and stays one machine.
func (f bootFlags) ids(p compute.Project, keys []string) []compute.InstanceID {
	ids := make([]compute.InstanceID, f.count)
	for n, key := range keys {
		switch {
		case f.id != "":
			ids[n] = compute.InstanceID(f.id)
		case key != "":
			ids[n] = client.KeyedID(p, key)
		default:
			ids[n] = compute.InstanceID(uuid.NewString())
		}
	}
	return ids
}

// settled says that a boot has come to an end, good or bad.
func settled(i client.Instance) bool {
	return i.State == "active" || i.State == "error" || i.State == "deleted"
}

// ofSet says whether an instance ended only because another of its set did.
func ofSet(i client.Instance) bool { return i.Reason == nil || i.Reason.Code == compute.SetFailed }

// firstFailure is the error for the first instance that does not run.
func firstFailure(all []client.Instance) error {
	failed, first := 0, client.Instance{}
	for _, i := range all {
		if i.State == "active" {
			continue
		}
		// what ended a whole set is more to the point than that it did
		if failed++; failed == 1 || first.Reason != nil && first.Reason.Code == compute.SetFailed && !ofSet(i) {
			first = i
		}
	}
	if failed == 0 {
		return nil
	}
	e := &compute.Error{
		Kind:   compute.KindInternal,
		Field:  "instance",
		Value:  first.Name,
		Reason: first.Reason.Compute(),
	}
	e.Message = fmt.Sprintf("ended as %s", first.State)
	if text := why(first); text != "" {
		e.Message += ": " + text
	}
	if len(all) > 1 {
		e.Message += fmt.Sprintf(" (%d of %d failed)", failed, len(all))
	}
	if first.Reason != nil {
		e.Kind = kindOfReason(first.Reason.Code)
	} else if first.State == "deleted" {
		e.Kind = compute.KindConflict
	}
	return e
}
