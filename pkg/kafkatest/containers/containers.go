// SPDX-License-Identifier: Apache-2.0

// Package containers runs Kafka brokers in containers, where a Docker engine
// answers, as pkg/localkafka runs them as processes.
package containers

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"strings"
	"time"

	"github.com/moby/moby/api/types/container"
	dockernet "github.com/moby/moby/api/types/network"
	"github.com/moby/moby/client"
	"github.com/testcontainers/testcontainers-go"
	"github.com/testcontainers/testcontainers-go/network"
	"github.com/testcontainers/testcontainers-go/wait"

	"github.com/berth-project/berth/pkg/localkafka"
)

// DefaultImage is what runs unless BERTH_KAFKA_IMAGE names another.
const DefaultImage = "apache/kafka:" + localkafka.Version

// Image is the image that runs.
func Image() string {
	if name := os.Getenv("BERTH_KAFKA_IMAGE"); name != "" {
		return name
	}
	return DefaultImage
}

// Answers says whether a Docker engine does, and if not why.
func Answers(ctx context.Context) error {
	docker, err := testcontainers.NewDockerClientWithOpts(ctx)
	if err != nil {
		return err
	}
	defer func() { _ = docker.Close() }() // it was only asked
	_, err = docker.Ping(ctx, client.PingOptions{})
	return err
}

// Cluster is some brokers, numbered from 1. Each is a controller too.
type Cluster struct {
	docker *testcontainers.DockerClient
	net    *testcontainers.DockerNetwork
	nodes  []node
}

type node struct {
	container testcontainers.Container
	port      int // where clients reach it, on this machine
}

const (
	clusterID = "4L6g3nShT-eMCtK--X86sw"
	outside   = "9094/tcp" // the listener for clients
	startsIn  = 3 * time.Minute
)

// Start runs n brokers with these settings over the ones Berth needs, and
// answers when all serve.
func Start(ctx context.Context, n int, settings map[string]string) (*Cluster, error) {
	c := &Cluster{nodes: make([]node, n)}
	if err := c.up(ctx, settings); err != nil {
		return nil, errors.Join(err, c.Close())
	}
	return c, nil
}

func (c *Cluster) up(ctx context.Context, settings map[string]string) (err error) {
	if c.docker, err = testcontainers.NewDockerClientWithOpts(ctx); err != nil {
		return err
	}
	if c.net, err = network.New(ctx); err != nil {
		return err
	}
	ports, err := localkafka.FreePorts(len(c.nodes)) // an address is told to clients, so it is known before
	if err != nil {
		return err
	}
	started := make(chan error, len(c.nodes))
	for i := range c.nodes {
		c.nodes[i].port = ports[i]
		go func() { started <- c.start(ctx, i+1, settings) }()
	}
	var errs []error
	for range c.nodes {
		errs = append(errs, <-started)
	}
	return errors.Join(errs...)
}

func (c *Cluster) start(ctx context.Context, id int, settings map[string]string) error {
	n := &c.nodes[id-1]
	made, err := testcontainers.Run(
		ctx,
		Image(),
		testcontainers.WithExposedPorts(outside),
		testcontainers.WithHostConfigModifier(n.published),
		network.WithNetwork([]string{inside(id)}, c.net),
		testcontainers.WithEnv(c.environment(id, settings)),
		testcontainers.WithWaitStrategyAndDeadline(
			startsIn,
			wait.ForLog("Kafka Server started").WithStartupTimeout(startsIn),
		),
	)
	n.container = made
	if err != nil {
		return fmt.Errorf("broker %d in a container of %s: %w", id, Image(), err)
	}
	return nil
}

// published gives the container the port that was found for it.
func (n *node) published(h *container.HostConfig) {
	h.PortBindings = dockernet.PortMap{dockernet.MustParsePort(outside): {{
		HostIP: netip.MustParseAddr("127.0.0.1"), HostPort: fmt.Sprint(n.port),
	}}}
}

// inside is what brokers call each other.
func inside(id int) string { return fmt.Sprintf("kafka%d", id) }

