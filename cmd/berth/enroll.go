// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"

	"github.com/spf13/cobra"

	"github.com/berth-project/berth/pkg/cli"
	"github.com/berth-project/berth/pkg/compute"
	"github.com/berth-project/berth/pkg/hostkey"
)

// newEnroll derives hosts' keys. It talks to nobody.
func newEnroll() *cobra.Command {
	var masters string
	cmd := &cobra.Command{
		Use:   "enroll HOST... --masters FILE",
		Short: "Print the key with which a host's agent signs what it says",
		Long: `Print the key of each host, a line each, for the file that host_key_file of its agent names. It is
derived from the newest master and always the same, so a lost one is printed again. It talks to
nobody: run it where the masters are, which are those of hosts.masters of conductors and queue
managers.

The key is secret. The agent's file must be readable by the agent alone (chmod 600).`,
		Example: "  openssl rand -hex 32 > masters && chmod 600 masters\n" +
			"  berth host enroll rack1-07 --masters masters | ssh root@rack1-07 'umask 077; cat > /etc/berth/host.key'",
		Args: cobra.MinimumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if _, err := cli.ParseFormat(cmd.Flag("output").Value.String()); err != nil {
				return err
			}
			if masters == "" {
				return compute.Invalid("masters", "", "name the file or folder of hosts.masters")
			}
			all, err := hostkey.LoadMasters("masters", masters)
			if err != nil {
				return err
			}
			for _, arg := range args {
				if err := compute.HostID(arg).Check(); err != nil {
					return err
				}
			}
			for _, arg := range args {
				key := all[len(all)-1].Derive(compute.HostID(arg))
				if _, err := fmt.Fprintln(cmd.OutOrStdout(), key.Line()); err != nil {
					return err
				}
			}
			return nil
		},
	}
	cmd.Flags().StringVar(&masters, "masters", "", "file or folder of masters, as in hosts.masters")
	return cmd
}
