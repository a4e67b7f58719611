package main

import (
	"context"

	"github.com/spf13/cobra"

	"github.com/berth-project/berth/pkg/client"
)

// newListing is the command that lists all there is of one kind.
func newListing[T any](s *settings, short string, look func() sheet[T], ask func(context.Context, *client.Client) ([]T, error)) *cobra.Command {
	return &cobra.Command{
		Use: "list", Aliases: []string{"ls"}, Short: short, Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			c, out, err := s.open()
			if err != nil {
				return err
			}
			defer c.Close()
			items, err := ask(cmd.Context(), c)
			if err != nil {
				return err
			}
			return look().list(cmd.OutOrStdout(), out, items)
		},
	}
}

// newShowing is the command that shows one thing by its name.
func newShowing[T any](s *settings, use, short string, look func() sheet[T], details func(T) []detail, ask func(context.Context, *client.Client, string) (T, error)) *cobra.Command {
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
