// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/berth-project/berth/pkg/client"
	"github.com/berth-project/berth/pkg/compute"
)

func newLabel(s *settings) *cobra.Command {
	var chosen selection
	cmd := &cobra.Command{
		Use:   "label NAME|ID... | -l LABEL NAME=VALUE|NAME-...",
		Short: "Give instances labels, or take some from them",
		Long: `Give instances labels, or take some from them, in whatever state but deleted. NAME=VALUE adds a label or
replaces it, and NAME- takes it away; what is neither names an instance, by its whole name or its whole id (one
whose name has a = in it or ends in - by its id). With --label all of the project that have such labels are meant,
and how many that are is asked before.

The labels of an instance are its metadata. A guest keeps those that it was launched with.`,
		Example: "  berth label web-1 team=shop tier-\n  berth label --label team=shop cost=4711 --yes\n" +
			"  berth list --label team=shop",
		Args: func(cmd *cobra.Command, args []string) error {
			refs, change, err := labelArgs(args)
			if err != nil {
				return err
			}
			if err := change.Check(); err != nil {
				return compute.Invalid("label", "", "give NAME=VALUE, or NAME- to take one away")
			}
			return chosen.args(cmd, refs)
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			refs, change, err := labelArgs(args)
			if err != nil {
				return err
			}
			return chosen.change(cmd, s, "label", refs, change)
		},
	}
	chosen.flags(cmd)
	return cmd
}

// labelArgs tells labels from what names instances.
func labelArgs(args []string) (refs []string, change compute.Change, err error) {
	var set []string
	for _, arg := range args {
		switch name, gone := strings.CutSuffix(arg, "-"); {
		case strings.Contains(arg, "="):
			set = append(set, arg)
		case gone && name != "":
			change.Remove = append(change.Remove, name)
		default:
			refs = append(refs, arg)
		}
	}
	change.Set, err = ParsePairs[string, string]("label", set)
	return refs, change, err
}

func newRename(s *settings) *cobra.Command {
	var chosen selection
	cmd := &cobra.Command{
		Use:   "rename NAME|ID NEW-NAME",
		Short: "Give an instance another name",
		Long: `Give an instance another name, in whatever state but deleted. It is named by its whole name or its whole id; with
--prefix the beginning of either will do. Its guest keeps the host name that it was launched with.`,
		Example: "  berth rename web-1 shop-1",
		Args:    cobra.ExactArgs(2),
		RunE: func(cmd *cobra.Command, args []string) error {
			if args[1] == "" {
				return compute.Invalid("name", "", "give the new name")
			}
			return chosen.change(cmd, s, "rename", args[:1], compute.Change{Name: &args[1]})
		},
	}
	prefixFlag(cmd, &chosen.prefix)
	return cmd
}

// change asks for the same change of all that are meant, and prints them as they will be.
func (s *selection) change(cmd *cobra.Command, from *settings, verb string, refs []string, to compute.Change) error {
	c, out, err := from.open()
	if err != nil {
		return err
	}
	defer c.Close()
	meant, err := s.of(cmd, c, verb, refs)
	if err != nil {
		return err
	}
	var changed []client.Instance
	_, err = s.all(meant, func(i client.Instance) error {
		now, err := c.Change(cmd.Context(), i.ID, to)
		if err == nil {
			changed = append(changed, now)
		}
		return err
	})
	if len(changed) == 0 && err != nil {
		return err
	}
	if printed := labelSheet().List(cmd.OutOrStdout(), out, changed); err == nil {
		err = printed
	}
	return err
}

// labelSheet is how instances are listed whose names or labels were changed.
func labelSheet() Sheet[client.Instance] {
	s := instanceSheet(time.Now())
	shown := map[string]bool{"ID": true, "FULL ID": true, "NAME": true, "STATE": true, "LABELS": true}
	columns := s.Columns
	s.Columns = nil
	for _, c := range columns {
		if c.wide = c.wide && c.Title != "LABELS"; shown[c.Title] {
			s.Columns = append(s.Columns, c)
		}
	}
	return s
}
