// SPDX-License-Identifier: Apache-2.0

package measure

import (
	"github.com/spf13/cobra"

	"github.com/berth-project/berth/pkg/lab"
	"github.com/berth-project/berth/pkg/lab/bench"
)

// partCommand is how a bench with --apart starts its processes.
const partCommand = "part"

// benchPart is a process of a bench: the bench says over standard input what it is.
func benchPart(product lab.Product) *cobra.Command {
	return &cobra.Command{
		Use:    partCommand,
		Short:  "A part of berth bench --apart, which starts it; not for people",
		Hidden: true,
		Args:   cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return bench.ServePart(cmd.Context(), cmd.InOrStdin(), cmd.OutOrStdout(), cmd.ErrOrStderr(), product)
		},
	}
}
