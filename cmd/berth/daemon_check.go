// SPDX-License-Identifier: Apache-2.0

package main

import (
	"errors"
	"net"
	"os"
	"time"

	"github.com/berth-project/berth/compute-agent/journal"
	"github.com/berth-project/berth/pkg/cell"
	"github.com/berth-project/berth/pkg/compute"
	"github.com/berth-project/berth/pkg/config"
	"github.com/berth-project/berth/pkg/statusserver"
)

// Every check answers all that is wrong, joined, each with the key it is about.

func (c apiConfig) common() (cell.KafkaSettings, logConfig)       { return c.Kafka, c.Log }
func (c queuesConfig) common() (cell.KafkaSettings, logConfig)    { return c.Kafka, c.Log }
func (c conductorConfig) common() (cell.KafkaSettings, logConfig) { return c.Kafka, c.Log }
func (c agentConfig) common() (cell.KafkaSettings, logConfig)     { return c.Kafka, c.Log }

func (c apiConfig) tracing() cell.TracingSettings       { return c.Tracing }
func (c queuesConfig) tracing() cell.TracingSettings    { return cell.TracingSettings{} } // it sees no boots
func (c conductorConfig) tracing() cell.TracingSettings { return c.Tracing }
func (c agentConfig) tracing() cell.TracingSettings {
	return cell.TracingSettings{Endpoint: c.Tracing.Endpoint} // it begins no trace
}

func (c apiConfig) face() face {
	return face{
		listen: c.Listen, tls: c.TLS, signIn: !c.Auth.none(), stopDelay: c.StopDelay,
		bounds: statusserver.Bounds{
			Connections: c.Limits.Connections, AddressConnections: c.Limits.AddressConnections,
			AddressRate: c.Limits.AddressRate,
		},
	}
}

func (c queuesConfig) face() face    { return c.Status.face() }
func (c conductorConfig) face() face { return c.Status.face() }
func (c agentConfig) face() face     { return c.Status.face() }
func (s statusConfig) face() face    { return face{listen: s.Listen, bounds: plainBounds()} }

func (c apiConfig) check() error {
	_, key := publishKey(c.PublishKey)
	var delay error
	if c.StopDelay < 0 || c.StopDelay > time.Minute {
		delay = compute.Invalid("stop_delay", c.StopDelay.String(), "give a time from 0s to 1m")
	}
	return errors.Join(
		key, delay,
		c.Kafka.Check(),
		c.Log.check(),
		c.Tracing.Check(),
		c.checkListen(),
		c.TLS.Check(),
		c.checkAuth(),
		c.UserData.Check(),
		c.checkAudit(),
		c.Limits.check(),
		c.Fence.check(),
	)
}

func (f fenceConfig) check() error {
	var errs []error
	if len(f.Command) > 0 && f.Command[0] == "" {
		errs = append(errs, compute.Invalid("fence.command", "", "name the program first, or leave the list empty"))
	}
	if f.Timeout < time.Second || f.Timeout > 5*time.Minute {
		errs = append(errs, compute.Invalid("fence.timeout", f.Timeout.String(), "give a time from 1s to 5m"))
	}
	return errors.Join(errs...)
}

func (l limitsConfig) check() error {
	const most = 1_000_000
	return errors.Join(
		config.Between("limits.publishing", l.Publishing, 1, most),
		config.Between("limits.connections", l.Connections, 0, most),
		config.Between("limits.address_connections", l.AddressConnections, 0, most),
		config.Between("limits.address_rate", l.AddressRate, 0, most),
		config.Between("limits.principal_rate", l.PrincipalRate, 0, most),
		config.Between("limits.listeners", l.Listeners, 1, 100_000),
	)
}

func (c queuesConfig) check() error {
	var streams error
	if c.ForgottenStreams != 0 && c.ForgottenStreams < time.Hour {
		streams = compute.Invalid(
			"forgotten_streams",
			c.ForgottenStreams.String(),
			"give at least 1h, or 0 to remove none",
		)
	}
	limit := config.Between("group_limit", c.GroupLimit, 1, 1_000_000)
	return errors.Join(c.Kafka.Check(), c.Log.check(), c.Status.check(), c.Hosts.Check(), c.Save.Check(), limit, streams)
}

func (c conductorConfig) check() error {
	var name error
	if len(c.Name) > 200 {
		name = compute.Invalid("name", c.Name, "give at most 200 letters")
	}
	return errors.Join(
		c.Kafka.Check(),
		c.Log.check(),
		c.Tracing.Check(),
		c.Status.check(),
		c.Hosts.Check(),
		c.Publish.Check(),
		name,
		config.Between("limits.ended", c.Limits.Ended, 100, 1_000_000),
		config.Between("limits.builds", c.Limits.Builds, 1, 100_000),
		c.Groups.check(),
		c.Reservations.check(),
	)
}

