// SPDX-License-Identifier: Apache-2.0

package bench

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net"
	"path/filepath"
	"runtime/debug"
	"strings"
	"sync/atomic"

	"github.com/berth-project/berth/pkg/embedded"
	"github.com/berth-project/berth/pkg/kafka"
	kafkaadmin "github.com/berth-project/berth/pkg/kafka/admin"
	"github.com/berth-project/berth/pkg/localkafka"
	"github.com/berth-project/berth/pkg/wire"
)

// broker is what a run stands on.
type broker struct {
	kind    string // "embedded", "local" or "remote"
	addrs   []string
	version string
	pids    []int                                     // of all nodes; none: of another machine, or of this process
	served  func(ctx context.Context) (served, error) // what all nodes have counted so far; nil: nobody knows
	close   func() error                              // ends a broker that is the run's own
}

// startBroker starts, or finds, the brokers of a run.
func startBroker(ctx context.Context, o Options, data string) (*broker, error) {
	switch o.Kafka {
	case "":
		b, err := embedded.Start(embedded.Options{})
		if err != nil {
			return nil, err
		}
		return &broker{
			kind:    "embedded",
			addrs:   b.Addrs(),
			version: "kfake " + moduleVersion("github.com/twmb/franz-go/pkg/kfake"),
			close:   func() error { b.Close(); return nil },
		}, nil
	case KafkaLocal:
		return startLocal(ctx, o, data)
	}
	addrs := strings.Split(o.Kafka, ",")
	version, err := askVersion(ctx, addrs)
	if err != nil {
		return nil, err
	}
	return &broker{kind: "remote", addrs: addrs, version: version, close: func() error { return nil }}, nil
}

func startLocal(ctx context.Context, o Options, data string) (*broker, error) {
	c, err := localkafka.Start(ctx, localkafka.Options{
		Nodes: o.Replication, Dir: filepath.Join(data, "kafka"), Heap: o.Heap, Optimized: true, Counted: true,
		Properties: maps.Clone(o.Properties),
	})
	if err != nil {
		return nil, err
	}
	b := &broker{
		kind:    "local",
		addrs:   c.Addrs(),
		version: localkafka.Version,
		served:  func(ctx context.Context) (served, error) { return askServed(ctx, c) },
		close:   c.Close,
	}
	for id := range c.Nodes() {
		b.pids = append(b.pids, c.PID(id+1))
	}
	return b, nil
}

func askVersion(ctx context.Context, addrs []string) (string, error) {
	for _, a := range addrs {
		if _, _, err := net.SplitHostPort(a); err != nil {
			return "", fmt.Errorf(
				"kafka %q: give host:port, several with commas between them, or %q: %w",
				a,
				KafkaLocal,
				err,
			)
		}
	}
	admin, err := kafkaadmin.New(kafka.Config{Brokers: addrs, Topics: wire.Topics{}})
	if err != nil {
		return "", err
	}
	defer admin.Close()
	if err := admin.WaitReachable(ctx); err != nil {
		return "", err
	}
	v, err := admin.Version(ctx)
	return v.Kafka, err
}

// end closes a broker of the run's own; on another one it deletes what the run
// made there.
func (b *broker) end(ctx context.Context, prefix string) error {
	if b.kind != "remote" {
		return b.close()
	}
	return errors.Join(cleanUp(ctx, b.addrs, prefix), b.close())
}

// counted opens connections and knows how many are open.
type counted struct {
	open atomic.Int64
	net  net.Dialer
}

func (c *counted) dial(ctx context.Context, network, address string) (net.Conn, error) {
	conn, err := c.net.DialContext(ctx, network, address)
	if err != nil {
		return nil, err
	}
	c.open.Add(1)
	return &countedConn{Conn: conn, of: c}, nil
}

type countedConn struct {
	net.Conn
	of     *counted
	closed atomic.Bool
}

func (c *countedConn) Close() error {
	if !c.closed.Swap(true) {
		c.of.open.Add(-1)
	}
	return c.Conn.Close()
}

// moduleVersion is what version of a module this process is built with.
func moduleVersion(path string) string {
	if info, ok := debug.ReadBuildInfo(); ok {
		for _, m := range info.Deps {
			if m.Path == path {
				return m.Version
			}
		}
	}
	return "unknown"
}
