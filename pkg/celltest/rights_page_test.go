// SPDX-License-Identifier: Apache-2.0

package celltest

import (
	"context"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/berth-project/berth/pkg/compute"
	"github.com/berth-project/berth/pkg/kafka/access"
	"github.com/berth-project/berth/pkg/kafkatest"
	"github.com/berth-project/berth/pkg/wire"
)

// lockedOther is a host that nobody speaks for in TestRightsOnKafka.
const lockedOther = "h2"

// trial is one thing that is tried, and the right that it needs.
type trial struct {
	kind access.Kind
	name string
	op   access.Operation
	do   func(ctx context.Context, a *kafkatest.Tries, name string) (bool, error)
}

func (x trial) String() string { return string(x.op) + " " + string(x.kind) + " " + x.name }

// trials are all that is tried with each role.
func trials(t wire.Topics) (all []trial) {
	add := func(kind access.Kind, name string, op access.Operation,
		do func(*kafkatest.Tries, context.Context, string) (bool, error)) {
		all = append(all, trial{kind, name, op, func(ctx context.Context, a *kafkatest.Tries, n string) (bool, error) {
			return do(a, ctx, n)
		}})
	}
	topics := append(t.Own(),
		t.Tokens(), t.Audit(), t.Build("m1.small"), t.Host(lockedHost), t.Host(lockedOther), "another.requests",
	)
	for _, name := range topics {
		add(access.Topic, name, access.Read, (*kafkatest.Tries).Read)
		add(access.Topic, name, access.Write, (*kafkatest.Tries).Write)
		add(access.Topic, name, access.Create, func(a *kafkatest.Tries, ctx context.Context, n string) (bool, error) {
			return a.Create(ctx, n+".new")
		})
		add(access.Topic, name, access.Delete, (*kafkatest.Tries).Delete)
		add(access.Topic, name, access.Describe, (*kafkatest.Tries).Describe)
		add(access.Topic, name, access.DescribeConfigs, (*kafkatest.Tries).TopicSettings)
		add(access.Topic, name, access.AlterConfigs, (*kafkatest.Tries).AlterTopicSettings)
	}
	for _, name := range []string{t.ConductorGroup(), t.ManagerGroup(), t.ShareGroup(0), "another"} {
		add(access.Group, name, access.Read, (*kafkatest.Tries).Join)
		add(access.Group, name, access.Describe, (*kafkatest.Tries).DescribeGroup)
		add(access.Group, name, access.DescribeConfigs, (*kafkatest.Tries).GroupSettings)
		add(access.Group, name, access.AlterConfigs, (*kafkatest.Tries).AlterGroupSettings)
	}
	for _, name := range []string{t.ConductorGroup() + ".0", "another.0"} {
		add(access.TransactionalID, name, access.Write, (*kafkatest.Tries).End)
	}
	add(access.Cluster, access.ClusterName, access.Describe,
		func(a *kafkatest.Tries, ctx context.Context, _ string) (bool, error) { return a.DescribeACLs(ctx) })
	add(access.Cluster, access.ClusterName, "Alter",
		func(a *kafkatest.Tries, ctx context.Context, _ string) (bool, error) { return a.AlterACLs(ctx) })
	return all
}

// mayDo is what the table in code gives a role.
func mayDo(t *testing.T, role access.Role, x trial) bool {
	t.Helper()
	who := access.Identity{Role: role, Topics: wire.Topics{Prefix: "s."}}
	if role == access.Agent {
		who.Hosts = []compute.HostID{lockedHost}
	}
	needs, err := who.Needs()
	if err != nil {
		t.Fatal(err)
	}
	missing, _ := access.Compare([]access.Right{access.To(x.op, x.kind, x.name)}, needs)
	return len(missing) == 0
}

// short is how the page writes an operation.
var short = map[access.Operation]string{
	access.Read: "R", access.Write: "W", access.Create: "C", access.Delete: "X", access.Describe: "D",
	access.DescribeConfigs: "d", access.AlterConfigs: "a", "Alter": "A",
}

// rightsTable is the page's table of all roles.
func rightsTable(allowed func(access.Role, trial) bool) string {
	roles := access.Roles()
	var b strings.Builder
	b.WriteString("| on | tried |")
	for _, r := range roles {
		b.WriteString(" " + string(r) + " |")
	}
	b.WriteString("\n|---|---|" + strings.Repeat("---|", len(roles)) + "\n")
	all := trials(wire.Topics{Prefix: "s."})
	for len(all) > 0 {
		kind, name := all[0].kind, all[0].name
		n := slices.IndexFunc(all, func(x trial) bool { return x.kind != kind || x.name != name })
		if n < 0 {
			n = len(all)
		}
		cells := make([]string, len(roles)+1)
		for _, x := range all[:n] {
			cells[0] += short[x.op]
			for i, r := range roles {
				if allowed(r, x) {
					cells[i+1] += short[x.op]
				}
			}
		}
		on := string(kind) + " `" + strings.TrimPrefix(name, "s.") + "`"
		b.WriteString("| " + on + " | " + strings.Join(cells, " | ") + " |\n")
		all = all[n:]
	}
	return b.String()
}

const (
	beginRights = "<!-- the table below is written by TestRightsOnKafka -->"
	beginAgent  = "<!-- what an agent tries is written by TestRightsOnKafka -->"
)

// checkRightsPage looks that docs/KAFKA-RIGHTS.md has the table; BERTH_UPDATE=1 writes it anew. Of what an agent
// tries, nil stays as it is.
func checkRightsPage(t *testing.T, allowed func(access.Role, trial) bool, agent [][2]string) {
	t.Helper()
	path := filepath.Join("..", "..", "docs", "KAFKA-RIGHTS.md")
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	want := between(t, string(text), beginRights, rightsTable(allowed))
	if agent != nil {
		rows := "| an agent tries to | |\n|---|---|\n"
		for _, r := range agent {
			rows += "| " + r[0] + " | " + r[1] + " |\n"
		}
		want = between(t, want, beginAgent, rows)
	}
	switch {
	case want == string(text):
	case os.Getenv("BERTH_UPDATE") != "":
		if err := os.WriteFile(path, []byte(want), 0o644); err != nil {
			t.Fatal(err)
		}
	default:
		t.Errorf("%s does not say what each role may do; run this test with BERTH_UPDATE=1", path)
	}
}

// between puts a table between a comment and the next one.
func between(t *testing.T, text, begin, table string) string {
	t.Helper()
	before, rest, ok := strings.Cut(text, begin)
	_, after, ok2 := strings.Cut(rest, endTables)
	if !ok || !ok2 {
		t.Fatalf("docs/KAFKA-RIGHTS.md has no place for a table: %s", begin)
	}
	return before + begin + "\n\n" + table + "\n" + endTables + after
}

// docs/KAFKA-RIGHTS.md has what package access says. TestRightsOnKafka has Kafka say the same.
func TestRightsPage(t *testing.T) {
	checkRightsPage(t, func(r access.Role, x trial) bool { return mayDo(t, r, x) }, nil)
}
