// SPDX-License-Identifier: Apache-2.0

// Package lab is what bench and sim stand on: Berth as a laboratory sees it. A Product makes
// the parts, a Site says where they run and by what they reach each other.
// Berth is what pkg/cell puts together; tests put something in front of it, or leave it out.
package lab

import (
	"context"

	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/zap"

	"github.com/berth-project/berth/compute-agent/agent"
	"github.com/berth-project/berth/compute-agent/home"
	"github.com/berth-project/berth/compute-agent/hypervisor"
	"github.com/berth-project/berth/compute-agent/journal"
	"github.com/berth-project/berth/pkg/cell"
	"github.com/berth-project/berth/pkg/compute"
	"github.com/berth-project/berth/pkg/hostkey"
	"github.com/berth-project/berth/pkg/publishkey"
	"github.com/berth-project/berth/pkg/service"
	"github.com/berth-project/berth/queues/save"
)

// Role is what a process of a laboratory is for, or what a part of Berth counts as.
type Role string

// The roles. Broker, API node, conductors and queue manager are the centre.
const (
	RoleBroker    Role = "broker"
	RoleAPI       Role = "api"
	RoleConductor Role = "conductor"
	RoleQueues    Role = "queues" // the queue manager
	RoleAgent     Role = "agent"  // all of them
	RoleLoad      Role = "load"   // the laboratory: what sends boots, and what observes them
)

// Product is what is measured or simulated. Nothing is opened before a part runs.
type Product interface {
	// Prepare makes the topics of a cell.
	Prepare(ctx context.Context, s Site) error
	// Part makes an API node, a queue manager or a conductor. A conductor has the same
	// name after every restart. The address of an API node is known once its part is
	// ready; of others it is empty.
	Part(s Site, r Role, name string) (part service.Part, address func() string)
	// Agent makes the agent of one host. stats may be asked at any time.
	Agent(s Site, h Host) (part service.Part, stats func() agent.Stats)
}

// Site is where a product runs, and how a process of it reaches the rest.
type Site struct {
	Brokers    []string
	Prefix     string // of all topics and groups
	Partitions int32  // of requests, reports and instances
	// Replication of all topics; 0: the brokers' default.
	Replication int16
	Data        string        // folder of what the laboratory keeps; bench keeps the journals in it
	Address     string        // where an API node answers; empty: any port of this machine
	Dial        cell.Dialer   `json:"-"` // nil: TCP
	Listen      cell.Listener `json:"-"` // nil: TCP
	Log         *zap.Logger   `json:"-"`
	// Metrics is where the parts of a role count; nil: nowhere.
	Metrics func(r Role) prometheus.Registerer `json:"-"`
	// Waits has each part wait for its broker however long it takes, and make the topics,
	// as daemons do; otherwise they are there (Prepare).
	Waits      bool                 `json:"-"`
	Reads      compute.Schema       `json:"-"` // the newest schema that the process reads; 0: this one's
	Clock      cell.Clock           `json:"-"` // nil: it is right
	Hosts      *hostkey.Verifier    `json:"-"` // of reports and beacons; nil: all are believed
	Publishers *publishkey.Verifier `json:"-"` // of requests; nil: all count
	TurnBytes  int                  `json:"-"` // most that a conductor's turn writes to a partition; 0: its default
	Share      int                  `json:"-"` // builds of a project in one queue, at least; 0: the default
	Savings    *save.Rules          `json:"-"` // when hosts save room for large work; nil: the defaults
	Key        *publishkey.Key      `json:"-"` // with which API nodes sign requests; nil: they do not
}

// Host is what an agent has on its host.
type Host struct {
	ID      compute.HostID
	State   string     // folder of the journal
	Home    home.Place // says whose the machines are; none: nobody else can have them
	Slots   int        // builds it prepares at once; 0: the agent's default
	Driver  hypervisor.Driver
	Journal journal.Options
	Key     *hostkey.Key // nil: it signs nothing
	Timing  agent.Timing
}
