// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"cmp"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/berth-project/berth/pkg/client"
	"github.com/berth-project/berth/pkg/compute"
)

func newDelete(s *settings) *cobra.Command {
	var wait bool
	var chosen selection
	var timeout time.Duration
	cmd := &cobra.Command{
		Use:     "delete NAME|ID... | -l LABEL",
		Aliases: []string{"rm"},
		Short:   "Delete instances, in whatever state",
		Long: `Delete instances. Each is named by its whole name or its whole id; with --prefix
the beginning of either will do. What may mean several deletes none of them: the
candidates are listed. With --label all of the project that have such labels are
meant, and how many that are is asked before. Returns once the requests cannot be
lost; with --wait, once the machines are gone.`,
		Args: chosen.args,
		RunE: func(cmd *cobra.Command, args []string) error {
			c, out, err := s.open()
			if err != nil {
				return err
			}
			defer c.Close()
			meant, err := chosen.of(cmd, c, "delete", args)
			if err != nil {
				return err
			}
			gone, err := chosen.deleteAll(cmd, c, meant, wait, timeout)
			if len(gone) == 0 && err != nil {
				return err
			}
			if printed := deletedSheet(time.Now(), out).List(cmd.OutOrStdout(), out, gone); err == nil {
				err = printed
			}
			return err
		},
	}
	cmd.Flags().BoolVar(&wait, "wait", false, "wait until they are gone")
	chosen.flags(cmd)
	timeoutFlag(cmd, &timeout, defaultWait, "how long --wait waits; 0 waits for ever")
	return cmd
}

// deletedSheet is how instances are listed that were asked to be deleted: the
// state is the one they go to, also where their record still says another.
func deletedSheet(now time.Time, f Format) Sheet[client.Instance] {
	s := instanceSheet(now)
	if f == FormatJSON || f == FormatYAML {
		return s // as the API says it
	}
	for n, c := range s.Columns {
		switch c.Title {
		case "STATE":
			s.Columns[n].Cell = func(i client.Instance) string {
				if i.State == "deleted" {
					return "deleted"
				}
				return "deleting"
			}
		case "WHY":
			s.Columns[n].Cell = func(i client.Instance) string {
				switch i.State {
				case "deleted", "deleting":
					return why(i)
				}
				return strings.TrimSuffix("was "+string(i.State)+": "+why(i), ": ")
			}
		}
	}
	return s
}

func (s *selection) deleteAll(
	cmd *cobra.Command,
	c *client.Client,
	meant []client.Instance,
	wait bool,
	timeout time.Duration,
) ([]client.Instance, error) {
	var asked []client.Instance
	var ids []compute.InstanceID
	var w *watch
	if wait {
		w = watchInstances(cmd.Context(), c, idsOf(meant))
		defer w.close()
	}
	_, failed := s.all(meant, func(m client.Instance) error {
		i, err := c.Delete(cmd.Context(), m.ID)
		if err == nil {
			asked, ids = append(asked, i), append(ids, i.ID)
		}
		return err
	})
	if !wait || len(asked) == 0 {
		return asked, failed
	}
	gone := func(i client.Instance) bool { return i.State == "deleted" }
	now, err := waitInstances(cmd.Context(), c, w, newLiveLine(cmd.ErrOrStderr()), timeout, ids, gone)
	return now, cmp.Or(failed, err)
}
