// SPDX-License-Identifier: Apache-2.0

package main

import (
	"embed"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"go.yaml.in/yaml/v3"

	"github.com/berth-project/berth/pkg/cli"
	"github.com/berth-project/berth/pkg/compute"
	"github.com/berth-project/berth/pkg/config"
)

//go:embed samples/*.yaml
var samples embed.FS

// daemonFile is a daemon as far as its settings go.
type daemonFile struct {
	name string
	read func(config.From) (*config.Loaded, error)
}

// daemonFiles are the daemons that read a file, in the order they are shown.
func daemonFiles() []daemonFile {
	return []daemonFile{fileOf(apiDaemon()), fileOf(queuesDaemon()), fileOf(conductorDaemon()), fileOf(agentDaemon())}
}

func fileOf[C daemonSettings](d daemon[C]) daemonFile {
	return daemonFile{d.name, func(from config.From) (*config.Loaded, error) {
		_, loaded, err := d.read(from)
		return loaded, err
	}}
}

func daemonNames() []string {
	var names []string
	for _, d := range daemonFiles() {
		names = append(names, d.name)
	}
	return names
}

func daemonFileOf(name string) (daemonFile, error) {
	files := daemonFiles()
	if i := slices.IndexFunc(files, func(d daemonFile) bool { return d.name == name }); i >= 0 {
		return files[i], nil
	}
	return daemonFile{}, compute.Invalid("daemon", name, "choose one of "+strings.Join(daemonNames(), ", "))
}

func newConfig() *cobra.Command {
	cmd := cli.Group("config", "Files that daemons read")
	cmd.AddCommand(newConfigSample(), newConfigShow(), newConfigCheck())
	return cmd
}

func newConfigSample() *cobra.Command {
	return &cobra.Command{
		Use:   "sample [api|queues|conductor|agent]",
		Short: "Print a file with every setting explained",
		Long: `Print the file of a daemon with every setting explained and set to its default; without a
name, those of all daemons. Every setting can be given as a variable too: kafka.brokers is
BERTH_KAFKA_BROKERS. And on the command line: --set kafka.brokers=k1:9092,k2:9092.`,
		Example:   "  berth config sample agent > agent.yaml\n  berth agent --config agent.yaml",
		ValidArgs: daemonNames(),
		Args:      cobra.MaximumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) == 1 {
				return printSample(cmd.OutOrStdout(), args[0])
			}
			for n, name := range daemonNames() {
				if n > 0 {
					fmt.Fprintln(cmd.OutOrStdout(), "---")
				}
				if err := printSample(cmd.OutOrStdout(), name); err != nil {
					return err
				}
			}
			return nil
		},
	}
}

func printSample(w io.Writer, name string) error {
	if _, err := daemonFileOf(name); err != nil {
		return err
	}
	data, err := samples.ReadFile("samples/" + name + ".yaml")
	if err != nil {
		return err
	}
	_, err = w.Write(data)
	return err
}

// settingRow is one setting as it is shown.
type settingRow struct {
	Key    string `json:"key"`
	Value  any    `json:"value"`
	Source string `json:"source"`
}

func settingSheet() cli.Sheet[settingRow] {
	return cli.Sheet[settingRow]{
		Name: func(s settingRow) string { return s.Key },
		Columns: []cli.Column[settingRow]{
			{Title: "KEY", Cell: func(s settingRow) string { return s.Key }},
			{Title: "VALUE", Cell: func(s settingRow) string { return inline(s.Value) }},
			{Title: "FROM", Cell: func(s settingRow) string { return s.Source }},
		},
	}
}

// inline is a value as one would write it in a file, on one line.
func inline(v any) string {
	var node yaml.Node
	if err := node.Encode(v); err != nil {
		return fmt.Sprint(v)
	}
	node.Style = yaml.FlowStyle
	text, err := yaml.Marshal(&node)
	if err != nil {
		return fmt.Sprint(v)
	}
	return strings.TrimSpace(string(text))
}

func newConfigShow() *cobra.Command {
	var flags daemonFlags
	cmd := &cobra.Command{
		Use:   "show api|queues|conductor|agent --config FILE",
		Short: "Print every setting of a daemon, and where it is from",
		Long: `Print what a daemon started with the same flags in this environment would use: each setting,
its value, and where that is from: default, file and line, variable, or flag. Secrets are masked.`,
		Example: "  berth config show api --config api.yaml\n" +
			"  BERTH_LISTEN=127.0.0.1:8080 berth config show api -o json",
		ValidArgs: daemonNames(),
		Args:      cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			f, err := cli.ParseFormat(cmd.Flag("output").Value.String())
			if err != nil {
				return err
			}
			loaded, wrong := readFor(cmd, args[0], flags)
			if loaded == nil {
				return wrong
			}
			var rows []settingRow
			for _, s := range loaded.Settings() {
				rows = append(rows, settingRow{s.Key, plainValue(s.Value()), s.Source.String()})
			}
			if err := settingSheet().List(cmd.OutOrStdout(), f, rows); err != nil {
				return err
			}
			return wrong // what cannot be used is shown too
		},
	}
	flags.add(cmd)
	return cmd
}

// plainValue is a value as a file would have it: a duration with its unit, a
// list that is empty and not missing.
func plainValue(v any) any {
	var out any
	if err := yaml.Unmarshal([]byte(inline(v)), &out); err != nil {
		return v
	}
	return out
}

// readFor reads a daemon's settings and says what is odd about the environment.
func readFor(cmd *cobra.Command, name string, flags daemonFlags) (*config.Loaded, error) {
	d, err := daemonFileOf(name)
	if err != nil {
		return nil, err
	}
	loaded, err := d.read(flags.from())
	for _, w := range loaded.Warnings {
		fmt.Fprintln(cmd.ErrOrStderr(), "warning: "+w)
	}
	return loaded, err
}

func newConfigCheck() *cobra.Command {
	var flags daemonFlags
	cmd := &cobra.Command{
		Use:   "check api|queues|conductor|agent --config FILE",
		Short: "Say whether a daemon would start with these settings",
		Long: `Read the settings as the daemon would, with the same flags and in this environment, and print
everything that is wrong with them. It exits with 0 and says ok, or with 2. Whether Kafka
suits is another question: berth doctor answers it.`,
		Example:   "  berth config check agent --config agent.yaml",
		ValidArgs: daemonNames(),
		Args:      cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if _, err := readFor(cmd, args[0], flags); err != nil {
				return err
			}
			_, err := fmt.Fprintln(cmd.OutOrStdout(), "ok")
			return err
		},
	}
	flags.add(cmd)
	return cmd
}
