// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"
	"os"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/term"

	"github.com/berth-project/berth/cmd/berth/top"
	"github.com/berth-project/berth/pkg/cli"
	"github.com/berth-project/berth/pkg/compute"
)

func newTop() *cobra.Command {
	var every time.Duration
	cmd := &cobra.Command{
		Use:   "top",
		Short: "Show queues and hosts live, in this terminal",
		Long: `top shows queues, what waits in them, and hosts, and asks the API node again and again. Tab goes from queues to
hosts, s changes the order, arrows scroll, q ends it.`,
		Example: "  berth top\n  berth top --every 500ms --api http://api-1:7070",
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if every < 100*time.Millisecond || every > time.Hour {
				return compute.Invalid("every", every.String(), "give a time from 100ms to 1h")
			}
			out, is := cmd.OutOrStdout().(*os.File)
			if !is || !term.IsTerminal(int(out.Fd())) {
				return fmt.Errorf("top draws on a terminal, and its output is none: berth queue list and berth host list " +
					"print what it shows")
			}
			c, err := cli.Dial(cmd)
			if err != nil {
				return err
			}
			defer c.Close()
			return top.Run(cmd.Context(), top.Options{
				API: cmd.Flag("api").Value.String(), Every: every, In: cmd.InOrStdin(), Out: out,
				Look: func(ctx context.Context) (top.Cell, error) { return top.Look(ctx, c) },
			})
		},
	}
	cmd.Flags().DurationVar(&every, "every", 2*time.Second, "how often the API node is asked")
	return cmd
}
