// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"context"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/spf13/cobra"

	"github.com/berth-project/berth/pkg/cli"
	"github.com/berth-project/berth/pkg/kafkatest"
)

// asBerth makes the test binary behave as the berth binary.
const asBerth = "BERTH_TEST_AS_BINARY"

func TestMain(m *testing.M) {
	if os.Getenv(asBerth) == "1" {
		os.Exit(run())
	}
	os.Exit(kafkatest.Main(m))
}

// soonEnough is how long a script waits for something that should happen soon, before it
// calls it lost.
const soonEnough = 4 * time.Minute

// TestEveryCommandExplainsItself and keeps the spelling that was promised.
func TestEveryCommandExplainsItself(t *testing.T) {
	var seen []string
	var walk func(*cobra.Command)
	walk = func(c *cobra.Command) {
		if c.Short == "" || strings.HasSuffix(c.Short, ".") {
			t.Errorf("%s: short help %q", c.CommandPath(), c.Short)
		}
		if c.Runnable() && !c.HasSubCommands() && !c.Hidden && c.Example == "" {
			t.Errorf("%s: the help has no example", c.CommandPath())
		}
		seen = append(seen, c.CommandPath())
		for _, sub := range c.Commands() {
			walk(sub)
		}
	}
	root := whole()
	walk(root)
	all := strings.Join(seen, "\n") + "\n"
	for _, want := range []string{
		"flavor add", "flavor list", "flavor show", "flavor remove", "capability add", "capability list",
		"capability remove",
		"quota set", "quota show", "boot", "list", "show", "delete", "queue list", "queue show",
		"host list", "host show", "host instances", "host drain", "host enable", "host disable", "config sample",
		"config show", "config check",
	} {
		if !strings.Contains(all, "berth "+want+"\n") {
			t.Errorf("there is no berth %s", want)
		}
	}
	for _, flag := range []string{"project", "api", "output"} {
		if root.PersistentFlags().Lookup(flag) == nil {
			t.Errorf("--%s is not everywhere", flag)
		}
	}
}

// A daemon's help has no flags of the API's clients.
func TestHelpOfDaemons(t *testing.T) {
	for _, name := range [][]string{{"api"}, {"conductor"}, {"queues"}, {"agent"}, {"conductor", "reset-position"}, {"dev"}} {
		root := whole()
		var out bytes.Buffer
		root.SetOut(&out)
		root.SetArgs(append(name, "--help"))
		if err := root.Execute(); err != nil {
			t.Fatal(err)
		}
		if text := out.String(); strings.Contains(text, "--project") || !strings.Contains(text, "--help") {
			t.Errorf("berth %v --help prints:\n%s", name, text)
		}
	}
}

// typed does here, in this process, what a user types behind berth: how it ends
// and what it prints. more are commands that main adds.
func typed(ctx context.Context, args []string, more ...*cobra.Command) (code int, stdout, stderr string) {
	var out, errs bytes.Buffer
	root := cli.NewRoot()
	root.AddCommand(more...)
	root.SetOut(&out)
	root.SetErr(&errs)
	code = cli.Execute(ctx, root, args)
	return code, out.String(), errs.String()
}
