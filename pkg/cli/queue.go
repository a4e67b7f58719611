// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"context"
	"fmt"
	"iter"
	"strconv"
	"time"

	"github.com/spf13/cobra"

	"github.com/berth-project/berth/pkg/client"
	"github.com/berth-project/berth/pkg/compute"
	"github.com/berth-project/berth/pkg/terminal"
)

func newQueue(s *settings) *cobra.Command {
	cmd := Group("queue", "Where work waits for hosts")
	cmd.AddCommand(newQueueList(s), newQueueShow(s))
	return cmd
}

func newQueueList(s *settings) *cobra.Command {
	cmd := newPagingQueues(s, "List queues with what waits in them", queuesNow)
	cmd.Long = "List queues by name, with what waits in them. " +
		"They are asked for a thousand at a time; -o name prints them as they come."
	return cmd
}

// newPagingQueues lists queues, of all flavors or of one.
func newPagingQueues(s *settings, short string, look func() Sheet[client.Queue]) *cobra.Command {
	var flavor string
	cmd := newPaging(s, short, look, func(ctx context.Context, c *client.Client) iter.Seq2[[]client.Queue, error] {
		return c.QueuePages(ctx, compute.FlavorName(flavor))
	})
	cmd.Flags().StringVar(&flavor, "flavor", "", "only this flavor's")
	return cmd
}

func newQueueShow(s *settings) *cobra.Command {
	return newShowing(
		s,
		"show NAME",
		"Show a queue",
		queuesNow,
		func(q client.Queue) []detail { return queueDetails(q, time.Now()) },
		func(ctx context.Context, c *client.Client, name string) (client.Queue, error) {
			return c.Queue(ctx, compute.QueueName(name))
		},
	)
}

// queuesNow shows queues with their ages as of now.
func queuesNow() Sheet[client.Queue] { return queueSheet(time.Now()) }

// told is a cell that is known only once the queue manager has said so.
func told(cell func(client.Queue) string) func(client.Queue) string {
	return func(q client.Queue) string {
		if q.Advice == nil {
			return ""
		}
		return cell(q)
	}
}

// hostsOf is a cell with one of the counts of hosts.
func hostsOf(count func(client.HostCounts) uint32) func(client.Queue) string {
	return func(q client.Queue) string {
		if q.Hosts == nil {
			return ""
		}
		return fmt.Sprint(count(*q.Hosts))
	}
}

func queueSheet(now time.Time) Sheet[client.Queue] {
	return Sheet[client.Queue]{
		Name: func(q client.Queue) string { return string(q.Name) },
		none: "No queues. berth flavor add makes some.",
		Columns: []Column[client.Queue]{
			{Title: "NAME", Cell: func(q client.Queue) string { return string(q.Name) }},
			{
				Title: "STATE",
				Cell:  func(q client.Queue) string { return q.State },
				tone:  func(q client.Queue) terminal.Tone { return ToneOf(q.State) },
			},
			{Title: "QUEUED", Right: true, Cell: func(q client.Queue) string { return strconv.Itoa(q.Queued) }},
			{
				Title: "OLDEST",
				Right: true,
				Cell: told(func(q client.Queue) string {
					if q.Queued == 0 {
						return "" // what its advice says was true until a moment ago
					}
					return age(q.Advice.Oldest, now)
				}),
			},
			{
				Title: "FIT NOW",
				Right: true,
				Cell:  hostsOf(func(c client.HostCounts) uint32 { return c.Eligible }),
			},
			{
				Title: "FULL",
				Right: true,
				Cell:  hostsOf(func(c client.HostCounts) uint32 { return c.Full }),
			},
			{
				Title: "NEVER FIT",
				Right: true,
				Cell:  hostsOf(func(c client.HostCounts) uint32 { return c.NeverFits }),
			},
			{Title: "NEEDS", wide: true, Cell: func(q client.Queue) string { return humanResources(q.Resources) }},
			{Title: "REQUIRES", wide: true, Cell: func(q client.Queue) string { return joined(q.Required) }},
			{Title: "ERROR", wide: true, Cell: func(q client.Queue) string { return q.Error }},
		},
	}
}

func queueDetails(q client.Queue, now time.Time) []detail {
	details := []detail{
		{"Name", string(q.Name)}, {"State", q.State}, {"Error", q.Error},
		{"Flavor", string(q.Flavor)}, {"With", choices(q.With)}, {"Priority", q.Priority},
		{"Needs", humanResources(q.Resources)},
		{"Requires", joined(q.Required)}, {"Forbids", joined(q.Forbidden)},
		{"Queued", Plural(q.Queued, "instance")}, {"Group", q.Group},
	}
	if h := q.Hosts; h != nil {
		details = append(details, detail{"Hosts", fmt.Sprintf("%d: %s", h.Total, h.Compute())})
	}
	a := q.Advice
	if a == nil {
		return append(details, detail{"Told", "the queue manager has not said anything yet"})
	}
	oldest := ""
	if !a.Oldest.IsZero() {
		oldest = "since " + age(a.Oldest, now)
	}
	return append(
		details,
		detail{"Unfinished", unfinished(a.Depth, a.Stray)},
		detail{"Oldest", oldest},
		detail{
			"Unrung",
			fmt.Sprintf(
				"%d of the %d that fit now wait, by lot",
				min(a.Wanted, uint64(a.Hosts.Eligible)),
				a.Hosts.Eligible,
			),
		},
		detail{"Told", age(a.At, now) + " ago"},
	)
}

// unfinished is "3 records", and how many there are beside them that no instance
// waits for.
func unfinished(depth, stray uint64) string {
	text := fmt.Sprintf("%d records", depth)
	if stray > 0 {
		text += fmt.Sprintf(", and %d that no instance waits for any more", stray)
	}
	return text
}
