package main

import (
	"context"
	"os"

	"github.com/spf13/cobra"
	"go.uber.org/zap"

	"github.com/berth-project/berth/pkg/config"
	"github.com/berth-project/berth/pkg/service"
	"github.com/berth-project/berth/pkg/telemetry"
)

// daemonSettings is what the configuration of every daemon has.
type daemonSettings interface {
	check() error
	common() (kafkaConfig, logConfig)
}

func (c apiConfig) common() (kafkaConfig, logConfig)       { return c.Kafka, c.Log }
func (c queuesConfig) common() (kafkaConfig, logConfig)    { return c.Kafka, c.Log }
func (c conductorConfig) common() (kafkaConfig, logConfig) { return c.Kafka, c.Log }
func (c agentConfig) common() (kafkaConfig, logConfig)     { return c.Kafka, c.Log }

// daemon is one of the long-running commands.
type daemon[C daemonSettings] struct {
	name     string
	short    string
	defaults func() C
	build    func(ctx context.Context, c cell, settings C) (service.Part, error)
}

// command reads the configuration, waits for Kafka, and runs the part until a
// signal comes.
func (d daemon[C]) command() *cobra.Command {
	var file string
	cmd := &cobra.Command{
		Use:   d.name + " --config FILE",
		Short: d.short,
		Long:  d.short + ".\n\n\"berth config sample " + d.name + "\" prints a file with every setting explained.",
		Args:  cobra.NoArgs,
		RunE:  func(cmd *cobra.Command, _ []string) error { return d.run(cmd, file) },
	}
	cmd.Flags().StringVar(&file, "config", "", "YAML file; without it the defaults and the environment")
	return cmd
}

func (d daemon[C]) run(cmd *cobra.Command, file string) error {
	settings := d.defaults()
	if err := config.Load(file, os.LookupEnv, &settings); err != nil {
		return err
	}
	if err := settings.check(); err != nil {
		return err
	}
	k, l := settings.common()
	log, err := telemetry.NewLogger(cmd.ErrOrStderr(), l.Level, l.Format)
	if err != nil {
		return err
	}
	c := newCell(k, nil, log, d.name)
	c.log.Info("starting", zap.Strings("brokers", k.Brokers), zap.String("prefix", k.Prefix))
	if err := c.prepare(cmd.Context()); err != nil {
		return err
	}
	part, err := d.build(cmd.Context(), c, settings)
	if err != nil {
		return err
	}
	err = during(cmd.Context(), part, func(ctx context.Context) error {
		c.log.Info("ready")
		<-ctx.Done()
		c.log.Info("stopping")
		return nil
	})
	if err == nil {
		c.log.Info("stopped")
	}
	return err
}

func newAPIDaemon() *cobra.Command {
	return daemon[apiConfig]{
		name: "api", short: "Run an API node", defaults: defaultAPIConfig,
		build: func(ctx context.Context, c cell, s apiConfig) (service.Part, error) {
			part, _, err := newAPI(ctx, c, apiOptions{Address: s.Listen})
			return part, err
		},
	}.command()
}

func newQueuesDaemon() *cobra.Command {
	return daemon[queuesConfig]{
		name: "queues", short: "Run a queue manager", defaults: defaultQueuesConfig,
		build: func(_ context.Context, c cell, s queuesConfig) (service.Part, error) {
			return newQueues(c, queuesOptions{GroupLimit: s.GroupLimit})
		},
	}.command()
}

func newConductorDaemon() *cobra.Command {
	return daemon[conductorConfig]{
		name: "conductor", short: "Run a conductor", defaults: defaultConductorConfig,
		build: func(_ context.Context, c cell, s conductorConfig) (service.Part, error) {
			return newConductor(c, conductorOptions{Name: s.Name})
		},
	}.command()
}

func newAgentDaemon() *cobra.Command {
	return daemon[agentConfig]{
		name: "agent", short: "Run an agent: pull work for this host", defaults: defaultAgentConfig,
		build: func(_ context.Context, c cell, s agentConfig) (service.Part, error) { return newHostAgents(c, s) },
	}.command()
}