// environment is how the image takes a broker's settings.
func (c *Cluster) environment(id int, settings map[string]string) map[string]string {
	var voters []string
	for i := range c.nodes {
		voters = append(voters, fmt.Sprintf("%d@%s:9093", i+1, inside(i+1)))
	}
	env := map[string]string{
		"CLUSTER_ID":      clusterID,
		"KAFKA_HEAP_OPTS": "-Xms256m -Xmx256m",
		// it starts sooner
		"KAFKA_OPTS": "-XX:TieredStopAtLevel=1 -XX:+UnlockDiagnosticVMOptions " +
			"-XX:-BytecodeVerificationRemote",
		"KAFKA_PROCESS_ROLES":            "broker,controller",
		"KAFKA_NODE_ID":                  fmt.Sprint(id),
		"KAFKA_CONTROLLER_QUORUM_VOTERS": strings.Join(voters, ","),
		"KAFKA_LISTENERS":                "INSIDE://:9092,CONTROLLER://:9093,OUTSIDE://:9094",
		"KAFKA_ADVERTISED_LISTENERS": fmt.Sprintf(
			"INSIDE://%s:9092,OUTSIDE://127.0.0.1:%d",
			inside(id),
			c.nodes[id-1].port,
		),
		"KAFKA_LISTENER_SECURITY_PROTOCOL_MAP": "CONTROLLER:PLAINTEXT,INSIDE:PLAINTEXT,OUTSIDE:PLAINTEXT",
		"KAFKA_INTER_BROKER_LISTENER_NAME":     "INSIDE",
		"KAFKA_CONTROLLER_LISTENER_NAMES":      "CONTROLLER",
	}
	for _, some := range []map[string]string{localkafka.Settings(min(len(c.nodes), 3)), settings} {
		for k, v := range some {
			env["KAFKA_"+strings.ToUpper(strings.ReplaceAll(k, ".", "_"))] = v
		}
	}
	return env
}

// Addrs is where clients connect: one address for each broker, running or not.
func (c *Cluster) Addrs() []string {
	var a []string
	for _, n := range c.nodes {
		a = append(a, fmt.Sprintf("127.0.0.1:%d", n.port))
	}
	return a
}

// Nodes is how many brokers there are.
func (c *Cluster) Nodes() int { return len(c.nodes) }

// atOnce bounds what the engine does in a moment.
const atOnce = time.Minute

// tell has the engine do something to a broker.
func (c *Cluster) tell(id int, do func(ctx context.Context, container string) error) error {
	ctx, cancel := context.WithTimeout(context.Background(), atOnce)
	defer cancel()
	return do(ctx, c.nodes[id-1].container.GetContainerID())
}

// Kill ends a broker at once (SIGKILL).
func (c *Cluster) Kill(id int) error {
	return c.tell(id, func(ctx context.Context, name string) error {
		_, err := c.docker.ContainerKill(ctx, name, client.ContainerKillOptions{Signal: "KILL"})
		return err
	})
}

// Stop asks a broker to stop (SIGTERM), and answers when it has.
func (c *Cluster) Stop(id int) error {
	return c.tell(id, func(ctx context.Context, name string) error {
		patience := int(atOnce.Seconds()) / 2
		_, err := c.docker.ContainerStop(ctx, name, client.ContainerStopOptions{Timeout: &patience})
		return err
	})
}

// Restart starts a broker that was killed or stopped, with its data. It serves
// a little later.
func (c *Cluster) Restart(_ context.Context, id int) error {
	return c.tell(id, func(ctx context.Context, name string) error {
		_, err := c.docker.ContainerStart(ctx, name, client.ContainerStartOptions{})
		return err
	})
}

// Pause freezes a broker.
func (c *Cluster) Pause(id int) error {
	return c.tell(id, func(ctx context.Context, name string) error {
		_, err := c.docker.ContainerPause(ctx, name, client.ContainerPauseOptions{})
		return err
	})
}

// Resume thaws a frozen broker.
func (c *Cluster) Resume(id int) error {
	return c.tell(id, func(ctx context.Context, name string) error {
		_, err := c.docker.ContainerUnpause(ctx, name, client.ContainerUnpauseOptions{})
		return err
	})
}

// Close removes the brokers and what they wrote. A second call does nothing.
func (c *Cluster) Close() error {
	var errs []error
	for _, n := range c.nodes {
		if n.container != nil {
			errs = append(errs, testcontainers.TerminateContainer(n.container, testcontainers.StopTimeout(0)))
		}
	}
	c.nodes = nil
	if c.net != nil {
		errs = append(errs, c.net.Remove(context.Background()))
		c.net = nil
	}
	if c.docker != nil {
		errs = append(errs, c.docker.Close())
		c.docker = nil
	}
	return errors.Join(errs...)
}
