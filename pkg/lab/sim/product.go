package sim

import (
	"context"
	"net"

	"go.uber.org/zap"

	"github.com/berth-project/berth/compute-agent/home"
	"github.com/berth-project/berth/compute-agent/hypervisor"
	"github.com/berth-project/berth/compute-agent/journal"
	"github.com/berth-project/berth/pkg/compute"
	"github.com/berth-project/berth/pkg/service"
)

// Product is what is simulated. Each part is a process of its own: it waits for
// its broker however long it takes, as the daemons do.
type Product interface {
	Queues(s Site) service.Part
	// Conductor has the same name after every restart.
	Conductor(s Site, name string) service.Part
	API(s Site, address string) service.Part
	Agent(s Site, h AgentSite) service.Part
}

// Site is how a process reaches the rest.
type Site struct {
	Brokers    []string
	Prefix     string // of all topics and groups
	Partitions int32
	Dial       func(ctx context.Context, network, address string) (net.Conn, error)
	Listen     func(ctx context.Context, network, address string) (net.Listener, error)
	Log        *zap.Logger
	Reads      compute.Schema // the newest schema that the process reads
	Clock      WrongClock     // nil: it is right
}

// AgentSite is what an agent has on its host.
type AgentSite struct {
	Host    compute.HostID
	State   string     // folder of the journal
	Home    home.Place // says whose the machines are
	Driver  hypervisor.Driver
	Journal journal.Options
}