func (c groupsConfig) check() error {
	if c.Soft >= time.Second && c.Soft <= time.Hour {
		return nil
	}
	return compute.Invalid("groups.soft", c.Soft.String(), "give 1s to 1h")
}

func (c reservationsConfig) check() error {
	if c.Lead >= time.Second && c.Lead <= 24*time.Hour {
		return nil
	}
	return compute.Invalid("reservations.lead", c.Lead.String(), "give 1s to 24h")
}

func (c agentConfig) check() error {
	errs := []error{
		c.Kafka.Check(), c.Log.check(), c.tracing().Check(), c.Status.check(), c.checkHost(), c.UserData.Check(),
		config.Between("slots", c.Slots, 1, 1000), c.terms().Check(),
		config.OneOf("weigher", c.Weigher, compute.Spread.String(), compute.Pack.String()),
		compute.CheckHostLabels(c.Labels),
	}
	for _, host := range c.hosts() {
		_, err := c.key(host)
		errs = append(errs, err)
	}
	if c.State == "" {
		errs = append(errs, compute.Invalid("state", "", "give a folder that survives a reboot"))
	}
	switch c.Driver.Kind {
	case "fake":
		errs = append(errs, c.Driver.Fake.check())
	case "qemu":
		errs = append(errs, c.Driver.QEMU.check())
	case "libvirt":
		errs = append(errs, c.Driver.Libvirt.check())
	case "exec":
		errs = append(errs, c.Driver.Exec.check())
	default:
		errs = append(
			errs,
			compute.Invalid("driver.kind", c.Driver.Kind, `this version has "fake", "qemu", "libvirt" and "exec"`),
		)
	}
	return errors.Join(errs...)
}

// checkHost refuses a name that no new host may have. One that has worked under it keeps it: its machines are known by
// it.
func (c agentConfig) checkHost() error {
	err := c.Host.CheckNew()
	if err == nil || c.Host.Check() != nil {
		return config.At("host", err)
	}
	for _, host := range c.hosts() {
		file := cell.JournalFile(c.State, host)
		if _, no := os.Stat(file); no != nil {
			return config.At("host", err)
		}
		if deaf(file) {
			return neverWorked(host)
		}
	}
	return nil
}

// deaf says whether the agent of a journal has never read its host's stream, not even an empty one. Where there is one
// it is read within seconds. There is one of a_b, too, if the queue manager did not make a.b's before: that host has
// worked. A journal that cannot be read may be a working host's; the agent says why it cannot be read.
func deaf(file string) bool {
	j, err := journal.Open(file, journal.Options{Reserve: -1})
	if err != nil {
		return false
	}
	known, err := j.Read()
	return errors.Join(err, j.Close()) == nil && !known.Positioned
}

func neverWorked(host compute.HostID) error {
	return &compute.Error{
		Kind: compute.KindInvalid, Field: "host", Value: string(host),
		Message: "has never heard anything from the cell: Kafka takes underscores for dots in the names of topics, " +
			"and makes none for this host beside another's",
		Remedy: `set host to a name without underscores; "berth agent adopt" hands the folder of machines over to it`,
	}
}

func (l logConfig) check() error {
	return errors.Join(
		config.OneOf("log.level", l.Level, "debug", "info", "warn", "error"),
		config.OneOf("log.format", l.Format, "console", "json"),
	)
}

func (s statusConfig) check() error {
	if s.Listen == "" {
		return nil
	}
	return checkAddress("status.listen", s.Listen)
}

func (f fakeConfig) check() error {
	errs := []error{
		config.Between("driver.fake.hosts", f.Hosts, 1, 10_000),
		config.At("driver.fake.totals", f.Totals.Check()),
	}
	for _, class := range f.Reserved.Classes() { // nothing of a class is allowed here
		errs = append(
			errs,
			config.At("driver.fake.reserved", class.Check()),
			config.Between("driver.fake.reserved", int(f.Reserved[class]), 0, compute.MaxAmount),
		)
	}
	if f.World == "" {
		errs = append(errs, compute.Invalid("driver.fake.world", "", "give a folder for the simulated machines"))
	}
	for _, t := range f.Traits {
		errs = append(errs, config.At("driver.fake.traits", t.Check()))
	}
	return errors.Join(errs...)
}

// checkAddress refuses what nobody can listen on.
func checkAddress(key, address string) error {
	if _, port, err := net.SplitHostPort(address); err != nil || port == "" {
		return compute.Invalid(
			key,
			address,
			"give host:port, as in 127.0.0.1:7070, or :7070 for every address of this machine",
		)
	}
	return nil
}
