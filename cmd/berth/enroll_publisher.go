// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"

	"github.com/spf13/cobra"

	"github.com/berth-project/berth/pkg/cli"
	"github.com/berth-project/berth/pkg/compute"
	"github.com/berth-project/berth/pkg/hostkey"
	"github.com/berth-project/berth/pkg/publishkey"
)

// newPublisherEnroll derives a publisher's key. It talks to nobody.
func newPublisherEnroll() *cobra.Command {
	var masters, projects string
	cmd := &cobra.Command{
		Use:   "enroll NAME --projects PROJECT,…|* --masters FILE",
		Short: "Print the key with which a publisher signs its requests",
		Long: `Print the key of a publisher, a line for the file that publish_key_file of an API node names, or
that a program gives to pkg/publish. It is for requests of these projects and no others; an API
node's is for all of them ('*'), which fence, forget and confirm need too.

It is derived from the newest master, the name and the projects, and always the same, so a lost one
is printed again, and no list of publishers is kept. It talks to nobody: run it where the masters
are, which are those of publish.masters of conductors.

The key is secret. The file must be readable by the publisher alone (chmod 600).`,
		Example: "  openssl rand -hex 32 > masters && chmod 600 masters\n" +
			"  berth publisher enroll api-1 --projects '*' --masters masters > publish.key\n" +
			"  berth publisher enroll web-ci --projects web-shop,web-test --masters masters",
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if _, err := cli.ParseFormat(cmd.Flag("output").Value.String()); err != nil {
				return err
			}
			name := compute.PublisherName(args[0])
			if err := name.Check(); err != nil {
				return err
			}
			of, err := publishkey.ParseProjects(projects)
			if err != nil {
				return err
			}
			if masters == "" {
				return compute.Invalid("masters", "", "name the file or folder of publish.masters")
			}
			all, err := hostkey.LoadMasters("masters", masters)
			if err != nil {
				return err
			}
			_, err = fmt.Fprintln(cmd.OutOrStdout(), publishkey.Derive(all[len(all)-1], name, of).Line())
			return err
		},
	}
	cmd.Flags().StringVar(&masters, "masters", "", "file or folder of masters, as in publish.masters")
	cmd.Flags().StringVar(&projects, "projects", "", "projects that it may write for, with commas between them; *: all")
	return cmd
}

// publishKey is what an API node signs requests with, and a command with its settings; nil: nothing.
func publishKey(file string) (*publishkey.Key, error) {
	if file == "" {
		return nil, nil
	}
	k, err := publishkey.Load("publish_key_file", file)
	if err == nil && k.Projects() != publishkey.All {
		err = compute.Invalid("publish_key_file", file, fmt.Sprintf(
			"the key is for %s, and an API node writes for all projects: berth publisher enroll %s --projects '*'",
			k.Projects(), k.Name()))
	}
	if err != nil {
		return nil, err
	}
	return &k, nil
}
