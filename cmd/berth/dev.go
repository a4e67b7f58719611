package main

import (
	"context"
	"fmt"
	"strings"
	"syscall"

	"github.com/spf13/cobra"

	"github.com/berth-project/berth/pkg/api"
	"github.com/berth-project/berth/pkg/cell"
	"github.com/berth-project/berth/pkg/compute"
	"github.com/berth-project/berth/pkg/telemetry"
	"github.com/berth-project/berth/pkg/wire"
)

// newDevCommand is a whole Berth in one process that stays up.
func newDevCommand() *cobra.Command {
	var o cell.EverythingOptions
	var hosts int
	var real devDriver
	cmd := &cobra.Command{
		Use:   "dev",
		Short: "Run everything in this process, with simulated hosts or a real one, until interrupted",
		Long: `dev runs an API node, a queue manager, a conductor and simulated hosts in this
process, on an embedded broker or on the Kafka named by --kafka. With --data it
goes on where it stopped; without it, machines on a Kafka that stays are lost.`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if hosts < 0 || hosts > 10_000 {
				return compute.Invalid("hosts", fmt.Sprint(hosts), "give a number from 0 to 10000")
			}
			o.Hosts = cell.SimulatedHosts(hosts)
			if err := real.choose(&o); err != nil {
				return err
			}
			if err := api.CheckAddress(o.Listen); err != nil {
				return err
			}
			syscall.Umask(0o077) // what the embedded broker keeps is for nobody else, too
			var err error
			if o.Log, err = telemetry.NewLogger(cmd.ErrOrStderr(), "warn", "console"); err != nil {
				return err
			}
			if len(o.Kafka) > 0 {
				fmt.Fprintln(cmd.ErrOrStderr(), "Waiting for Kafka at", strings.Join(o.Kafka, ", "))
			}
			return cell.WithEverything(cmd.Context(), o, func(ctx context.Context, address string) error {
				fmt.Fprint(cmd.OutOrStdout(), real.banner(address, hosts))
				<-ctx.Done()
				return nil
			})
		},
	}
	f := cmd.Flags()
	f.StringVar(&real.kind, "driver", "fake", "what runs the machines: fake, or qemu: one host, this machine, with --data and --images")
	f.StringVar(&real.images, "images", "", "folder of the images for --driver qemu")
	f.IntVar(&hosts, "hosts", 20, "how many simulated hosts")
	f.StringVar(&o.Listen, "listen", "127.0.0.1:7070", "where the API listens; loopback only")
	f.StringVar(&o.Data, "data", "", "folder to keep everything in; without it all is forgotten at the end")
	f.StringSliceVar(&o.Kafka, "kafka", nil, "brokers, host:port; without it an embedded one")
	f.StringVar(&o.Prefix, "prefix", wire.DefaultPrefix, "prefix of the cell's topics")
	return cmd
}

// withSimulatedHosts runs a whole Berth with so many simulated hosts while use does, and stops it afterwards.
func withSimulatedHosts(ctx context.Context, hosts int, use func(ctx context.Context, address string) error) error {
	o := cell.EverythingOptions{Hosts: cell.SimulatedHosts(hosts), Listen: "127.0.0.1:0"}
	return cell.WithEverything(ctx, o, use)
}
