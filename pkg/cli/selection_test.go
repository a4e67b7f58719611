// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"testing"

	"github.com/spf13/cobra"

	"github.com/berth-project/berth/pkg/client"
	"github.com/berth-project/berth/pkg/compute"
)

// TestSelector: what a shell leaves of a selector is what was meant, or is refused.
func TestSelector(t *testing.T) {
	for _, c := range []struct{ given, want []string }{
		{[]string{"team=shop"}, []string{"team=shop"}}, {[]string{"team=shop,!tier"}, []string{"team=shop", "!tier"}},
		{[]string{"team=a", "role"}, []string{"team=a", "role"}}, {[]string{`note="x"`}, []string{`note="x"`}},
		{given: []string{""}}, {given: []string{"team=shop", ""}}, {given: []string{"team=shop,"}},
		{given: []string{"team=shop, env!=prod"}},
		{given: []string{"team=shop\nenv=dev"}, want: []string{"team=shop\nenv=dev"}},
		{given: []string{"env!=prod,\tx"}}, {given: []string{strings.Repeat("a,", compute.MaxRequirements) + "a"}},
	} {
		var labels []string
		cmd := &cobra.Command{
			Use:           "x",
			RunE:          func(*cobra.Command, []string) error { return nil },
			SilenceErrors: true,
			SilenceUsage:  true,
		}
		selectorFlag(cmd, &labels, "")
		var args []string
		for _, g := range c.given {
			args = append(args, "-l", g)
		}
		cmd.SetArgs(args)
		err := cmd.Execute()
		if refused := err != nil; refused != (c.want == nil) || !refused && !slices.Equal(labels, c.want) {
			t.Errorf("%q is %q, %v", c.given, labels, err)
		}
		if err != nil && compute.KindOf(inWords(err)) != compute.KindInvalid {
			t.Errorf("%q: %v", c.given, err)
		}
	}
}

func TestAsk(t *testing.T) {
	c, err := client.New(client.Config{Address: "http://localhost", Project: "web"})
	if err != nil {
		t.Fatal(err)
	}
	found := []client.Instance{
		{ID: "11111111-1111-4111-8111-111111111111"},
		{Name: "b\x1b[2K"},
		{Name: "a"},
		{Name: "c"},
	}
	for said, yes := range map[string]bool{"y\n": true, "YES\n": true, " y ": true, "n\n": false, "\n": false,
		"": false, "yess\n": false} {
		var asked bytes.Buffer
		cmd := &cobra.Command{}
		cmd.SetContext(t.Context())
		cmd.SetIn(strings.NewReader(said))
		cmd.SetErr(&asked)
		err := (&selection{}).ask(cmd, c, "delete", found)
		if (err == nil) != yes || err != nil && compute.KindOf(err) != compute.KindConflict {
			t.Errorf("%q: %v", said, err)
		}
		const want = "To delete: 4 instances of project web: 11111111, a, b?[2K, and 1 more.\nGo on? [y/N] "
		if asked.String() != want {
			t.Errorf("it asks %q, want %q", asked.String(), want)
		}
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	cmd := &cobra.Command{}
	cmd.SetContext(ctx)
	in, typed := io.Pipe()
	defer typed.Close()
	cmd.SetIn(in)
	cmd.SetErr(io.Discard)
	if err := (&selection{}).ask(cmd, c, "delete", found); !errors.Is(err, context.Canceled) {
		t.Errorf("interrupted: %v", err)
	}
	if err := (&selection{yes: true}).ask(cmd, c, "delete", found); err != nil {
		t.Errorf("not to be asked: %v", err)
	}
}

// TestAll: of those with labels each is asked; what does not work for one does not keep the others from it, and is
// said.
func TestAll(t *testing.T) {
	var meant []client.Instance
	for n := range 4 {
		meant = append(meant, client.Instance{ID: compute.InstanceID(fmt.Sprint("i-", n)), Name: fmt.Sprint("web-", n)})
	}
	does := func(fails map[string]error) (*[]string, func(client.Instance) error) {
		asked := &[]string{}
		return asked, func(i client.Instance) error {
			*asked = append(*asked, i.Name)
			return fails[i.Name]
		}
	}
	conflict := compute.Conflict("instance", "web-1", "is stopped", "start it")
	some := &selection{labels: []string{"team=a"}}
	asked, do := does(map[string]error{"web-1": conflict})
	done, err := some.all(meant, do)
	if len(*asked) != 4 || len(done) != 3 || codeOf(err) != codeOf(conflict) ||
		!strings.Contains(err.Error(), "3 of 4 instances were asked, and not web-1: ") {
		t.Errorf("asked %q, done %d: %v", *asked, len(done), err)
	}
	asked, do = does(map[string]error{"web-1": compute.Unavailable("ask", errors.New("no route"))})
	done, err = some.all(meant, do)
	if len(*asked) != 2 || len(done) != 1 ||
		!strings.Contains(err.Error(), "1 of 4 instances were asked, and not web-1, web-2, web-3: ") {
		t.Errorf("asked %q, done %d: %v", *asked, len(done), err)
	}
	asked, do = does(map[string]error{"web-1": conflict})
	if done, err = (&selection{}).all(meant, do); len(*asked) != 2 || len(done) != 1 || !errors.Is(err, conflict) {
		t.Errorf("by their names: asked %q, done %d: %v", *asked, len(done), err)
	}
	if done, err = some.all(nil, do); len(done) != 0 || err != nil {
		t.Errorf("nobody: %v %v", done, err)
	}
}

// TestInputIsNotAwaitedForEver: a command that reads standard input ends when it is called off.
func TestInputIsNotAwaitedForEver(t *testing.T) {
	ctx, stop := context.WithCancel(t.Context())
	stdin, typing := io.Pipe()
	defer func() { _ = typing.Close() }()
	stop()
	for _, c := range []func(*settings) *cobra.Command{newLogin, newWhy} {
		cmd := c(&settings{api: "http://127.0.0.1:1", project: "default", output: "table", token: "t"})
		cmd.SetIn(stdin)
		cmd.SilenceErrors, cmd.SilenceUsage = true, true
		cmd.SetErr(io.Discard)
		args := []string(nil)
		if cmd.Name() == "why" {
			args = []string{"--mix", "-"}
		}
		cmd.SetArgs(args)
		if err := cmd.ExecuteContext(ctx); !errors.Is(err, context.Canceled) {
			t.Errorf("%s: %v", cmd.Name(), err)
		}
	}
}
