package main

import (
	"fmt"
	"net"
	"time"

	"github.com/berth-project/berth/pkg/api"
	"github.com/berth-project/berth/pkg/compute"
	"github.com/berth-project/berth/pkg/wire"
)

// kafkaConfig is how a daemon reaches its cell. All daemons of a cell say the
// same.
type kafkaConfig struct {
	Brokers     []string `yaml:"brokers"`
	Prefix      string   `yaml:"prefix"`
	Partitions  int32    `yaml:"partitions"`  // used when the topics are made, never afterwards
	Replication int16    `yaml:"replication"` // 0: the brokers' default
}

// logConfig is what a daemon says, and how.
type logConfig struct {
	Level  string `yaml:"level"`  // debug, info, warn, error
	Format string `yaml:"format"` // console, json
}

// apiConfig is the file of `berth api`.
type apiConfig struct {
	Kafka  kafkaConfig `yaml:"kafka"`
	Log    logConfig   `yaml:"log"`
	Listen string      `yaml:"listen"`
}

// queuesConfig is the file of `berth queues`.
type queuesConfig struct {
	Kafka      kafkaConfig `yaml:"kafka"`
	Log        logConfig   `yaml:"log"`
	GroupLimit int         `yaml:"group_limit"`
}

// conductorConfig is the file of `berth conductor`.
type conductorConfig struct {
	Kafka kafkaConfig `yaml:"kafka"`
	Log   logConfig   `yaml:"log"`
	Name  string      `yaml:"name"`
}

// agentConfig is the file of `berth agent`.
type agentConfig struct {
	Kafka  kafkaConfig    `yaml:"kafka"`
	Log    logConfig      `yaml:"log"`
	Host   compute.HostID `yaml:"host"`
	State  string         `yaml:"state"`
	Slots  int            `yaml:"slots"`
	Driver driverConfig   `yaml:"driver"`
}

// driverConfig says what runs the machines.
type driverConfig struct {
	Kind string     `yaml:"kind"` // fake
	Fake fakeConfig `yaml:"fake"`
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

func defaultKafka() kafkaConfig {
	return kafkaConfig{Brokers: []string{"127.0.0.1:9092"}, Prefix: wire.DefaultPrefix, Partitions: 12}
}

func defaultLog() logConfig { return logConfig{Level: "info", Format: "console"} }

func defaultAPIConfig() apiConfig {
	return apiConfig{Kafka: defaultKafka(), Log: defaultLog(), Listen: "127.0.0.1:7070"}
}

func defaultQueuesConfig() queuesConfig {
	return queuesConfig{Kafka: defaultKafka(), Log: defaultLog(), GroupLimit: 14_000}
}

func defaultConductorConfig() conductorConfig {
	return conductorConfig{Kafka: defaultKafka(), Log: defaultLog()}
}

func defaultAgentConfig() agentConfig {
	return agentConfig{
		Kafka: defaultKafka(), Log: defaultLog(), State: "/var/lib/berth", Slots: 4,
		Driver: driverConfig{Kind: "fake", Fake: fakeConfig{
			World: "/var/lib/berth/world", Hosts: 1,
			Totals: compute.Resources{compute.VCPU: 16, compute.MemoryMB: 64 << 10, compute.DiskGB: 500},
		}},
	}
}

func (k kafkaConfig) check() error {
	if len(k.Brokers) == 0 {
		return compute.Invalid("kafka.brokers", "", "name at least one broker as host:port")
	}
	for _, b := range k.Brokers {
		if _, _, err := net.SplitHostPort(b); err != nil {
			return compute.Invalid("kafka.brokers", b, "give host:port, as in 127.0.0.1:9092")
		}
	}
	if k.Partitions < 1 || k.Partitions > 1000 {
		return compute.Invalid("kafka.partitions", fmt.Sprint(k.Partitions), "give a number from 1 to 1000")
	}
	if k.Replication < 0 {
		return compute.Invalid("kafka.replication", fmt.Sprint(k.Replication), "give 0 for the brokers' default, or a positive number")
	}
	if len(k.Prefix) > 40 || k.Prefix != "" && compute.Project(k.Prefix+"x").Check() != nil {
		return compute.Invalid("kafka.prefix", k.Prefix, "use at most 40 lower-case letters, digits, dots, dashes and underscores")
	}
	return nil
}

func (c apiConfig) check() error {
	if err := api.CheckAddress(c.Listen); err != nil {
		return err
	}
	return c.Kafka.check()
}

func (c queuesConfig) check() error {
	if c.GroupLimit < 1 {
		return compute.Invalid("group_limit", fmt.Sprint(c.GroupLimit), "give a positive number")
	}
	return c.Kafka.check()
}

func (c conductorConfig) check() error { return c.Kafka.check() }

func (c agentConfig) check() error {
	if err := c.Kafka.check(); err != nil {
		return err
	}
	if err := c.Host.Check(); err != nil {
		return err
	}
	if c.State == "" {
		return compute.Invalid("state", "", "give a folder that survives a reboot")
	}
	if c.Slots < 1 || c.Slots > 1000 {
		return compute.Invalid("slots", fmt.Sprint(c.Slots), "give a number from 1 to 1000")
	}
	if c.Driver.Kind != "fake" {
		return compute.Invalid("driver.kind", c.Driver.Kind, `this version has "fake" alone`)
	}
	return c.Driver.Fake.check()
}

func (f fakeConfig) check() error {
	if f.World == "" {
		return compute.Invalid("driver.fake.world", "", "give a folder for the simulated machines")
	}
	if f.Hosts < 1 || f.Hosts > 10_000 {
		return compute.Invalid("driver.fake.hosts", fmt.Sprint(f.Hosts), "give a number from 1 to 10000")
	}
	if err := f.Totals.Check(); err != nil {
		return err
	}
	for _, t := range f.Traits {
		if err := t.Check(); err != nil {
			return err
		}
	}
	return nil
}
