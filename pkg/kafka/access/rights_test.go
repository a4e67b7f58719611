// SPDX-License-Identifier: Apache-2.0

package access

import (
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/berth-project/berth/pkg/compute"
	"github.com/berth-project/berth/pkg/wire"
)

var topicsOfTests = wire.Topics{Prefix: "c."}

func rightsOf(t *testing.T, r Role, host compute.HostID) []Right {
	t.Helper()
	out, err := Rights(r, topicsOfTests, host)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// An agent speaks for one host, and nobody else for any.
func TestHostOfARole(t *testing.T) {
	for _, r := range Roles() {
		for _, host := range []compute.HostID{"", "h1"} {
			_, err := Rights(r, topicsOfTests, host)
			if (err == nil) != ((r == Agent) == (host != "")) {
				t.Errorf("%s of host %q: %v", r, host, err)
			}
		}
	}
	if _, err := Rights(Agent, topicsOfTests, "no such\nname"); err == nil {
		t.Error("a host of any name is taken")
	}
	if _, err := RoleNamed("root"); err == nil || !strings.Contains(err.Error(), "conductor") {
		t.Errorf("an unknown role: %v", err)
	}
}

// Only the queue manager makes topics, and nobody but it removes what is in them.
func TestWhatIsRare(t *testing.T) {
	for _, r := range Roles() {
		host := compute.HostID("")
		if r == Agent {
			host = "h1"
		}
		for _, right := range rightsOf(t, r, host) {
			for _, op := range []Operation{Create, Delete, AlterConfigs} {
				if slices.Contains(right.Operations, op) && r != Queues {
					t.Errorf("%s may %s %s %s", r, op, right.Kind, right.Name)
				}
			}
			if right.Why == "" || len(right.Operations) == 0 || right.Name == "" {
				t.Errorf("%s: %+v", r, right)
			}
			if right.Kind != Cluster && !strings.HasPrefix(right.Name, topicsOfTests.Prefix) {
				t.Errorf("%s reaches out of its cell: %+v", r, right)
			}
		}
	}
}

func TestCompare(t *testing.T) {
	needed := []Right{
		{Kind: Topic, Name: "c.reports", Operations: []Operation{Write}},
		{Kind: Topic, Name: "c.build.", Prefixed: true, Operations: []Operation{Read}},
		{Kind: Group, Name: "c.conductor", Operations: []Operation{Describe}},
	}
	for name, c := range map[string]struct {
		given            []Right
		missing, surplus string
	}{
		"nothing": {nil, "Write c.reports, Read c.build.…, Describe c.conductor", ""},
		"exactly": {needed, "", ""},
		"more of one name": {append(slices.Clone(needed), Right{Kind: Topic, Name: "c.reports", Operations: []Operation{Read, Write}}),
			"", "Read c.reports"},
		"what includes it": {[]Right{
			{Kind: Topic, Name: "c.", Prefixed: true, Operations: []Operation{All}}, {Kind: Group, Name: "*", Operations: []Operation{Read}},
		}, "", "All c.…, Read *"},
		"one of the names that begin so": {[]Right{{Kind: Topic, Name: "c.build.a", Operations: []Operation{Read}}},
			"Write c.reports, Read c.build.…, Describe c.conductor", ""},
		"of another kind": {[]Right{{Kind: Topic, Name: "c.conductor", Operations: []Operation{Describe}}},
			"Write c.reports, Read c.build.…, Describe c.conductor", "Describe c.conductor"},
	} {
		t.Run(name, func(t *testing.T) {
			missing, surplus := Compare(needed, c.given)
			if diff := cmp.Diff([]string{c.missing, c.surplus}, []string{text(missing), text(surplus)}); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func text(rights []Right) string {
	var all []string
	for _, r := range rights {
		for _, op := range r.Operations {
			name := r.Name
			if r.Prefixed {
				name += "…"
			}
			all = append(all, string(op)+" "+name)
		}
	}
	return strings.Join(all, ", ")
}

// The lines can be given to a shell.
func TestCommands(t *testing.T) {
	got := Commands("k1:9092,k2:9092", "User:CN=the agent's", []Right{
		{Kind: Topic, Name: "c.build.", Prefixed: true, Operations: []Operation{Read, Describe}},
		{Kind: Cluster, Name: ClusterName, Operations: []Operation{Describe}},
	})
	who := `kafka-acls.sh --bootstrap-server k1:9092,k2:9092 --add --allow-principal 'User:CN=the agent'\''s' `
	want := []string{
		who + "--operation Read --operation Describe --topic c.build. --resource-pattern-type prefixed",
		who + "--operation Describe --cluster",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}
