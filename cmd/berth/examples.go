// SPDX-License-Identifier: Apache-2.0

package main

import (
	"strings"

	"github.com/spf13/cobra"
)

// typedExamples are what somebody would type, for the commands that do not say so where they are made.
func typedExamples() map[string][]string {
	return map[string][]string{
		"acl apply":             {"acl apply --kafka kafka-1:9092 --role api --principal User:berth-api"},
		"acl check":             {"acl check --kafka kafka-1:9092 --role agent --host rack1-07 --principal User:rack1-07"},
		"api":                   {"api --config /etc/berth/api.yaml", "api --set kafka.prefix=test. --set listen=127.0.0.1:7071"},
		"queues":                {"queues --config /etc/berth/queues.yaml"},
		"bench classic":         {"bench classic --hosts 1000"},
		"bench mix":             {"bench mix --save-after 0s,3s --save-for 60s", "bench mix --life 10m --for 1h -o json"},
		"capabilities":          {"capabilities", "capabilities -o json"},
		"capability list":       {"capability list"},
		"capability remove":     {"capability remove gpu", "capability remove gpu a100", "capability remove zone c --drain"},
		"completion bash":       {"completion bash > ~/.local/share/bash-completion/completions/berth"},
		"completion fish":       {"completion fish > ~/.config/fish/completions/berth.fish"},
		"completion powershell": {"completion powershell > berth.ps1"},
		"completion zsh":        {`completion zsh > "${fpath[1]}/_berth"`},
		"console":               {"console web-1"},
		"delete":                {"delete web-1 --wait", "delete web-1 web-2", "delete --label team=shop --yes"},
		"demo":                  {"demo"},
		"dev":                   {"dev --hosts 50", "dev --driver qemu --images ~/images --data ~/berth-data"},
		"flavor list":           {"flavor list"},
		"flavor remove":         {"flavor remove m1.small"},
		"flavor show":           {"flavor show m1.small"},
		"history":               {"history web-1"},
		"host disable":          {`host disable rack1-07 --reason "fan is loud"`},
		"host drain":            {`host drain rack1-07 --reason "new kernel" --deadline 2h --wait`},
		"host enable":           {"host enable rack1-07 --wait"},
		"host evacuate":         {"host evacuate rack1-07 --fenced --wait"},
		"host forget":           {"host forget rack1-07 --fenced"},
		"host instances":        {"host instances rack1-07"},
		"host list":             {"host list --sort-by -instances", "host list -o wide", "host list --label rack=r7"},
		"host show":             {"host show rack1-07"},
		"list":                  {"list --state queued", "list --label team=shop", "list --all-projects --sort-by -age", "list --watch"},
		"logout":                {"logout"},
		"queue list":            {"queue list --sort-by -queued"},
		"queue show":            {"queue show m1.small.gpu-a100"},
		"quota list":            {"quota list"},
		"group list":            {"group list", "group list --project web"},
		"group show":            {"group show web"},
		"group delete":          {"group delete web"},
		"reservation list":      {"reservation list"},
		"reservation show":      {"reservation show nightly"},
		"reservation delete":    {"reservation delete nightly"},
		"quota show":            {"quota show", "quota show web"},
		"reboot":                {"reboot web-1", "reboot web-1 --hard"},
		"show":                  {"show web-1", "show web-1 -o yaml"},
		"start":                 {"start web-1"},
		"stop":                  {"stop web-1 web-2", "stop --label team=shop"},
		"token list":            {"token list"},
		"token revoke":          {"token revoke 5f0c6f0e"},
		"version":               {"version"},
		"whoami":                {"whoami"},
	}
}

// addExamples gives commands that have no example theirs.
func addExamples(root *cobra.Command) {
	for path, lines := range typedExamples() {
		cmd, rest, err := root.Find(strings.Fields(path))
		if err != nil || len(rest) > 0 || cmd.Example != "" {
			continue // TestEveryCommandExplainsItself says which has none
		}
		cmd.Example = "  berth " + strings.Join(lines, "\n  berth ")
	}
}
