// SPDX-License-Identifier: Apache-2.0

package localkafka

import (
	"context"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
)

// node is one broker process that is its own controller quorum's member.
type node struct {
	id         int
	dir        string
	libs       string
	client     int // port
	controller int // port
	counts     int // port where Counts asks; 0: nowhere
	jvm        []string
	elsewhere  bool // its settings put the data somewhere else
	place      Place

	cmd  *exec.Cmd
	done chan struct{} // closed when the process is gone
}

// newNode is a node with three ports of its own.
func newNode(c *Cluster, id int, ports []int, o Options) *node {
	heap := o.Heap
	if heap == "" {
		heap = "512m"
	}
	jvm := []string{"-Xms" + heap, "-Xmx" + heap, "-XX:+UseSerialGC", "-XX:-UsePerfData"}
	if !o.Optimized {
		// Kafka's own jars need no verifying, a fifth of the time until it serves.
		jvm = append(
			jvm,
			"-XX:TieredStopAtLevel=1",
			"-XX:+UnlockDiagnosticVMOptions",
			"-XX:-BytecodeVerificationRemote",
		)
	}
	n := &node{id: id, dir: filepath.Join(c.dir, fmt.Sprintf("node%d", id)), libs: c.libs,
		client: ports[0], controller: ports[1], jvm: jvm, place: Place{Host: "127.0.0.1"}}
	if o.Counted {
		n.counts = ports[2]
	}
	return n
}

func (n *node) addr() string            { return fmt.Sprintf("%s:%d", n.place.Host, n.client) }
func (n *node) classpath() string       { return filepath.Join(n.libs, "*") }
func (n *node) file(name string) string { return filepath.Join(n.dir, name) }
func (n *node) data(name string) string { return filepath.Join(n.dir, "data", name) }

// configure writes the node's settings: those a small cluster needs, those
// Berth needs everywhere, then the caller's.
func (n *node) configure(all []*node, over map[string]string) error {
	if err := os.MkdirAll(n.file("tmp"), 0o755); err != nil {
		return err
	}
	var voters []string
	for _, v := range all {
		voters = append(voters, fmt.Sprintf("%d@%s:%d", v.id, v.place.Host, v.controller))
	}
	settings := n.settings(strings.Join(voters, ","), min(len(all), 3))
	maps.Copy(settings, over)
	n.elsewhere = settings["log.dirs"] != n.data("") || settings["metadata.log.dir"] != ""
	var b strings.Builder
	for _, k := range slices.Sorted(maps.Keys(settings)) {
		fmt.Fprintf(&b, "%s=%s\n", k, settings[k])
	}
	if err := os.WriteFile(n.file("server.properties"), []byte(b.String()), 0o644); err != nil {
		return err
	}
	if err := os.WriteFile(n.file("log4j2.yaml"), []byte(log4j), 0o644); err != nil || n.counts == 0 {
		return err
	}
	return os.WriteFile(n.file(countedMain+".class"), countedClass, 0o644)
}

func (n *node) settings(voters string, replicas int) map[string]string {
	listen := "PLAINTEXT://" + n.addr()
	own := map[string]string{
		"process.roles":                  "broker,controller",
		"node.id":                        fmt.Sprint(n.id),
		"controller.quorum.voters":       voters,
		"listeners":                      fmt.Sprintf("%s,CONTROLLER://%s:%d", listen, n.place.Host, n.controller),
		"advertised.listeners":           listen,
		"controller.listener.names":      "CONTROLLER",
		"inter.broker.listener.name":     "PLAINTEXT",
		"listener.security.protocol.map": "CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT",
		"log.dirs":                       n.data(""),
	}
	maps.Copy(own, Settings(replicas))
	return own
}

// Settings are what Berth and a small cluster need of every broker, however it is run.
func Settings(replicas int) map[string]string {
	rf, isr := fmt.Sprint(replicas), fmt.Sprint(max(1, replicas-1))
	return map[string]string{
		"default.replication.factor":                       rf,
		"min.insync.replicas":                              isr,
		"offsets.topic.replication.factor":                 rf,
		"offsets.topic.num.partitions":                     "6",
		"transaction.state.log.replication.factor":         rf,
		"transaction.state.log.min.isr":                    isr,
		"transaction.state.log.num.partitions":             "6",
		"share.coordinator.state.topic.replication.factor": rf,
		"share.coordinator.state.topic.min.isr":            isr,
		"share.coordinator.state.topic.num.partitions":     "6",
		"auto.create.topics.enable":                        "false",
		"group.initial.rebalance.delay.ms":                 "0",
		"group.min.session.timeout.ms":                     "1000",
		"group.share.max.share.sessions":                   "10000",
		"group.share.max.delivery.count.limit":             "25",
		"group.share.min.record.lock.duration.ms":          "1000",
		"num.network.threads":                              "2",
		"num.io.threads":                                   "4",
		"num.replica.fetchers":                             "1",
		"log.cleaner.dedupe.buffer.size":                   "16777216",
	}
}

const log4j = `Configuration:
  Appenders:
    Console: {name: STDOUT, PatternLayout: {pattern: "[%d] %p %m (%c)%n"}}
  Loggers:
    Root: {level: INFO, AppenderRef: [{ref: STDOUT}]}
`

// start runs the node with whatever data it has and answers when it serves.
func (n *node) start(ctx context.Context) error {
	log, err := os.Create(n.file("server.log"))
	if err != nil {
		return err
	}
	defer func() { _ = log.Close() }()
	args := slices.Concat(
		n.place.Within,
		[]string{"java"},
		n.jvm,
		[]string{"-Djava.io.tmpdir=" + n.file("tmp"), "-Dlog4j2.configurationFile=" + n.file("log4j2.yaml")},
		n.main(),
		[]string{n.file("server.properties")},
	)
	n.cmd = exec.Command(args[0], args[1:]...)
	n.cmd.Stdout, n.cmd.Stderr = log, log
	n.cmd.SysProcAttr = dieWithParent()
	n.done = make(chan struct{})
	if err := spawn(n.cmd, n.done); err != nil {
		close(n.done)
		return fmt.Errorf("start node %d: %w", n.id, err)
	}
	return n.awaitStarted(ctx)
}

// main is the program: Kafka's own, or the one that counts and runs it.
func (n *node) main() []string {
	if n.counts == 0 {
		return []string{"-cp", n.classpath(), "kafka.Kafka"}
	}
	return []string{
		"-cp",
		n.classpath() + string(filepath.ListSeparator) + n.file(""),
		countedMain,
		n.place.Host,
		fmt.Sprint(n.counts),
	}
}

func (n *node) running() bool {
	if n.done == nil {
		return false
	}
	select {
	case <-n.done:
		return false
	default:
		return true
	}
}

func (n *node) pid() int {
	if !n.running() {
		return 0
	}
	return n.cmd.Process.Pid
}

func (n *node) kill() error {
	if !n.running() {
		return nil
	}
	err := n.cmd.Process.Kill()
	<-n.done
	return err
}

func (n *node) stop() error {
	if !n.running() {
		return nil
	}
	err := n.cmd.Process.Signal(syscall.SIGTERM)
	<-n.done
	return err
}

func (n *node) pause() error  { return n.cmd.Process.Signal(syscall.SIGSTOP) }
func (n *node) resume() error { return n.cmd.Process.Signal(syscall.SIGCONT) }
