// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"fmt"
	"io"
	"runtime"
	"runtime/debug"

	"github.com/spf13/cobra"
)

// buildInfo is which program this is.
type buildInfo struct {
	Version  string `json:"version"`            // of the module; (devel) where it was built from a folder
	Commit   string `json:"commit,omitempty"`   // empty: not known
	Modified bool   `json:"modified,omitempty"` // built from files that were not committed
	Time     string `json:"time,omitempty"`     // of the commit
	Go       string `json:"go"`
	Platform string `json:"platform"`
}

func thisBuild(b *debug.BuildInfo, ok bool) buildInfo {
	v := buildInfo{Version: "unknown", Go: runtime.Version(), Platform: runtime.GOOS + "/" + runtime.GOARCH}
	if !ok {
		return v
	}
	if b.Main.Version != "" {
		v.Version = b.Main.Version
	}
	for _, s := range b.Settings {
		switch s.Key {
		case "vcs.revision":
			v.Commit = s.Value
		case "vcs.time":
			v.Time = s.Value
		case "vcs.modified":
			v.Modified = s.Value == "true"
		}
	}
	return v
}

// whatBerthIs is for people that find the program and not its pages.
const whatBerthIs = "Berth schedules virtual machines without a scheduler: " +
	"requests wait in queues in Kafka, and hosts pull what they can start."

// NewVersion says which build this is.
func NewVersion() *cobra.Command {
	return &cobra.Command{
		Use:   "version",
		Short: "Print which build this is",
		Long:  whatBerthIs + "\n\nPrints which build this is.",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			f, err := ParseFormat(cmd.Flag("output").Value.String())
			if err != nil {
				return err
			}
			return thisBuild(debug.ReadBuildInfo()).print(cmd.OutOrStdout(), f)
		},
	}
}

func (v buildInfo) print(w io.Writer, f Format) error {
	if f == FormatJSON || f == FormatYAML {
		return PrintData(w, f, v)
	}
	commit := OrDash(v.Commit)
	if v.Modified {
		commit += " and changes"
	}
	_, err := fmt.Fprintf(w, "berth %s, commit %s, %s, %s\n%s\n", v.Version, commit, v.Go, v.Platform, whatBerthIs)
	return err
}
