// SPDX-License-Identifier: Apache-2.0

package localkafka

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"strings"
	"time"
)

// Options say which brokers to run.
type Options struct {
	Version    string              // empty: Version
	Nodes      int                 // 0: one
	Dir        string              // where data and logs go; empty: a temporary folder, removed by Close
	Heap       string              // for each node; empty: 512m
	Optimized  bool                // full JIT: slower to start, faster once warm; for benchmarks
	Properties map[string]string   // broker settings over the ones Berth needs
	Each       []map[string]string // likewise, of one node each; over Properties
	Counted    bool                // Counts can be asked
	// Places puts the nodes somewhere else than on loopback, one for each; nil: nobody moves.
	Places []Place
}

// Place is where a node runs: in a network namespace, say.
type Place struct {
	Host   string   // where it listens
	Within []string // the command that runs a command there
}

// Cluster is some brokers of this process. Its methods are not for concurrent
// use for the same node.
type Cluster struct {
	dir   string
	own   bool // dir is ours to remove
	nodes []*node
	libs  string
}

const clusterID = "4L6g3nShT-eMCtK--X86sw"

// Start runs the brokers and answers when all serve.
func Start(ctx context.Context, o Options) (*Cluster, error) {
	if o.Version == "" {
		o.Version = Version
	}
	o.Nodes = max(o.Nodes, 1)
	libs, err := Jars(ctx, o.Version)
	if err != nil {
		return nil, err
	}
	c := &Cluster{dir: o.Dir, libs: libs}
	if c.dir == "" {
		c.own = true
		if c.dir, err = os.MkdirTemp("", "berth-kafka-"); err != nil {
			return nil, err
		}
	}
	if err := c.up(ctx, o); err != nil {
		return nil, errors.Join(err, c.Close())
	}
	return c, nil
}

func (c *Cluster) up(ctx context.Context, o Options) error {
	ports, err := FreePorts(3 * o.Nodes)
	if err != nil {
		return err
	}
	for i := range o.Nodes {
		c.nodes = append(c.nodes, newNode(c, i+1, ports[3*i:3*i+3], o))
		if o.Places != nil {
			c.nodes[i].place = o.Places[i]
		}
	}
	for i, n := range c.nodes {
		over := map[string]string{}
		maps.Copy(over, o.Properties)
		if o.Each != nil {
			maps.Copy(over, o.Each[i])
		}
		if err := n.configure(c.nodes, over); err != nil {
			return err
		}
	}
	if err := c.each(func(n *node) error { return n.format(ctx) }); err != nil {
		return err
	}
	return c.each(func(n *node) error { return n.start(ctx) })
}

// each runs f for all nodes at once and waits for all.
func (c *Cluster) each(f func(*node) error) error {
	errs := make(chan error, len(c.nodes))
	for _, n := range c.nodes {
		go func() { errs <- f(n) }()
	}
	var all []error
	for range c.nodes {
		all = append(all, <-errs)
	}
	return errors.Join(all...)
}

// Addrs is where clients connect: one address for each node, running or not.
func (c *Cluster) Addrs() []string {
	var a []string
	for _, n := range c.nodes {
		a = append(a, n.addr())
	}
	return a
}

// Nodes is how many brokers there are; they are numbered from 1.
func (c *Cluster) Nodes() int { return len(c.nodes) }

// PID is the process of a node, 0 if it does not run.
func (c *Cluster) PID(id int) int { return c.nodes[id-1].pid() }

// Kill ends a node at once (SIGKILL) and answers when it is gone.
func (c *Cluster) Kill(id int) error { return c.nodes[id-1].kill() }

// Stop asks a node to stop (SIGTERM), which first hands over what it leads, and
// answers when it is gone.
func (c *Cluster) Stop(id int) error { return c.nodes[id-1].stop() }

// Restart starts a node that was killed or stopped, with its data.
func (c *Cluster) Restart(ctx context.Context, id int) error { return c.nodes[id-1].start(ctx) }

// Pause freezes a node (SIGSTOP): its connections stay open and say nothing.
func (c *Cluster) Pause(id int) error { return c.nodes[id-1].pause() }

// Resume thaws a frozen node (SIGCONT).
func (c *Cluster) Resume(id int) error { return c.nodes[id-1].resume() }

// Close ends all nodes at once and removes what they left behind. A second
// call does nothing.
func (c *Cluster) Close() error {
	var errs []error
	for _, n := range c.nodes {
		errs = append(errs, n.kill())
	}
	c.nodes = nil
	if c.own {
		errs = append(errs, os.RemoveAll(c.dir))
	}
	return errors.Join(errs...)
}

// awaitStarted answers when the node's log says that it serves.
func (n *node) awaitStarted(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, 5*time.Minute) // of a machine with much to do: one that fails ends before
	defer cancel()
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	for {
		log, err := os.ReadFile(n.file("server.log"))
		if err == nil && strings.Contains(string(log), "Kafka Server started") {
			return nil
		}
		select {
		case <-n.done:
			return fmt.Errorf("node %d ended while starting:\n%s", n.id, tail(log, 3000))
		case <-ctx.Done():
			return fmt.Errorf("node %d did not start: %w\n%s", n.id, ctx.Err(), tail(log, 3000))
		case <-tick.C:
		}
	}
}
