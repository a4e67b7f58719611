package main

import (
	"fmt"
	"io"
	"strings"

	"github.com/berth-project/berth/pkg/cli"
	"github.com/berth-project/berth/pkg/compute"
	"github.com/berth-project/berth/pkg/verify"
)

// compared is what a comparison says, as data.
type compared struct {
	Sound       bool                `json:"sound"`
	Compared    verify.Tally        `json:"compared"`
	Differences []verify.Difference `json:"differences"`
	Asked       []compute.HostID    `json:"asked,omitempty"` // by --repair: about each of their machines
}

// printVerify writes what differs; the error says that something fails.
func printVerify(w io.Writer, f cli.Format, tally verify.Tally, found []verify.Difference, asked []compute.HostID) error {
	var err error
	if f == cli.FormatJSON || f == cli.FormatYAML {
		err = cli.PrintData(w, f, compared{verify.Sound(found), tally, append([]verify.Difference{}, found...), asked})
	} else {
		_, err = io.WriteString(w, verifyText(tally, found, asked))
	}
	if err == nil && !verify.Sound(found) {
		err = errUnsound
	}
	return err
}

func verifyText(tally verify.Tally, found []verify.Difference, asked []compute.HostID) string {
	var b strings.Builder
	fails := 0
	for _, d := range found {
		if d.Level == verify.Fail {
			fails++
		}
		fmt.Fprintf(&b, "%s  %s: %s, wanted %s\n      %s\n      → %s\n", d.Level, d.About, d.Says, d.Want, d.Why, d.Fix)
	}
	if len(found) > 0 {
		b.WriteString("\n")
	}
	fmt.Fprintf(&b, "Compared %d instances (%s) with %d hosts and the quotas of %d projects: %d fail, %d warnings\n",
		tally.Instances, cli.OrDash(cli.ByState(tally.States)), tally.Hosts, tally.Projects, fails, len(found)-fails)
	for _, h := range asked {
		fmt.Fprintf(&b, "%s is asked about each of its machines; look again in a minute\n", h)
	}
	return b.String()
}
