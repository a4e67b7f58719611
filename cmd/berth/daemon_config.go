// SPDX-License-Identifier: Apache-2.0

package main

import (
	"time"

	"github.com/berth-project/berth/compute-agent/offer"
	"github.com/berth-project/berth/pkg/api"
	"github.com/berth-project/berth/pkg/cell"
	"github.com/berth-project/berth/pkg/compute"
	"github.com/berth-project/berth/pkg/fencecommand"
	"github.com/berth-project/berth/pkg/tlsfiles"
)

// logConfig is what a daemon says, and how.
type logConfig struct {
	Level  string `yaml:"level"`  // debug, info, warn, error
	Format string `yaml:"format"` // console, json
}

// statusConfig is where a daemon that serves nothing else says how it is:
// /healthz, /readyz and /metrics.
type statusConfig struct {
	Listen string `yaml:"listen"` // empty: nowhere
}

// apiConfig is the file of `berth api`.
type apiConfig struct {
	Kafka   cell.KafkaSettings   `yaml:"kafka"`
	Log     logConfig            `yaml:"log"`
	Tracing cell.TracingSettings `yaml:"tracing"`
	Listen  string               `yaml:"listen"`
	// lets Listen be open to others: whatever reaches it may do anything
	InsecureListen bool           `yaml:"insecure_listen"`
	TLS            tlsfiles.Paths `yaml:"tls"`
	Auth           authConfig     `yaml:"auth"`
	Audit          string         `yaml:"audit"` // true, false or auditSignedIn
	Limits         limitsConfig   `yaml:"limits"`
	Fence          fenceConfig    `yaml:"fence"`
	PublishKey     string         `yaml:"publish_key_file"` // empty: requests are not signed

	UserData cell.UserDataSettings `yaml:"user_data"`

	StopDelay time.Duration `yaml:"stop_delay"` // how long it still serves after it is told to stop
}

// fenceConfig is how an API node makes certain that a host is dead.
type fenceConfig struct {
	Command []string      `yaml:"command"` // empty: it cannot
	Timeout time.Duration `yaml:"timeout"`
}

// limitsConfig keeps an API node from growing without bound.
type limitsConfig struct {
	Publishing         int `yaml:"publishing"`          // publications in flight
	Connections        int `yaml:"connections"`         // open ones; 0 of these four: no limit
	AddressConnections int `yaml:"address_connections"` // open ones of one address
	AddressRate        int `yaml:"address_rate"`        // requests and new connections of one address a second
	PrincipalRate      int `yaml:"principal_rate"`      // requests of one principal a second
	Listeners          int `yaml:"listeners"`           // to events, at once
}

// queuesConfig is the file of `berth queues`.
type queuesConfig struct {
	Kafka      cell.KafkaSettings `yaml:"kafka"`
	Log        logConfig          `yaml:"log"`
	Status     statusConfig       `yaml:"status"`
	Hosts      cell.HostsSettings `yaml:"hosts"`
	GroupLimit int                `yaml:"group_limit"`
	Save       cell.SaveSettings  `yaml:"save"`

	ForgottenStreams time.Duration `yaml:"forgotten_streams"` // 0: they stay
}

// conductorConfig is the file of `berth conductor`.
type conductorConfig struct {
	Kafka   cell.KafkaSettings   `yaml:"kafka"`
	Log     logConfig            `yaml:"log"`
	Tracing cell.TracingSettings `yaml:"tracing"`
	Status  statusConfig         `yaml:"status"`
	Hosts   cell.HostsSettings   `yaml:"hosts"`
	Publish cell.PublishSettings `yaml:"publish"`
	Name    string               `yaml:"name"`
	Limits  projectConfig        `yaml:"limits"`
	Groups  groupsConfig         `yaml:"groups"`

	Reservations reservationsConfig `yaml:"reservations"`
}

// reservationsConfig is how conductors keep reservations.
type reservationsConfig struct {
	Lead time.Duration `yaml:"lead"` // how long before one begins hosts begin to hold room for it
}

// groupsConfig is how conductors keep the rules of groups.
type groupsConfig struct {
	Soft time.Duration `yaml:"soft"` // how long a member waits for a host that keeps a soft rule
}

// projectConfig is what one project may have beside its quota: of what is over, so that a conductor does not grow with it,
// and of what waits, so that it holds up no other.
type projectConfig struct {
	Ended  int `yaml:"ended"`  // instances of a project
	Builds int `yaml:"builds"` // of a project that are in one queue, and some more for each host that would take one now
}

// collectorConfig is where an agent tells of the boots that others have chosen to trace.
type collectorConfig struct {
	Endpoint string `yaml:"endpoint"` // empty: nowhere
}

