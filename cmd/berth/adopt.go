package main

import (
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/spf13/cobra"

	"github.com/berth-project/berth/compute-agent/home"
	"github.com/berth-project/berth/compute-agent/journal"
	"github.com/berth-project/berth/pkg/cell"
	"github.com/berth-project/berth/pkg/compute"
)

// newAdopt hands machines over to the agent whose settings it is given.
func newAdopt() *cobra.Command {
	var flags daemonFlags
	cmd := &cobra.Command{
		Use:   "adopt --config FILE",
		Short: "Hand the machines' folder over to the agent with these settings",
		Long: `An agent does not start on a folder of machines that belongs to another host, or to the same host
with another journal. Where that is meant, adopt marks the folder as this agent's, with the same
flags as "berth agent". No agent may run on it meanwhile.

Records do not move with it: what another host claimed stays that host's until "berth host forget"
ends it, and the machine with it. To give a host another name, empty it first (berth host drain).`,
		Example: "  berth agent adopt --config agent.yaml",
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			settings, _, err := agentDaemon().read(flags.from())
			if err != nil {
				return err
			}
			var errs []error
			for _, host := range settings.hosts() {
				errs = append(errs, adopt(cmd.OutOrStdout(), settings, host))
			}
			return errors.Join(errs...)
		},
	}
	flags.add(cmd)
	return cmd
}

// adopt hands one host's machines over to its journal, which is made if there is
// none: as long as it is open, no agent of this host runs.
func adopt(w io.Writer, s agentConfig, host compute.HostID) (err error) {
	if err := os.MkdirAll(s.State, 0o755); err != nil {
		return &compute.Error{
			Op: "agent adopt", Kind: compute.KindInvalid, Field: "state", Value: s.State, Message: "cannot be used", Cause: err,
		}
	}
	j, err := journal.Open(cell.JournalFile(s.State, host), journal.Options{})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, j.Close()) }()
	place, is := s.homeOf(host), home.Owner{Host: host, Journal: j.ID()}
	was, err := place.HandOver(is)
	switch {
	case err != nil:
		return err
	case was == is:
		_, err = fmt.Fprintf(w, "%s is %s's already\n", place, is)
	case was == home.Owner{}:
		_, err = fmt.Fprintf(w, "%s is %s's now, and was nobody's\n", place, is)
	default:
		_, err = fmt.Fprintf(w, "%s is %s's now, and was %s's\n", place, is, was)
	}
	return err
}
