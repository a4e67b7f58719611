// SPDX-License-Identifier: Apache-2.0

package celltest

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/berth-project/berth/compute-agent/hypervisor/fake"
	"github.com/berth-project/berth/pkg/cell"
	"github.com/berth-project/berth/pkg/compute"
	"github.com/berth-project/berth/pkg/kafka/access"
	kafkaadmin "github.com/berth-project/berth/pkg/kafka/admin"
	"github.com/berth-project/berth/pkg/kafkatest"
	"github.com/berth-project/berth/pkg/localkafka"
)

// locked is a cell on a Kafka that allows nothing by itself: each role has a user, with
// what package access gives it.
type locked struct {
	*rig
	open  []string // where brokers take everybody as a super user
	sasl  []string // where users sign in
	users map[access.Role]kafkatest.User
}

func newLocked(t *testing.T) *locked {
	t.Helper()
	ports, err := localkafka.FreePorts(3)
	if err != nil {
		t.Fatal(err)
	}
	at := func(i int) string { return fmt.Sprintf("127.0.0.1:%d", ports[i]) }
	clients := "PLAINTEXT://" + at(0) + ",USERS://" + at(1)
	kafkatest.StartT(t, localkafka.Options{Properties: map[string]string{
		"listeners": clients + ",CONTROLLER://" + at(2), "advertised.listeners": clients, "controller.quorum.voters": "1@" + at(2),
		"listener.security.protocol.map":                     "CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT,USERS:SASL_PLAINTEXT",
		"sasl.enabled.mechanisms":                            "SCRAM-SHA-256",
		"listener.name.users.scram-sha-256.sasl.jaas.config": "org.apache.kafka.common.security.scram.ScramLoginModule required;",
		"authorizer.class.name":                              "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
		"super.users":                                        "User:ANONYMOUS",
	}})
	r := &rig{
		t: t, kafka: cell.KafkaSettings{Brokers: []string{at(0)}, Prefix: "s.", Partitions: 2}, data: t.TempDir(),
		parts: map[string]*running{}, seen: newWitness(),
	}
	t.Cleanup(r.stopAll)
	l := &locked{rig: r, open: []string{at(0)}, sasl: []string{at(1)}, users: map[access.Role]kafkatest.User{}}
	var all []kafkatest.User
	for _, role := range access.Roles() {
		l.users[role] = kafkatest.User{Name: "the-" + string(role), Password: "pw-" + string(role)}
		all = append(all, l.users[role])
	}
	r.must(kafkatest.AddUsers(t.Context(), l.open, all...))
	return l
}

// host is whose agent has a user.
const lockedHost = "h1"

// flags are those of berth acl for a role.
func (l *locked) flags(role access.Role) []string {
	out := []string{"--kafka", l.open[0], "--prefix", l.kafka.Prefix, "--role", string(role), "--principal", "User:" + l.users[role].Name}
	if role == access.Agent {
		out = append(out, "--host", lockedHost)
	}
	return out
}

// runs starts the daemon of a role, as its user.
func (l *locked) runs(role access.Role, settings map[string]any) {
	l.t.Helper()
	file := filepath.Join(l.data, string(role)+".password")
	l.must(os.WriteFile(file, []byte(l.users[role].Password), 0o600))
	was := l.kafka
	l.kafka.Brokers = l.sasl
	l.kafka.SASL = cell.SASLSettings{Mechanism: "SCRAM-SHA-256", User: l.users[role].Name, PasswordFile: file}
	l.daemonOf(string(role), string(role), settings)
	l.kafka = was
}

// With what the table gives, and nothing else, a cell works; and what it does not give, Kafka
// refuses.
func TestRightsOnKafka(t *testing.T) {
	kafkatest.Need(t)
	l := newLocked(t)
	for _, role := range access.Roles() {
		code, out, errs := ran(t, append([]string{"acl", "check"}, l.flags(role)...)...)
		if code != 1 || !strings.Contains(out, "missing") {
			t.Errorf("%s before it has anything: exit %d\n%s%s", role, code, out, errs)
		}
		code, out, errs = ran(t, append([]string{"acl", "apply", "-o", "json"}, l.flags(role)...)...)
		var given struct {
			Principal, Role string
			Rights          []access.Right
		}
		if err := json.Unmarshal([]byte(out), &given); code != 0 || err != nil || given.Role != string(role) ||
			given.Principal != "User:"+l.users[role].Name || len(given.Rights) == 0 {
			t.Fatalf("%s: exit %d, %v\n%s%s", role, code, err, out, errs)
		}
		if code, out, errs = ran(t, append([]string{"acl", "check"}, l.flags(role)...)...); code != 0 || !strings.Contains(out, "and nothing else") {
			t.Errorf("%s: exit %d\n%s%s", role, code, out, errs)
		}
	}
	l.works()
	admin, err := kafkaadmin.New(l.cell("admin").Kafka)
	l.must(err)
	defer admin.Close()
	l.must(admin.EnsureHostTopic(t.Context(), "h2", 1)) // of a host that nobody here speaks for
	l.triesAll()
}

