package main

import (
	"strings"
	"testing"

	"github.com/spf13/cobra"
)

// TestEveryCommandExplainsItself and keeps the spelling that was promised.
func TestEveryCommandExplainsItself(t *testing.T) {
	var seen []string
	var walk func(*cobra.Command)
	walk = func(c *cobra.Command) {
		if c.Short == "" || strings.HasSuffix(c.Short, ".") {
			t.Errorf("%s: short help %q", c.CommandPath(), c.Short)
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
		"flavor add", "flavor list", "flavor show", "flavor remove", "capability add", "capability list", "capability remove",
		"quota set", "quota show", "boot", "list", "show", "delete", "queue list", "queue show",
		"host list", "host show", "host instances", "host drain", "host enable", "host disable", "config sample", "config show", "config check",
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
