// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/berth-project/berth/pkg/cell"
	"github.com/berth-project/berth/pkg/cli"
	"github.com/berth-project/berth/pkg/compute"
	"github.com/berth-project/berth/pkg/kafka/access"
	"github.com/berth-project/berth/pkg/verify"
)

// errUnsound is the answer of a comparison that has said what differs.
var errUnsound = errors.New("something differs that should not: see above")

func newVerify() *cobra.Command {
	var at kafkaFlags
	var repair bool
	cmd := &cobra.Command{
		Use:   "verify [--kafka HOST:PORT,… | --config FILE] [--repair]",
		Short: "Compare the log with the hosts and the quotas, and explain every difference",
		Long: `Read every instance, every host's last beacon, the queues and the quotas from Kafka, and say
where they contradict each other. What rests on a host's word is looked at twice, with a
beacon in between, so that a machine that just comes or goes is no difference. On brokers with
ACLs it needs a Kafka user of the role operator.

Without --repair it changes nothing. With it, every host whose word differs from the log is asked
about each machine that the log has there: what it does not know any more ends as HostLost, or is
built again if it never ran, and quota and room are right again. Nothing is destroyed by it. Where
conductors take signed requests alone (publish.trust: keys), it needs a file of an API node, whose
publish_key_file it signs with.

FAIL: something does not hold that always should, or nothing will put it right by itself.
warn: it explains itself, or passes. It exits with 1 if anything fails.`,
		Example: "  berth verify --config api.yaml\n  berth verify --kafka k1:9092 -o json",
		Args:    cobra.NoArgs,
		RunE: at.runs("verify", func(ctx context.Context, c cell.Cell, w io.Writer, f cli.Format) (err error) {
			c = c.As(access.Operator)
			if c.Partitions, err = c.CountPartitions(ctx); err != nil {
				return err
			}
			tally, found, err := c.Verify(ctx)
			if err != nil {
				return err
			}
			var asked []compute.HostID
			if repair {
				key, err := publishKey(at.publishKey)
				if err != nil {
					return err
				}
				if asked, err = c.Confirm(ctx, found, key); err != nil {
					return err
				}
			}
			return printVerify(w, f, tally, found, asked)
		}),
	}
	at.add(cmd, 5*time.Minute)
	cmd.Flags().BoolVar(&repair, "repair", false, "have the hosts that differ asked about each of their machines")
	return cmd
}

// compared is what a comparison says, as data.
type compared struct {
	Sound       bool                `json:"sound"`
	Compared    verify.Tally        `json:"compared"`
	Differences []verify.Difference `json:"differences"`
	Asked       []compute.HostID    `json:"asked,omitempty"` // by --repair: about each of their machines
}

// printVerify writes what differs; the error says that something fails.
func printVerify(
	w io.Writer,
	f cli.Format,
	tally verify.Tally,
	found []verify.Difference,
	asked []compute.HostID,
) error {
	var err error
	if f == cli.FormatJSON || f == cli.FormatYAML {
		err = cli.PrintData(w, f, compared{verify.Sound(found), tally, append([]verify.Difference{}, found...), asked})
	} else {
		_, err = io.WriteString(w, verifyText(tally, found, asked))
	}
	if err == nil && !verify.Sound(found) {
		err = errUnsound
	}
	return err
}

func verifyText(tally verify.Tally, found []verify.Difference, asked []compute.HostID) string {
	var b strings.Builder
	fails := 0
	for _, d := range found {
		if d.Level == verify.Fail {
			fails++
		}
		fmt.Fprintf(&b, "%s  %s: %s, wanted %s\n      %s\n      → %s\n", d.Level, d.About, d.Says, d.Want, d.Why, d.Fix)
	}
	if len(found) > 0 {
		b.WriteString("\n")
	}
	fmt.Fprintf(&b, "Compared %d instances (%s) with %d hosts and the quotas of %d projects: %d fail, %d warnings\n",
		tally.Instances, cli.OrDash(cli.ByState(tally.States)), tally.Hosts, tally.Projects, fails, len(found)-fails)
	for _, key := range slices.Sorted(maps.Keys(tally.Sealed)) {
		fmt.Fprintf(&b, "Key %s of user data is needed by %d of them\n", key, tally.Sealed[key])
	}
	for _, h := range asked {
		fmt.Fprintf(&b, "%s is asked about each of its machines; look again in a minute\n", h)
	}
	return b.String()
}