// agentConfig is the file of `berth agent`.
type agentConfig struct {
	Kafka   cell.KafkaSettings `yaml:"kafka"`
	Log     logConfig          `yaml:"log"`
	Tracing collectorConfig    `yaml:"tracing"`
	Status  statusConfig       `yaml:"status"`
	Host    compute.HostID     `yaml:"host"`
	HostKey string             `yaml:"host_key_file"` // empty: what it says is not signed

	UserData cell.UserDataSettings `yaml:"user_data"`

	State      string            `yaml:"state"`
	Slots      int               `yaml:"slots"`
	Weigher    string            `yaml:"weigher"`
	OverCommit offer.Ratios      `yaml:"over_commit"`
	Labels     map[string]string `yaml:"labels"`
	Devices    []deviceConfig    `yaml:"devices"`
	NUMA       bool              `yaml:"numa"`
	Driver     driverConfig      `yaml:"driver"`
}

// deviceConfig says what devices of a host count as.
type deviceConfig struct {
	Class     compute.ResourceClass `yaml:"class"`
	ID        string                `yaml:"id"`
	Addresses []compute.PCIAddress  `yaml:"addresses"`
}

func (c agentConfig) terms() offer.Terms {
	t := offer.Terms{OverCommit: c.OverCommit, OneNode: c.NUMA}
	for _, d := range c.Devices {
		t.Devices = append(t.Devices, offer.DeviceRule(d))
	}
	return t
}

// driverConfig says what runs the machines.
type driverConfig struct {
	Kind    string        `yaml:"kind"` // fake, qemu, libvirt, exec
	Fake    fakeConfig    `yaml:"fake"`
	QEMU    qemuConfig    `yaml:"qemu"`
	Libvirt libvirtConfig `yaml:"libvirt"`
	Exec    execConfig    `yaml:"exec"`
}

// fakeConfig is a simulated host, or several: then they are called after the
// agent's host, with -1, -2, … behind it.
type fakeConfig struct {
	World       string            `yaml:"world"`
	Hosts       int               `yaml:"hosts"`
	Totals      compute.Resources `yaml:"totals"`
	Reserved    compute.Resources `yaml:"reserved"`
	Traits      []compute.Trait   `yaml:"traits"`
	PrepareTime time.Duration     `yaml:"prepare_time"`
	LaunchTime  time.Duration     `yaml:"launch_time"`
	DestroyTime time.Duration     `yaml:"destroy_time"`
}

func defaultLog() logConfig { return logConfig{Level: "info", Format: "console"} }

func defaultAPIConfig() apiConfig {
	return apiConfig{
		Kafka:   cell.DefaultKafka(),
		Log:     defaultLog(),
		Tracing: cell.DefaultTracing(),
		Listen:  "127.0.0.1:7070",
		Audit:   auditSignedIn,
		Limits: limitsConfig{
			Publishing: 10_000, Connections: 10_000, AddressConnections: 2_000, AddressRate: 2_000,
			PrincipalRate: 1_000, Listeners: 1_000,
		},
		Fence:     fenceConfig{Timeout: time.Minute},
		StopDelay: 5 * time.Second,
	}
}

func defaultQueuesConfig() queuesConfig {
	return queuesConfig{
		Kafka:            cell.DefaultKafka(),
		Log:              defaultLog(),
		Hosts:            cell.DefaultHosts(),
		GroupLimit:       14_000,
		Save:             cell.DefaultSave(),
		ForgottenStreams: 14 * 24 * time.Hour,
	}
}

func defaultConductorConfig() conductorConfig {
	return conductorConfig{
		Kafka: cell.DefaultKafka(), Log: defaultLog(), Tracing: cell.DefaultTracing(), Hosts: cell.DefaultHosts(),
		Publish: cell.DefaultPublish(),
		Limits:  projectConfig{Ended: 10_000, Builds: compute.UsualShare},
		Groups:  groupsConfig{Soft: 10 * time.Second},

		Reservations: reservationsConfig{Lead: 10 * time.Minute},
	}
}

func defaultAgentConfig() agentConfig {
	return agentConfig{
		Kafka: cell.DefaultKafka(), Log: defaultLog(), State: "/var/lib/berth", Slots: 4,
		Weigher: compute.Spread.String(),
		Driver: driverConfig{
			Kind:    "fake",
			QEMU:    defaultQEMU(),
			Libvirt: defaultLibvirt(),
			Exec:    defaultExec(),
			Fake: fakeConfig{
				World: "/var/lib/berth/world", Hosts: 1,
				Totals: compute.Resources{compute.VCPU: 16, compute.MemoryMB: 64 << 10, compute.DiskGB: 500},
			},
		},
	}
}

// fencer runs the operator's command; nil if there is none.
func (f fenceConfig) fencer() api.Fencer {
	if len(f.Command) == 0 {
		return nil
	}
	return fencecommand.Command{Args: f.Command, Timeout: f.Timeout}
}
