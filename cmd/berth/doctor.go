package main

import (
	"context"
	"errors"
	"io"
	"time"

	"github.com/spf13/cobra"

	"github.com/berth-project/berth/pkg/cell"
	"github.com/berth-project/berth/pkg/cli"
)

// errUnwell is the answer of a doctor who has said what fails.
var errUnwell = errors.New("something fails: see above")

func newDoctor() *cobra.Command {
	var at kafkaFlags
	var text string
	var heap int64
	cmd := &cobra.Command{
		Use:   "doctor [--kafka HOST:PORT,… | --config FILE]",
		Short: "Examine Kafka and the cell on it, and say what to do",
		Long: `Look at the brokers, their settings, the cell's topics, the share state of every queue, and
whether conductors, queue managers and hosts are there. It changes nothing.

FAIL: something does not work, or what was acknowledged can be lost. warn: it works, and
slower or with less reserve than it should. It exits with 1 if anything fails.`,
		Example: "  berth doctor --config api.yaml\n  berth doctor --kafka k1:9092 -o json",
		Args:    cobra.NoArgs,
		RunE: at.runs("doctor", func(ctx context.Context, c cell.Cell, w io.Writer, f cli.Format) error {
			facts, err := c.Facts(ctx)
			if err != nil {
				return err
			}
			facts.Heap = heap
			return printDoctor(w, f, facts)
		}),
	}
	cmd.PreRunE = func(*cobra.Command, []string) (err error) { // before Kafka is asked
		if text != "" {
			heap, err = cli.ParseMemory("broker-heap", text)
		}
		return err
	}
	cmd.Flags().StringVar(&text, "broker-heap", "", "the heap of each broker (-Xmx), as in 4GiB: no broker tells it")
	at.add(cmd, time.Minute)
	return cmd
}
