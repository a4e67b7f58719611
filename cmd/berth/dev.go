// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"
	"path/filepath"
	"strings"
	"syscall"

	"github.com/spf13/cobra"

	"github.com/berth-project/berth/compute-agent/hypervisor/host"
	"github.com/berth-project/berth/compute-agent/hypervisor/qemu"
	"github.com/berth-project/berth/pkg/api"
	"github.com/berth-project/berth/pkg/cell"
	"github.com/berth-project/berth/pkg/cli"
	"github.com/berth-project/berth/pkg/compute"
	"github.com/berth-project/berth/pkg/telemetry"
	"github.com/berth-project/berth/pkg/tracing"
	"github.com/berth-project/berth/pkg/wire"
)

// newDevCommand is a whole Berth in one process that stays up.
func newDevCommand() *cobra.Command {
	var o cell.EverythingOptions
	var hosts int
	var tokens bool
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
			if err := tracing.CheckEndpoint("traces", o.Tracing.Endpoint); err != nil {
				return err
			}
			o.Tracing.Ratio = 1
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
			o.Brokers = func(addrs []string) { real.kafka = strings.Join(addrs, ",") }
			if tokens {
				o.FirstToken = func(text string) { real.token = text }
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
	f.StringVar(
		&real.kind,
		"driver",
		"fake",
		"what runs the machines: fake, or qemu: one host, this machine, with --data and --images",
	)
	f.StringVar(&real.images, "images", "", "folder of the images for --driver qemu")
	f.IntVar(&hosts, "hosts", 20, "how many simulated hosts")
	f.StringVar(&o.Listen, "listen", "127.0.0.1:7070", "where the API listens; loopback only")
	f.BoolVar(&tokens, "tokens", false, "callers sign in: an admin's token for a day is printed")
	f.StringVar(&o.Data, "data", "", "folder to keep everything in; without it all is forgotten at the end")
	f.StringSliceVar(&o.Kafka, "kafka", nil, "brokers, host:port; without it an embedded one")
	f.StringVar(&o.Tracing.Endpoint, "traces", "", "collector for traces of all boots, OTLP over HTTP: http://HOST:4318")
	f.StringVar(&o.Prefix, "prefix", wire.DefaultPrefix, "prefix of the cell's topics")
	cli.HideGlobalFlags(cmd)
	return cmd
}

// withSimulatedHosts runs a whole Berth with so many simulated hosts while use does, and stops it afterwards.
func withSimulatedHosts(ctx context.Context, hosts int, use func(ctx context.Context, address string) error) error {
	o := cell.EverythingOptions{Hosts: cell.SimulatedHosts(hosts), Listen: "127.0.0.1:0"}
	return cell.WithEverything(ctx, o, use)
}

// devDriver is what `berth dev` was told of its hosts.
type devDriver struct{ kind, images, token, kafka string }

// choose makes this machine the only host if QEMU is asked for. Its machines
// outlive this process, so they need a folder that stays.
func (d devDriver) choose(o *cell.EverythingOptions) error {
	switch d.kind {
	case "fake":
		return nil
	case "qemu":
	default:
		return compute.Invalid("driver", d.kind, "give fake or qemu")
	}
	if o.Data == "" {
		return compute.Invalid(
			"data",
			"",
			"name a folder: machines on QEMU outlive this process, and what is known of them has to as well",
		)
	}
	if d.images == "" {
		return compute.Invalid("images", "", "name the folder with the images; docs/HYPERVISORS.md says what is in it")
	}
	data, err := filepath.Abs(o.Data)
	if err != nil {
		return err
	}
	images, err := filepath.Abs(d.images)
	if err != nil {
		return err
	}
	o.Data, o.Hosts = data, nil
	o.QEMU = &qemu.Options{Options: host.Options{
		Dir: filepath.Join(data, "qemu"), Images: images, ImagesTrusted: true, // the folder's owner has just named it
	}}
	return o.QEMU.Check()
}

// banner is what is said once Berth is up. What it says to type works as it stands
// there.
func (d devDriver) banner(address string, hosts int) string {
	what, note := fmt.Sprintf("%d simulated hosts", hosts), ""
	lines := []string{
		"berth flavor add m1.small --vcpus 1 --memory 2GiB --disk 20GiB",
		"berth boot --flavor m1.small --name web --wait",
	}
	if d.kind == "qemu" {
		what = "one real host"
		image := anImage(d.images)
		if image == "" {
			image, note = "IMAGE", "with the name of an image that you put into "+d.images+"\n"
		}
		lines = []string{
			"berth flavor add small --vcpus 1 --memory 1GiB --disk 10GiB",
			"berth boot --flavor small --name web --image " + image + " --wait",
		}
	}
	key := ""
	if d.token == "" {
		note += "Nobody signs in: whoever reaches this address may do everything.\n"
	} else {
		key = "  export BERTH_TOKEN=" + d.token + "\n"
	}
	kafka := ""
	if d.kafka != "" {
		kafka = ", Kafka on " + d.kafka
	}
	return fmt.Sprintf("Berth is up: %s, API on http://%s, a console on http://%[2]s/ui/,\n"+
		"metrics of every part on http://%[2]s/metrics"+kafka+"\n"+
		"  export BERTH_API=http://%[2]s\n%s  %s\n%sCtrl-C stops it.\n",
		what, address, key, strings.Join(lines, "\n  "), note)
}

// anImage is the name of some image in a folder; empty if there is none.
func anImage(dir string) string {
	for _, pattern := range []string{"*.qcow2", "*.raw", "*/kernel"} {
		if found, err := filepath.Glob(filepath.Join(dir, pattern)); err == nil && len(found) > 0 {
			file, _ := filepath.Rel(dir, found[0]) // it is in the folder
			if file, kernel := strings.CutSuffix(file, string(filepath.Separator)+"kernel"); kernel {
				return file
			}
			return strings.TrimSuffix(file, filepath.Ext(file))
		}
	}
	return ""
}
