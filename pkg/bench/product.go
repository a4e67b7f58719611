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

// Product is what is measured.
type Product interface {
	// Core makes the topics of a cell and joins a queue manager, conductors and an
	// API node. The address of the API is known once the part is ready.
	Core(ctx context.Context, s Site) (part service.Part, api func() string, err error)
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
	Conductors  int
	Data        string // folder of the journals
	Dial        func(ctx context.Context, network, address string) (net.Conn, error)
	Log         *zap.Logger
	// Metrics is where a kind of part ("agent", "conductor") counts.
	Metrics func(part string) prometheus.Registerer
}

// Host is one host of a product.
type Host struct {
	ID      compute.HostID
	Slots   int // builds it prepares at once
	Driver  hypervisor.Driver
	Journal journal.Options
}
