// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"io"
	"time"

	"github.com/spf13/cobra"

	"github.com/berth-project/berth/pkg/cell"
	"github.com/berth-project/berth/pkg/cli"
	"github.com/berth-project/berth/pkg/client"
	"github.com/berth-project/berth/pkg/wire/rest"
)

// newTokenBootstrap makes the first admin's token, with which the others are made.
func newTokenBootstrap() *cobra.Command {
	var at kafkaFlags
	var name, expires string
	cmd := &cobra.Command{
		Use:   "bootstrap --config api.yaml",
		Short: "Make the first admin's token, with an API node's own rights on Kafka",
		Long: `Make an admin's token and print it, this once. It is written to Kafka and needs no API node, so it works
before auth.tokens is set anywhere, and when every admin's token is lost. It takes what an API node has: its
settings, and its rights on Kafka. Whoever has those may do everything already.

It is in berth token list, and berth token revoke ends it.`,
		Example: "  berth token bootstrap --config api.yaml > first.token",
		Args:    cobra.NoArgs,
	}
	cmd.Flags().StringVar(&name, "name", "bootstrap", "what it is called in lists and logs")
	cmd.Flags().StringVar(&expires, "expires", "1d", "how long it counts, as in 1d or 12h")
	at.add(cmd, 20*time.Second)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		life, err := cli.ParseLife("expires", expires)
		if err != nil {
			return err
		}
		return at.runs("token", func(ctx context.Context, c cell.Cell, w io.Writer, f cli.Format) error {
			text, token, err := c.FirstToken(ctx, name, life)
			if err != nil {
				return err
			}
			made := client.NewToken{Token: rest.FromToken(token, time.Now()), Secret: text}
			return cli.PrintNewToken(w, cmd.ErrOrStderr(), f, made)
		})(cmd, args)
	}
	return cmd
}
