// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"os"
	"strings"

	"github.com/spf13/cobra"
	"go.uber.org/zap"

	"github.com/berth-project/berth/pkg/cell"
	"github.com/berth-project/berth/pkg/cli"
	"github.com/berth-project/berth/pkg/compute"
	"github.com/berth-project/berth/pkg/config"
	"github.com/berth-project/berth/pkg/kafka/access"
	"github.com/berth-project/berth/pkg/kafka/loop"
	"github.com/berth-project/berth/pkg/service"
	"github.com/berth-project/berth/pkg/statusserver"
	"github.com/berth-project/berth/pkg/telemetry"
)

// daemon is one of the long-running commands.
type daemon[C daemonSettings] struct {
	name     string
	short    string
	defaults func() C
	serves   bool // build serves a handler through f; otherwise f says just ready
	role     access.Role
	hosts    func(settings C) []compute.HostID // those it speaks for; nil: none
	// tokens says whether it makes the topic of the tokens where a cell has none yet; nil: never.
	tokens func(settings C) bool
	audit  func(settings C) bool // the same of the topic of the audit
	// build makes the part that runs until the daemon ends; f is its face.
	build func(ctx context.Context, c cell.Cell, settings C, f *statusserver.Server) (service.Part, error)
}

// daemonSettings is what the configuration of every daemon has.
type daemonSettings interface {
	check() error
	common() (cell.KafkaSettings, logConfig)
	tracing() cell.TracingSettings
	face() face
}

// daemonFlags say where a daemon's settings are from.
type daemonFlags struct {
	file string
	set  []string
}

func (o *daemonFlags) add(cmd *cobra.Command) {
	cmd.Flags().StringVar(&o.file, "config", "", "YAML file; without it the defaults and the environment")
	cmd.Flags().StringArrayVar(
		&o.set,
		"set",
		nil,
		"key=value: one setting, over file and environment, as in --set kafka.prefix=test.",
	)
}

// from is the command line over the environment over the file.
func (o daemonFlags) from() config.From {
	return config.From{File: o.file, Environ: os.Environ(), Set: o.set, Others: cli.Variables()}
}

// read answers the settings, where each is from, and everything that is wrong.
func (d daemon[C]) read(from config.From) (C, *config.Loaded, error) {
	settings := d.defaults()
	loaded := config.Load(&settings, from)
	return settings, loaded, loaded.Err(settings.check())
}

// command reads the configuration, waits for Kafka, and runs the part until a
// signal comes.
func (d daemon[C]) command() *cobra.Command {
	var flags daemonFlags
	cmd := &cobra.Command{
		Use:   d.name + " --config FILE",
		Short: d.short,
		Long: d.short + `.

"berth config sample ` + d.name + `" prints a file with every setting explained. A variable goes over
the file, and --set over both: kafka.prefix is BERTH_KAFKA_PREFIX and --set kafka.prefix=test.
"berth config show ` + d.name + `" with the same flags prints what comes of it.`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return d.run(cmd, flags) },
	}
	flags.add(cmd)
	cli.HideGlobalFlags(cmd)
	return cmd
}

// run answers over HTTP from the first moment, waits for Kafka however long it
// takes, and then does what the daemon is for.
func (d daemon[C]) run(cmd *cobra.Command, flags daemonFlags) error {
	settings, loaded, err := d.read(flags.from())
	if err != nil {
		return err
	}
	k, l := settings.common()
	log, err := telemetry.NewLogger(cmd.ErrOrStderr(), l.Level, l.Format)
	if err != nil {
		return err
	}
	metrics := telemetry.NewMetrics()
	c, err := cell.New(k, nil, log, d.name).Measured(metrics.Registerer()).Secured(k)
	if err != nil {
		return err
	}
	c = d.as(c, settings).Traced(settings.tracing(), d.name)
	c.Tokens = d.tokens != nil && d.tokens(settings)
	c.Audit = d.audit != nil && d.audit(settings)
	for _, w := range loaded.Warnings {
		c.Log.Warn(w)
	}
	c.Log.Info("starting", zap.Strings("brokers", k.Brokers), zap.String("prefix", k.Prefix))
	reporter := statusReporter{log: c.Log, notify: notifySystemd, serves: d.serves}
	shown, err := settings.face().options(statusserver.Options{
		Metrics: metrics.Handler(), Registerer: metrics.Registerer(), Log: c.Log, Waiting: awaited(k),
	})
	if err != nil {
		return err
	}
	reporter.face = statusserver.New(shown)
	g := service.NewGroup()
	g.Closes("traces", c.Tracer.Close)
	if shown.Address != "" {
		g.Add("status", reporter.face)
	}
	g.Add(d.name, service.Made(func(ctx context.Context) (service.Part, error) {
		if err := c.Await(ctx, reporter.waiting); err != nil {
			return nil, err
		}
		reporter.starting()
		c.Waiting = reporter.waiting
		return d.build(ctx, c, settings, reporter.face)
	}))
	return reporter.through(cmd.Context(), g, settings.face().stopDelay)
}

