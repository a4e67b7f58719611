// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/spf13/cobra"
	"github.com/spf13/cobra/doc"
)

// TestPagesOfCommands: docs/cli has a page for each command of berth as it is now, with those below it, and a list of
// them, and nothing else; BERTH_UPDATE=1 writes them.
func TestPagesOfCommands(t *testing.T) {
	root := whole()
	pages := map[string]string{"README.md": listOfCommands(root)}
	for _, cmd := range root.Commands() {
		if cmd.IsAvailableCommand() {
			pages[cmd.Name()+".md"] = "# " + cmd.CommandPath() + "\n" + pageOfCommand(t, cmd)
		}
	}
	if len(pages) < 30 {
		t.Fatalf("only %d commands", len(pages))
	}
	samePages(t, "../../docs/cli", pages)
}

// listOfCommands is the first page: what holds for all commands, and where each is.
func listOfCommands(root *cobra.Command) string {
	var out strings.Builder
	out.WriteString("# Command line\n\n" +
		"For everybody who types `berth`: every command, with its flags and examples, made from the commands\n" +
		"themselves (`make reference`). `berth COMMAND --help` says the same.\n\n")
	out.WriteString("```\n" + strings.TrimSpace(root.Long) + "\n```\n\n| command | does |\n|---|---|\n")
	for _, cmd := range root.Commands() {
		if !cmd.IsAvailableCommand() {
			continue
		}
		fmt.Fprintf(&out, "| [%s](%s.md) | %s |\n", cmd.CommandPath(), cmd.Name(), inTable(cmd.Short))
		for _, below := range cmd.Commands() {
			if below.IsAvailableCommand() {
				fmt.Fprintf(&out, "| [%s](%s.md#%s) | %s |\n", below.CommandPath(), cmd.Name(),
					strings.ReplaceAll(below.CommandPath(), " ", "-"), inTable(below.Short))
			}
		}
	}
	out.WriteString("\nEvery command also takes:\n\n```\n" + root.PersistentFlags().FlagUsages() + "```\n")
	return out.String()
}

// inTable is text that may stand in a table.
func inTable(text string) string { return strings.ReplaceAll(text, "|", `\|`) }

// helpFlag is what every command has, and no page needs to say.
var helpFlag = regexp.MustCompile(`(?m)^ +-h, --help .*\n`)

// pageOfCommand is what cobra writes about a command, and about those below it, without what all have and without
// links.
func pageOfCommand(t *testing.T, cmd *cobra.Command) string {
	t.Helper()
	var text strings.Builder
	if err := doc.GenMarkdown(cmd, &text); err != nil {
		t.Fatal(err)
	}
	_, page, _ := strings.Cut(text.String(), "\n") // its heading is ours
	for _, end := range []string{"### Options inherited", "### SEE ALSO", "###### Auto generated"} {
		page, _, _ = strings.Cut(page, end)
	}
	if cmd.Long != "" { // it says more than the line above it
		_, page, _ = strings.Cut(page, "### Synopsis")
	}
	page = helpFlag.ReplaceAllString(page, "")
	page = strings.ReplaceAll(page, "### Options\n\n```\n```\n", "")
	page = strings.ReplaceAll(page, "### Examples\n\n", "Examples:\n\n")
	page = "\n" + strings.TrimSpace(strings.ReplaceAll(page, "### Options\n\n", "Flags:\n\n")) + "\n"
	for _, below := range cmd.Commands() {
		if below.IsAvailableCommand() {
			page += "\n## " + below.CommandPath() + "\n" + pageOfCommand(t, below)
		}
	}
	return page
}

// samePages wants a folder of the docs to have these pages and no others; BERTH_UPDATE=1 makes it so.
func samePages(t *testing.T, folder string, pages map[string]string) {
	t.Helper()
	update := os.Getenv("BERTH_UPDATE") != ""
	if update {
		if err := os.MkdirAll(folder, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(pages)) {
		samePage(t, filepath.Join(folder, name), pages[name])
	}
	there, err := filepath.Glob(filepath.Join(folder, "*.md"))
	if err != nil {
		t.Fatal(err)
	}
	for _, page := range there {
		if _, wanted := pages[filepath.Base(page)]; wanted {
			continue
		}
		if !update {
			t.Errorf("%s is about nothing that there is; run this test with BERTH_UPDATE=1", page)
		} else if err := os.Remove(page); err != nil {
			t.Fatal(err)
		}
	}
}

// samePage wants a page of the docs to be this; BERTH_UPDATE=1 writes it.
func samePage(t *testing.T, path, want string) {
	t.Helper()
	if os.Getenv("BERTH_UPDATE") != "" {
		if err := os.WriteFile(path, []byte(want), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	if is, err := os.ReadFile(path); err != nil || string(is) != want {
		t.Errorf("%s is not as what it is about is now (%v); run this test with BERTH_UPDATE=1", path, err)
	}
}
