// SPDX-License-Identifier: Apache-2.0

package main

import (
	"errors"
	"fmt"
	"io"

	"github.com/spf13/cobra"
	"go.uber.org/zap"

	"github.com/berth-project/berth/compute-agent/home"
	"github.com/berth-project/berth/compute-agent/hypervisor/fake"
	"github.com/berth-project/berth/compute-agent/journal"
	"github.com/berth-project/berth/pkg/cell"
	"github.com/berth-project/berth/pkg/compute"
	"github.com/berth-project/berth/pkg/hostkey"
	"github.com/berth-project/berth/pkg/service"
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
	if err := cell.StateFolder(s.State, zap.NewNop()); err != nil { // the agent says it, too
		return err
	}
	place := s.homeOf(host)
	if err := cell.MachinesFolder(place, zap.NewNop()); err != nil {
		return err
	}
	j, err := journal.Open(cell.JournalFile(s.State, host), journal.Options{Host: host})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, j.Close()) }()
	is := home.Owner{Host: host, Journal: j.ID()}
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

// newHostAgents joins what an agent's configuration asks for: one host, or
// several simulated ones.
func newHostAgents(c cell.Cell, s agentConfig) (service.Part, error) {
	weigher, err := compute.ParseWeigher(s.Weigher)
	if err != nil {
		return nil, err
	}
	keys, err := s.UserData.Load(c.Topics().Prefix)
	if err != nil {
		return nil, err
	}
	real := cell.AgentOptions{
		Keys: keys, Host: s.Host, State: s.State, Home: s.homeOf(s.Host), Slots: s.Slots, Terms: s.terms(), Weigher: weigher,
		Labels: s.Labels,
	}
	if s.Driver.Kind != "fake" {
		if real.Key, err = s.key(s.Host); err != nil {
			return nil, err
		}
	}
	switch s.Driver.Kind {
	case "qemu":
		return cell.QEMUAgent(c, real, s.Driver.QEMU.options()), nil
	case "libvirt":
		return cell.LibvirtAgent(c, real, s.Driver.Libvirt.options()), nil
	case "exec":
		return cell.ExecAgent(c, real, s.Driver.Exec.options()), nil
	}
	world, err := fake.OpenWorld(s.Driver.Fake.World)
	if err != nil {
		return nil, err
	}
	var agents []service.Part
	for _, id := range hostNames(s.Host, s.Driver.Fake.Hosts) {
		host, err := world.Host(id, s.Driver.Fake.inventory())
		if err != nil {
			return nil, err
		}
		key, err := s.key(id)
		if err != nil {
			return nil, err
		}
		agents = append(agents, cell.AgentPart(c, cell.AgentOptions{
			Key: key, Keys: keys, Host: id, State: s.State, Home: s.homeOf(id),
			Driver: fake.NewDriver(host, s.Driver.Fake.options()), Slots: s.Slots, Terms: s.terms(), Weigher: weigher,
			Labels: s.Labels,
		}))
	}
	return service.Together(agents...), nil
}

// key is what a host signs with; nil: nothing.
func (s agentConfig) key(host compute.HostID) (*hostkey.Key, error) {
	if s.HostKey == "" {
		return nil, nil
	}
	k, err := hostkey.LoadKey("host_key_file", s.HostKey, host)
	if err != nil {
		return nil, err
	}
	return &k, nil
}

// hosts are those that this process runs.
func (s agentConfig) hosts() []compute.HostID {
	if s.Driver.Kind == "fake" {
		return hostNames(s.Host, s.Driver.Fake.Hosts)
	}
	return []compute.HostID{s.Host}
}

func hostNames(host compute.HostID, n int) []compute.HostID {
	if n == 1 {
		return []compute.HostID{host}
	}
	var names []compute.HostID
	for i := range n {
		names = append(names, compute.HostID(fmt.Sprintf("%s-%d", host, i+1)))
	}
	return names
}

func (f fakeConfig) inventory() compute.Inventory {
	return compute.Inventory{Totals: f.Totals, Reserved: f.Reserved, Traits: f.Traits}
}

func (f fakeConfig) options() fake.Options {
	return fake.Options{PrepareTime: f.PrepareTime, LaunchTime: f.LaunchTime, DestroyTime: f.DestroyTime}
}

// homeOf is where the machines of a host are.
func (s agentConfig) homeOf(host compute.HostID) home.Place {
	switch s.Driver.Kind {
	case "qemu":
		p := home.Place{Dir: s.Driver.QEMU.Dir, Setting: "driver.qemu.dir"}
		if s.Driver.QEMU.Users != "" {
			p.Mode = 0o711 // each machine's user gets to its own folder
		}
		return p
	case "libvirt":
		const mode = 0o711 // QEMU has another user in most places
		return home.Place{Dir: s.Driver.Libvirt.Dir, Mode: mode, Setting: "driver.libvirt.dir"}
	case "exec":
		return s.Driver.Exec.home()
	}
	return cell.FakeHome(s.Driver.Fake.World, host)
}