// as is the cell for what the daemon does. The streams of its hosts are asked about together with the cell's own
// topics.
func (d daemon[C]) as(c cell.Cell, settings C) cell.Cell {
	if d.hosts == nil {
		return c.As(d.role)
	}
	hosts := d.hosts(settings)
	for _, host := range hosts {
		c.Kafka.Known.Expect(c.Topics().Host(host))
	}
	return c.As(d.role, hosts...)
}

// awaited is what /readyz says as long as nothing worse is known.
func awaited(k cell.KafkaSettings) string {
	return "waiting for Kafka at " + strings.Join(k.Brokers, ", ")
}

func apiDaemon() daemon[apiConfig] {
	return daemon[apiConfig]{
		name: "api", short: "Run an API node", defaults: defaultAPIConfig, serves: true,
		tokens: func(s apiConfig) bool { return s.Auth.Tokens },
		audit:  apiConfig.keepsAudit,
		role:   access.API,
		build: func(ctx context.Context, c cell.Cell, s apiConfig, f *statusserver.Server) (service.Part, error) {
			s.warnOpen(c.Log)
			keys, err := s.UserData.Load(c.Topics().Prefix)
			if err != nil {
				return nil, err
			}
			key, err := publishKey(s.PublishKey)
			if err != nil {
				return nil, err
			}
			signIn, err := cell.Authenticators(c, s.Auth.OIDC, s.Auth.Certificates)
			if err != nil {
				return nil, err
			}
			return cell.NewAPI(ctx, c, cell.APIOptions{
				Server: f, Publishing: s.Limits.Publishing, PrincipalRate: s.Limits.PrincipalRate,
				Listeners: s.Limits.Listeners,
				Fencer:    s.Fence.fencer(), Tokens: s.Auth.Tokens, SignIn: signIn,
				Audit: s.keepsAudit(), Key: key, UserData: keys,
			})
		},
	}
}

func queuesDaemon() daemon[queuesConfig] {
	return daemon[queuesConfig]{
		name: "queues", short: "Run a queue manager", defaults: defaultQueuesConfig,
		tokens: func(queuesConfig) bool { return true },
		audit:  func(queuesConfig) bool { return true },
		role:   access.Queues,
		build: func(_ context.Context, c cell.Cell, s queuesConfig, _ *statusserver.Server) (service.Part, error) {
			hosts, err := s.Hosts.Verifier()
			if err != nil {
				return nil, err
			}
			return cell.NewQueueManager(
				c,
				cell.QueueManagerOptions{
					GroupLimit: s.GroupLimit, Forgotten: s.ForgottenStreams, Hosts: hosts, Savings: s.Save.Rules(),
				},
			)
		},
	}
}

func conductorDaemon() daemon[conductorConfig] {
	return daemon[conductorConfig]{
		name: "conductor", short: "Run a conductor", defaults: defaultConductorConfig,
		role: access.Conductor,
		build: func(_ context.Context, c cell.Cell, s conductorConfig, f *statusserver.Server) (service.Part, error) {
			aside := func(all []loop.Aside) { f.Trouble(asideTrouble(all)) }
			hosts, err := s.Hosts.Verifier()
			if err != nil {
				return nil, err
			}
			publishers, err := s.Publish.Verifier()
			if err != nil {
				return nil, err
			}
			return cell.NewConductor(
				c,
				cell.ConductorOptions{
					Name: s.Name, Ended: s.Limits.Ended, SoftGroupFor: s.Groups.Soft, Share: s.Limits.Builds,
					ReserveLead: s.Reservations.Lead, SetAside: aside, Hosts: hosts, Publishers: publishers,
				},
			)
		},
	}
}

func agentDaemon() daemon[agentConfig] {
	return daemon[agentConfig]{
		name: "agent", short: "Run an agent: pull work for this host", defaults: defaultAgentConfig,
		role: access.Agent, hosts: agentConfig.hosts,
		build: func(_ context.Context, c cell.Cell, s agentConfig, _ *statusserver.Server) (service.Part, error) {
			return newHostAgents(c, s)
		},
	}
}

func newAPIDaemon() *cobra.Command    { return apiDaemon().command() }
func newQueuesDaemon() *cobra.Command { return queuesDaemon().command() }

func newConductorDaemon() *cobra.Command {
	cmd := conductorDaemon().command()
	cmd.AddCommand(newResetPosition())
	return cmd
}

func newAgentDaemon() *cobra.Command {
	cmd := agentDaemon().command()
	cmd.AddCommand(newAdopt())
	return cmd
}
