// SPDX-License-Identifier: Apache-2.0

// Command berth is all of Berth: the daemons that make a cell, and the command
// line that talks to its API. It is where the parts meet, and only here: each
// file reads configuration, builds, runs, waits and closes.
package main

import (
	"context"
	"os"
	"os/signal"
	"slices"
	"syscall"

	"github.com/spf13/cobra"

	"github.com/berth-project/berth/cmd/berth/measure"
	"github.com/berth-project/berth/pkg/cli"
)

func main() { os.Exit(run()) }

// run is main with an exit code, so that what is deferred happens.
func run() int {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	context.AfterFunc(ctx, stop) // a second Ctrl-C ends a process that does not heed the first, as one that reads a file
	return cli.Execute(ctx, whole(), os.Args[1:])
}

// whole is the command line with all of its commands.
func whole() *cobra.Command {
	root := cli.NewRoot()
	root.AddCommand(newAPIDaemon(), newQueuesDaemon(), newConductorDaemon(), newAgentDaemon(),
		cli.NewDemo(withSimulatedHosts), newConfig(), measure.NewBench(), measure.NewSim(),
		newDevCommand(), newTop(), newDoctor(), newVerify(), newAudit(), newRejected(), newACL(), cli.NewVersion(), cli.NewManual())
	addTo(root, "token", newTokenBootstrap())
	addTo(root, "host", newEnroll())
	publisher := cli.Group("publisher", "What writes requests to Kafka: API nodes and other programs")
	publisher.AddCommand(newPublisherEnroll())
	root.AddCommand(publisher)
	addExamples(root)
	return root
}

// addTo puts a command beside those that package cli has in a group.
func addTo(root *cobra.Command, group string, cmd *cobra.Command) {
	commands := root.Commands()
	i := slices.IndexFunc(commands, func(c *cobra.Command) bool { return c.Name() == group })
	commands[i].AddCommand(cmd)
}
