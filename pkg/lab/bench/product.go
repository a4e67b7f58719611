package bench

import (
	"context"
	"net"

	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/zap"

	"github.com/berth-project/berth/compute-agent/agent"
	"github.com/berth-project/berth/compute-agent/hypervisor"
	"github.com/berth-project/berth/compute-agent/journal"
	"github.com/berth-project/berth/pkg/compute"
	"github.com/berth-project/berth/pkg/service"
)

// Role is what a process of a run is for, or what a part of Berth counts as.
type Role string

// The roles. Broker, API node, conductors and queue manager are the centre.
const (
	RoleBroker    Role = "broker"
	RoleAPI       Role = "api"
	RoleConductor Role = "conductor"
	RoleQueues    Role = "queues" // the queue manager
	RoleAgent     Role = "agent"  // all of them
	RoleLoad      Role = "load"   // the bench: what sends boots, and what observes them
)

// centre is the roles whose work all hosts share.
func centre() []Role { return []Role{RoleBroker, RoleAPI, RoleConductor, RoleQueues} }

// Product is what is measured.
type Product interface {
	// Prepare makes the topics of a cell.
	Prepare(ctx context.Context, s Site) error
	// Part makes an API node, a queue manager or a conductor of a cell whose topics
	// exist. Nothing is opened before it runs. The address of an API node is known
	// once its part is ready; of others it is empty.
	Part(s Site, r Role, name string) (part service.Part, address func() string)
	// Agent makes the agent of one host. Nothing is opened before it runs. stats
	// may be asked at any time.
	Agent(s Site, h Host) (part service.Part, stats func() agent.Stats)
}

// Site is where a product runs.
type Site struct {
	Brokers    []string
	Prefix     string // of all topics and groups
	Partitions int32  // of requests, reports and instances
	// Replication of all topics; 0: the brokers' default.
	Replication int16
	Data        string                                                               // folder of the journals
	Dial        func(ctx context.Context, network, address string) (net.Conn, error) `json:"-"`
	Log         *zap.Logger                                                          `json:"-"`
	// Metrics is where the parts of a role count.
	Metrics func(r Role) prometheus.Registerer `json:"-"`
}

// Host is one host of a product.
type Host struct {
	ID      compute.HostID
	Slots   int // builds it prepares at once
	Driver  hypervisor.Driver
	Journal journal.Options
}
