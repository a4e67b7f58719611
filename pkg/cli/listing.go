// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"context"
	"iter"

	"github.com/spf13/cobra"

	"github.com/berth-project/berth/pkg/client"
)

// newListing is the command that lists all there is of one kind.
func newListing[T any](
	s *settings,
	short string,
	look func() Sheet[T],
	ask func(context.Context, *client.Client) ([]T, error),
) *cobra.Command {
	return newPaging(s, short, look, func(ctx context.Context, c *client.Client) iter.Seq2[[]T, error] {
		return func(yield func([]T, error) bool) { yield(ask(ctx, c)) }
	})
}

// newPaging is newListing of a kind of which there may be very many, so that they
// are asked for page by page.
func newPaging[T any](
	s *settings,
	short string,
	look func() Sheet[T],
	ask func(context.Context, *client.Client) iter.Seq2[[]T, error],
) *cobra.Command {
	var by string
	cmd := &cobra.Command{
		Use: "list", Aliases: []string{"ls"}, Short: short, Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			c, out, err := s.open()
			if err != nil {
				return err
			}
			defer c.Close()
			return look().pages(cmd.OutOrStdout(), out, by, ask(cmd.Context(), c))
		},
	}
	sortFlag(cmd, &by)
	return cmd
}

func sortFlag(cmd *cobra.Command, by *string) {
	cmd.Flags().StringVar(by, "sort-by", "",
		"order by a column, as in --sort-by age; with - before it the other way round")
}

// newShowing is the command that shows one thing by its name.
func newShowing[T any](
	s *settings,
	use, short string,
	look func() Sheet[T],
	details func(T) []detail,
	ask func(context.Context, *client.Client, string) (T, error),
) *cobra.Command {
	return &cobra.Command{
		Use: use, Short: short, Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			c, out, err := s.open()
			if err != nil {
				return err
			}
			defer c.Close()
			item, err := ask(cmd.Context(), c, args[0])
			if err != nil {
				return err
			}
			return look().one(cmd.OutOrStdout(), out, item, details)
		},
	}
}