// works has a machine booted and deleted, a host drained, and a console read.
func (l *locked) works() {
	world, err := fake.OpenWorld(filepath.Join(l.data, "world"))
	l.must(err)
	l.world = world
	l.runs(access.Queues, map[string]any{})
	l.runs(access.Conductor, map[string]any{"name": "conductor"})
	l.api = freeAddress(l.t)
	l.runs(access.API, map[string]any{"listen": l.api})
	l.runs(access.Agent, map[string]any{"host": lockedHost, "state": filepath.Join(l.data, "agent"), "driver": map[string]any{
		"kind": "fake", "fake": map[string]any{"world": filepath.Join(l.data, "world"), "totals": map[string]any{"VCPU": 8, "MEMORY_MB": 8 << 10, "DISK_GB": 100}},
	}})
	c := l.cell("witness")
	l.start("witness", c.Committed(c.Topics().Instances(), l.seen.take))
	user := l.as("default")
	l.known(cell.SimulatedHost{ID: lockedHost})
	l.offer(user, nil, []compute.Flavor{small("m1.small")})
	id := l.boot(user, 1, compute.Boot{Flavor: "m1.small"})
	l.await(id, compute.StateActive)
	if _, err := user.Console(l.t.Context(), id[0], 0, 1); err != nil && compute.KindOf(err) != compute.KindNotFound {
		l.t.Errorf("console: %v", err)
	}
	_, err = user.Delete(l.t.Context(), id[0])
	l.must(err)
	l.await(id, compute.StateDeleted)
}

// trial is one thing that is tried, and the right that it needs.
type trial struct {
	kind access.Kind
	name string
	op   access.Operation
	do   func(context.Context, *kafkatest.Tries, string) (bool, error)
}

// trials are all that is tried with each role.
func (l *locked) trials() (all []trial) {
	t := l.cell("t").Topics()
	names := append(t.Own(), t.Build("m1.small"), t.Host(lockedHost), t.Host("h2"), "another.requests")
	for _, name := range names {
		all = append(all,
			trial{access.Topic, name, access.Read, func(ctx context.Context, a *kafkatest.Tries, n string) (bool, error) { return a.Read(ctx, n) }},
			trial{access.Topic, name, access.Write, func(ctx context.Context, a *kafkatest.Tries, n string) (bool, error) { return a.Write(ctx, n) }},
			trial{access.Topic, name, access.Delete, func(ctx context.Context, a *kafkatest.Tries, n string) (bool, error) { return a.Delete(ctx, n) }},
			trial{access.Topic, name + ".new", access.Create, func(ctx context.Context, a *kafkatest.Tries, n string) (bool, error) { return a.Create(ctx, n) }},
		)
	}
	for _, name := range []string{t.ConductorGroup(), t.ManagerGroup(), t.ShareGroup(0), "another"} {
		all = append(all, trial{access.Group, name, access.Read, func(ctx context.Context, a *kafkatest.Tries, n string) (bool, error) { return a.Join(ctx, n) }})
	}
	return all
}

// triesAll has each role try everything: Kafka allows what the table gives, and refuses the rest.
func (l *locked) triesAll() {
	allowed, refused := 0, 0
	for _, role := range access.Roles() {
		a, err := kafkatest.TryAs(l.sasl, l.users[role])
		l.must(err)
		defer a.Close()
		for _, x := range l.trials() {
			is, err := x.do(l.t.Context(), a, x.name)
			l.must(err)
			want := mayDo(role, x)
			if is != want {
				l.t.Errorf("%s may %s %s %s: %t, and should be %t", role, x.op, x.kind, x.name, is, want)
			}
			if is {
				allowed++
			} else {
				refused++
			}
		}
	}
	l.t.Logf("%d tries were allowed, %d refused", allowed, refused)
	if allowed < 50 || refused < 200 {
		l.t.Errorf("%d tries were allowed, %d refused", allowed, refused)
	}
}

// mayDo is what each role may do, said once more and not taken from the product's table:
// the names are without the cell's prefix.
func mayDo(role access.Role, x trial) bool {
	name, ours := strings.CutPrefix(x.name, "s.")
	if !ours {
		return false
	}
	if x.op == access.Create {
		return role == access.Queues
	}
	may := map[access.Role]string{
		access.API:       "read requests,write requests,read instances,read catalog,write catalog,read queues,read hosts,write hosts,read advice,read consoles,write host.h1,write host.h2",
		access.Queues:    "read catalog,read instances,read hosts,read queues,write queues,read advice,write advice,write rejected,read build.m1.small,delete build.m1.small,write host.h1,write host.h2,delete host.h1,delete host.h2,read queue-manager,read agents-0",
		access.Conductor: "read requests,read reports,read instances,write instances,read catalog,read queues,read hosts,read advice,write rejected,write build.m1.small,write host.h1,write host.h2,read conductor",
		access.Agent:     "read host.h1,read queues,read advice,write reports,write hosts,write consoles,write rejected,read build.m1.small,read agents-0",
		access.Publisher: "write requests",
		access.Follower:  "read instances",
		access.Operator:  "write requests",
	}[role]
	if role == access.Operator && x.kind == access.Topic && x.op == access.Read {
		return true
	}
	return slices.Contains(strings.Split(may, ","), strings.ToLower(string(x.op))+" "+name)
}
