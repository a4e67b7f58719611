// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"os"

	"github.com/spf13/cobra"
	"github.com/spf13/cobra/doc"
)

// NewManual writes a manual page for every command. Packages carry them, so only
// the release calls it.
func NewManual() *cobra.Command {
	return &cobra.Command{
		Use:    "manual FOLDER",
		Short:  "Write the manual pages of all commands into a folder",
		Hidden: true,
		Args:   cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := os.MkdirAll(args[0], 0o755); err != nil { // #nosec G301 -- everybody may read a manual
				return err
			}
			root := cmd.Root()
			root.DisableAutoGenTag = true // it would name the day of the build, and two builds would differ
			return doc.GenManTree(root, &doc.GenManHeader{Section: "1", Source: "Berth", Manual: "Berth"}, args[0])
		},
	}
}
