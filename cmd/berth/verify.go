package main

import (
	"context"
	"errors"
	"io"
	"time"

	"github.com/spf13/cobra"

	"github.com/berth-project/berth/pkg/cell"
	"github.com/berth-project/berth/pkg/cli"
	"github.com/berth-project/berth/pkg/compute"
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
beacon in between, so that a machine that just comes or goes is no difference.

Without --repair it changes nothing. With it, every host whose word differs from the log is asked
about each machine that the log has there: what it does not know any more ends as HostLost, or is
built again if it never ran, and quota and room are right again. Nothing is destroyed by it.

FAIL: something does not hold that always should, or nothing will put it right by itself.
warn: it explains itself, or passes. It exits with 1 if anything fails.`,
		Example: "  berth verify --config api.yaml\n  berth verify --kafka k1:9092 -o json",
		Args:    cobra.NoArgs,
		RunE: at.runs("verify", func(ctx context.Context, c cell.Cell, w io.Writer, f cli.Format) (err error) {
			if c.Partitions, err = c.CountPartitions(ctx); err != nil {
				return err
			}
			tally, found, err := c.Verify(ctx)
			if err != nil {
				return err
			}
			var asked []compute.HostID
			if repair {
				if asked, err = c.Confirm(ctx, found); err != nil {
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
