// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"bytes"
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/berth-project/berth/pkg/compute"
)

// TestEmptyIsNotLeftOut: a flag that is given and empty is refused before anything is asked for, whatever the command:
// it would do without the rule, the filter or the key that was meant.
func TestEmptyIsNotLeftOut(t *testing.T) {
	for line, field := range map[string]string{
		"boot --flavor m1.small --name web --group=":                "group",
		"boot --flavor m1.small --name web --reservation=":          "reservation",
		"boot --flavor m1.small --name web --key=":                  "key",
		"boot --flavor m1.small --name web --id=":                   "id",
		"boot --flavor m1.small --name web --host=":                 "host",
		"boot --flavor m1.small --name web --avoid= --dry-run":      "avoid",
		"boot --flavor m1.small --name web --avoid=h1 --avoid=":     "avoid",
		"boot --flavor m1.small --name web --image=":                "image",
		"boot --flavor m1.small --name web --user-data=":            "user-data",
		"boot --flavor m1.small --name web --priority=":             "priority",
		"boot --flavor m1.small --name web --preemptible=":          "preemptible",
		"why --flavor m1.small --group=":                            "group",
		"quota set web --priority= --vcpus 0":                       "priority",
		"reserve r --flavor m1.small --for 1h --from=":              "from",
		"group create web --policy anti-affinity --spread=":         "spread",
		"group set web --policy=":                                   "policy",
		"list --name=":                                              "name",
		"list --state=":                                             "state",
		"list --host=":                                              "host",
		"events --reason=":                                          "reason",
		"capacity --flavor=":                                        "flavor",
		"token create --role reader --name=":                        "name",
		"forward --to http://127.0.0.1:1 --position-file p --host=": "host",
		"list --project=":                                           "project",
		"list --api=":                                               "api",
		"show ''":                                                   "instance",
		"delete ''":                                                 "instance",
		"delete '' --prefix":                                        "instance",
		"group set web --spread= --policy soft-affinity --over=":    "over",
	} {
		node := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			t.Errorf("%s: it asks %s %s", line, r.Method, r.URL)
			problem(w, http.StatusNotFound, compute.KindNotFound)
		}))
		args := strings.Fields(line)
		for i := range args {
			args[i] = strings.ReplaceAll(args[i], "''", "")
		}
		if field != "api" {
			args = append(args, "--api", node.URL)
		}
		t.Setenv(EnvToken, "t")
		root := NewRoot()
		var e *compute.Error
		root.SetErr(&bytes.Buffer{})
		root.SetArgs(args)
		err := root.ExecuteContext(t.Context())
		if !errors.As(err, &e) || e.Kind != compute.KindInvalid || e.Field != field || e.Value != "" || e.Remedy == "" {
			t.Errorf("%s: %v", line, err)
		}
		node.Close()
	}
}

// TestEmptyThatMeansSomething is taken: it takes something out, or drops nothing.
func TestEmptyThatMeansSomething(t *testing.T) {
	var got []string
	root := NewRoot()
	var look func(*cobra.Command)
	look = func(cmd *cobra.Command) {
		cmd.LocalFlags().VisitAll(func(f *pflag.Flag) {
			if f.Annotations[emptyMeans] != nil && cmd.LocalNonPersistentFlags().Lookup(f.Name) != nil {
				got = append(got, strings.TrimPrefix(cmd.CommandPath(), "berth ")+" --"+f.Name)
			}
		})
		for _, sub := range cmd.Commands() {
			look(sub)
		}
	}
	look(root)
	want := "group set --spread,host disable --reason,host drain --reason,host enable --reason," +
		"host evacuate --reason,host forget --reason"
	if s := strings.Join(got, ","); s != want {
		t.Errorf("%s\nwant\n%s", s, want)
	}
	for _, line := range []string{
		"host drain h1 --reason=", "group set web --spread=", "list --ca= --cert= --cert-key=", "login --scope=",
	} {
		cmd, flags, err := root.Find(strings.Fields(line))
		if err != nil || cmd.ParseFlags(flags) != nil {
			t.Fatal(line, err)
		}
		if err := refuseEmpty(cmd, nil); err != nil {
			t.Errorf("%s: %v", line, err)
		}
	}
}
