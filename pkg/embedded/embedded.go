// SPDX-License-Identifier: Apache-2.0

// Package embedded runs a Kafka-speaking broker (kfake) inside the process,
// for `berth dev`, `berth demo`, tests and simulation. It is no Kafka: a kill
// loses which records of a queue are locked, one goroutine serves all, and uninitialised
// share state goes unnoticed. What is true, Kafka decides.
package embedded

import (
	"fmt"
	"net"
	"os"
	"path/filepath"
	"syscall"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kmsg"
	"github.com/twmb/franz-go/pkg/kversion"
)

// Options say how the broker runs. The zero value is a broker on a free
// loopback port that forgets everything at the end.
type Options struct {
	// 0: a free one; of several brokers the first one's, and the next ones are the others'
	Port    int
	Brokers int                                                 // 0: one; see several.go
	DataDir string                                              // of one broker at a time; empty: memory only
	Listen  func(network, address string) (net.Listener, error) // nil: net.Listen
	Configs map[string]string                                   // broker settings over ours
	APIsOf  string                                              // only those of an older Kafka, as in "3.9"; empty: all
}

// Broker is a running embedded broker.
type Broker struct {
	cluster *kfake.Cluster
	lock    *os.File // of DataDir; nil: none
	ports   []int    // of each broker, by its number
}

// Start runs a broker until Close.
func Start(o Options) (*Broker, error) {
	opts := []kfake.Opt{
		kfake.Ports(o.ports()...),
		kfake.BrokerConfigs(settings(o.Configs)),
	}
	if o.APIsOf != "" {
		versions := kversion.FromString(o.APIsOf)
		if versions == nil {
			return nil, fmt.Errorf("start the embedded broker: there is no Kafka %s", o.APIsOf)
		}
		opts = append(opts, kfake.MaxVersions(versions))
	}
	b := &Broker{}
	if o.DataDir != "" {
		var err error
		if b.lock, err = lock(o.DataDir); err != nil {
			return nil, fmt.Errorf("start the embedded broker: %w", err)
		}
		opts = append(opts, kfake.DataDir(o.DataDir), kfake.SyncWrites())
	}
	if o.Listen != nil {
		opts = append(opts, kfake.ListenFn(o.Listen))
	}
	var err error
	if b.cluster, err = kfake.NewCluster(opts...); err != nil {
		_ = b.lock.Close() // nil has nothing to close
		return nil, fmt.Errorf("start the embedded broker: %w", err)
	}
	b.ports = portsOf(b.cluster.ListenAddrs())
	if o.DataDir != "" {
		b.Observe(kmsg.DeleteRecords, keepLast)
		b.Observe(kmsg.CreateTopics, keepAll)
	}
	b.Observe(kmsg.Produce, nameTopics)
	return b, nil
}

// nameTopics gives topics that a request names by their ids alone names of their own, which observers of requests see,
// too. kfake replaces those of topics that are there, and takes all others for one topic: at the second of them in one
// request it panics.
func nameTopics(req kmsg.Request) {
	r := req.(*kmsg.ProduceRequest)
	for i := range r.Topics {
		if t := &r.Topics[i]; t.Topic == "" {
			t.Topic = string(t.TopicID[:])
		}
	}
}

// keepLast has one record less removed than was asked for. kfake forgets on a restart
// where a log ended of which every record was removed: the next one gets offset 0, and
// a share group that is further than that does not hand it out.
func keepLast(req kmsg.Request) {
	for _, t := range req.(*kmsg.DeleteRecordsRequest).Topics {
		for i := range t.Partitions {
			if p := &t.Partitions[i]; p.Offset > 0 {
				p.Offset--
			}
		}
	}
}

// keepAll makes topics whose records do not expire: kfake forgets where a log ended that has expired as a whole, as it
// does where all was removed, and what has read it would wait at an offset that comes again.
func keepAll(req kmsg.Request) {
	forever := "-1"
	for _, t := range req.(*kmsg.CreateTopicsRequest).Topics {
		for i := range t.Configs {
			if c := &t.Configs[i]; c.Name == "retention.ms" {
				c.Value = &forever
			}
		}
	}
}

// lock makes the folder and keeps every other process from it until the file
// is closed, by a kill too. Two brokers would write into each other's logs.
func lock(dir string) (*os.File, error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, err
	}
	f, err := os.OpenFile(filepath.Join(dir, "lock"), os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, err
	}
	if err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err != nil {
		_ = f.Close() // what counts is that it is not ours
		return nil, fmt.Errorf("%s is in use by another process; stop that one, or give another folder: %w", dir, err)
	}
	return f, nil
}

const virtualPort = 9092

// ports are where the brokers listen. A virtual network has no port 0.
func (o Options) ports() []int {
	first := o.Port
	if first == 0 && o.Listen != nil {
		first = virtualPort
	}
	ports := make([]int, max(o.Brokers, 1))
	for i := range ports {
		if first > 0 {
			ports[i] = first + i
		}
	}
	return ports
}

// settings are the broker settings Berth needs everywhere.
func settings(over map[string]string) map[string]string {
	s := map[string]string{
		"group.share.delivery.count.limit":        "25",
		"group.share.record.lock.duration.ms":     "30000",
		"share.record.lock.sweep.interval.ms":     "1000",
		"group.initial.rebalance.delay.ms":        "0",
		"group.share.max.share.sessions":          "10000",
		"group.share.max.delivery.count.limit":    "25",
		"group.share.max.record.lock.duration.ms": "60000",
		// kfake has it count for compacted topics, too, unlike Kafka: what is true would be forgotten after a week.
		"log.retention.ms": "-1",
	}
	for k, v := range over {
		s[k] = v
	}
	return s
}

// Addrs is where clients connect.
func (b *Broker) Addrs() []string { return b.cluster.ListenAddrs() }

// Close ends the broker; a second call does nothing.
func (b *Broker) Close() {
	if b.lock != nil {
		b.refuseWrites()
	}
	b.cluster.Close()
	_ = b.lock.Close() // the only error is that it was closed before, or is none
}

// refuseWrites has the broker take no records any more. kfake saves what it knows of its producers between two requests,
// or while a request is shown to an observer: that request it carries out afterwards. Its records would be in the log, and
// not in what the next broker knows: sent again by a client that had no answer they would be written twice.
func (b *Broker) refuseWrites() {
	b.Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.Produce}, Err: kerr.NotLeaderForPartition, Count: -1})
}

// Observe shows every request of a kind before it is carried out, until Close, for
// tests and simulation; see may change it. It must not block, nor ask the broker
// anything.
func (b *Broker) Observe(key kmsg.Key, see func(kmsg.Request)) {
	b.cluster.ControlKey(int16(key), func(req kmsg.Request) (kmsg.Response, error, bool) {
		see(req)
		return nil, nil, false
	})
}

// Fault makes the broker answer requests with errors, for tests and simulation.
func (b *Broker) Fault(f ...kfake.Fault) *kfake.FaultHandle { return b.cluster.Fault(f...) }
