// Command berth is all of Berth: the daemons that make a cell, and the command
// line that talks to its API. It is where the parts meet, and only here: each
// file reads configuration, builds, runs, waits and closes.
package main

import (
	"context"
	"os"
	"os/signal"
	"syscall"
)

func main() { os.Exit(run()) }

// run is main with an exit code, so that what is deferred happens.
func run() int {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	root := NewRoot()
	root.AddCommand(newDemo(), newBench(), newSim(), newDevCommand(), newAPIDaemon(), newQueuesDaemon(), newConductorDaemon(), newAgentDaemon(), newDoctor(), newVerify(), newVersion())
	return Execute(ctx, root, os.Args[1:])
}
