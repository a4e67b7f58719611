package main

import (
	"embed"
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"

	"github.com/berth-project/berth/pkg/compute"
)

//go:embed samples/*.yaml
var samples embed.FS

// sampleNames are the daemons that read a file, in the order they are shown.
func sampleNames() []string { return []string{"api", "queues", "conductor", "agent"} }

func newConfig() *cobra.Command {
	cmd := group("config", "Files that daemons read")
	cmd.AddCommand(&cobra.Command{
		Use:   "sample [api|queues|conductor|agent]",
		Short: "Print a file with every setting explained",
		Long: `Print the file of a daemon with every setting explained and set to its default; without a
name, those of all daemons. Every setting can be given as a variable too: kafka.brokers is
BERTH_KAFKA_BROKERS.`,
		Example:   "  berth config sample agent > agent.yaml\n  berth agent --config agent.yaml",
		ValidArgs: sampleNames(),
		Args:      cobra.MaximumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) == 1 {
				return printSample(cmd.OutOrStdout(), args[0])
			}
			for n, name := range sampleNames() {
				if n > 0 {
					fmt.Fprintln(cmd.OutOrStdout(), "---")
				}
				if err := printSample(cmd.OutOrStdout(), name); err != nil {
					return err
				}
			}
			return nil
		},
	})
	return cmd
}

func printSample(w io.Writer, name string) error {
	data, err := samples.ReadFile("samples/" + name + ".yaml")
	if err != nil {
		return compute.Invalid("daemon", name, "choose one of "+strings.Join(sampleNames(), ", "))
	}
	_, err = w.Write(data)
	return err
}
