// SPDX-License-Identifier: Apache-2.0

package celltest

import (
	"crypto/tls"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/berth-project/berth/compute-agent/hypervisor/fake"
	"github.com/berth-project/berth/pkg/cell"
	"github.com/berth-project/berth/pkg/client"
	"github.com/berth-project/berth/pkg/compute"
	"github.com/berth-project/berth/pkg/doctor"
	"github.com/berth-project/berth/pkg/kafka/access"
	kafkaadmin "github.com/berth-project/berth/pkg/kafka/admin"
	"github.com/berth-project/berth/pkg/kafkatest"
	"github.com/berth-project/berth/pkg/wire"
)

// locked is a cell on a Kafka that allows nothing by itself: each role has a user, with
// what package access gives it.
type locked struct {
	*rig
	b    kafkatest.LockedBroker
	user func(access.Role) lockedUser
	is   *client.Client
}

// lockedUser is the Kafka user that a role signs in as.
type lockedUser struct {
	principal string
	settings  func(*cell.KafkaSettings)
	tries     func(addrs []string) (*kafkatest.Tries, error)
}

func newLocked(t *testing.T, b kafkatest.LockedBroker, user func(access.Role) lockedUser) *locked {
	t.Helper()
	r := &rig{
		t: t, kafka: cell.KafkaSettings{Brokers: b.Open, Prefix: "s.", Partitions: 2}, data: t.TempDir(),
		parts: map[string]*running{}, seen: newWitness(),
	}
	t.Cleanup(r.stopAll)
	return &locked{rig: r, b: b, user: user}
}

// lockedByPassword has users that sign in by SCRAM.
func lockedByPassword(t *testing.T) *locked {
	t.Helper()
	dir := t.TempDir()
	as := func(role access.Role) kafkatest.User {
		return kafkatest.User{Name: "the-" + string(role), Password: "pw-" + string(role)}
	}
	var all []kafkatest.User
	for _, role := range access.Roles() {
		all = append(all, as(role))
	}
	return newLocked(t, kafkatest.LockedKafka(t, nil, all...), func(role access.Role) lockedUser {
		u, file := as(role), filepath.Join(dir, string(role)+".password")
		if err := os.WriteFile(file, []byte(u.Password), 0o600); err != nil {
			t.Fatal(err)
		}
		return lockedUser{
			principal: "User:" + u.Name,
			settings: func(k *cell.KafkaSettings) {
				k.SASL = cell.SASLSettings{Mechanism: "SCRAM-SHA-256", User: u.Name, PasswordFile: file}
			},
			tries: func(addrs []string) (*kafkatest.Tries, error) { return kafkatest.TryAs(addrs, u) },
		}
	})
}

// lockedByCertificate has users that brokers know by the subject of their certificate.
func lockedByCertificate(t *testing.T) *locked {
	t.Helper()
	a := newAuthority(t, "ca")
	broker := a.broker()
	b := kafkatest.LockedKafka(t, map[string]string{
		"listener.security.protocol.map": "CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT,USERS:SSL",
		"ssl.keystore.type":              "PEM", "ssl.keystore.location": broker.both,
		"ssl.truststore.type": "PEM", "ssl.truststore.location": a.file,
		"listener.name.users.ssl.client.auth": "required",
	})
	return newLocked(t, b, func(role access.Role) lockedUser {
		name := "the-" + string(role)
		own := pair{cert: filepath.Join(a.dir, name+".crt"), key: filepath.Join(a.dir, name+".key")}
		if _, err := os.Stat(own.cert); err != nil {
			own = a.client(name)
		}
		return lockedUser{
			principal: "User:CN=" + name,
			settings:  func(k *cell.KafkaSettings) { k.TLS = cell.TLSSettings{CA: a.file, Cert: own.cert, Key: own.key} },
			tries: func(addrs []string) (*kafkatest.Tries, error) {
				signed, err := tls.LoadX509KeyPair(own.cert, own.key)
				a.must(err)
				return kafkatest.TryWithCertificate(addrs, &tls.Config{
					RootCAs: a.Pool(), Certificates: []tls.Certificate{signed}, ServerName: "127.0.0.1",
				})
			},
		}
	})
}

// host is whose agent has a user.
const lockedHost = "h1"

// flags are those of berth acl for a role.
func (l *locked) flags(role access.Role) []string {
	out := []string{
		"--kafka", l.b.Open[0], "--prefix", l.kafka.Prefix, "--role", string(role),
		"--principal", l.user(role).principal,
	}
	if role == access.Agent {
		out = append(out, "--host", lockedHost)
	}
	return out
}

// gives gives a role its rights, and looks before and afterwards what it has.
func (l *locked) gives(role access.Role) {
	l.t.Helper()
	t := l.t
	code, out, errs := reaches(t, append([]string{"acl", "check"}, l.flags(role)...)...)
	if code != 1 || !strings.Contains(out, "missing") {
		t.Errorf("%s before it has anything: exit %d\n%s%s", role, code, out, errs)
	}
	code, out, errs = reaches(t, append([]string{"acl", "apply", "-o", "json"}, l.flags(role)...)...)
	var given struct {
		Principal, Role string
		Rights          []access.Right
	}
	if err := json.Unmarshal([]byte(out), &given); code != 0 || err != nil || given.Role != string(role) ||
		given.Principal != l.user(role).principal || len(given.Rights) == 0 {
		t.Fatalf("%s: exit %d, %v\n%s%s", role, code, err, out, errs)
	}
	l.poll("brokers know the rights of "+string(role), func() bool { // they hear of them one after the other
		code, out, errs = ran(t, append([]string{"acl", "check"}, l.flags(role)...)...)
		return code == 0
	})
	if !strings.Contains(out, "and nothing else") {
		t.Errorf("%s: exit %d\n%s%s", role, code, out, errs)
	}
}

// runs starts the daemon of a role, as its user: it waits for its rights, is given them, and is ready.
func (l *locked) runs(role access.Role, settings map[string]any) {
	l.t.Helper()
	was := l.kafka
	l.kafka.Brokers = l.b.Addrs
	l.user(role).settings(&l.kafka)
	p := l.begun(string(role), string(role), settings)
	l.kafka = was
	awaitLog(l.t, p.out, "("+regexp.QuoteMeta("waiting for rights on Kafka: "+l.user(role).principal+" may not ")+")")
	l.gives(role)
	p.says("ready")
}

// With what the table gives, and nothing else, a cell works; and what it does not give, Kafka
// refuses. The page has what was seen.
func TestRightsOnKafka(t *testing.T) {
	t.Parallel()
	kafkatest.Need(t)
	for name, open := range map[string]func(*testing.T) *locked{
		"scram": lockedByPassword, "certificates": lockedByCertificate,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			l := open(t)
			for _, role := range []access.Role{access.Publisher, access.Follower, access.Operator} {
				l.gives(role)
			}
			l.works()
			l.examines()
			l.examinesAsDaemons()
			admin, err := kafkaadmin.New(l.cell("admin").Kafka)
			l.must(err)
			defer admin.Close()
			l.must(admin.EnsureHostTopic(t.Context(), lockedOther, 1))
			agent := l.agentTries() // the cell still works: no nonsense was written
			checkRightsPage(t, l.triesAll(), agent)
		})
	}
}

// works has a machine booted and deleted, and a console read.
func (l *locked) works() {
	l.t.Helper()
	world, err := fake.OpenWorld(filepath.Join(l.data, "world"))
	l.must(err)
	l.world = world
	// The stream of a host that never spoke is to stay as long as somebody tries what may be done with it.
	l.runs(access.Queues, map[string]any{"forgotten_streams": "0s"})
	l.runs(access.Conductor, map[string]any{"name": "conductor"})
	l.api = freeAddress(l.t)
	l.runs(access.API, map[string]any{"listen": l.api})
	simulated := map[string]any{
		"world": filepath.Join(l.data, "world"), "totals": map[string]any{"VCPU": 8, "MEMORY_MB": 8 << 10, "DISK_GB": 100},
	}
	l.runs(access.Agent, map[string]any{
		"host": lockedHost, "state": filepath.Join(l.data, "agent"),
		"driver": map[string]any{"kind": "fake", "fake": simulated},
	})
	c := l.cell("witness")
	l.start("witness", c.Committed(c.Topics().Instances(), l.seen.take))
	l.is = l.as("default")
	l.known(cell.SimulatedHost{ID: lockedHost})
	l.offer(l.is, nil, []compute.Flavor{small("m1.small")})
	l.boots()
}

// file is one of a role, as commands are given it.
func (l *locked) file(role access.Role) string {
	l.t.Helper()
	was := l.kafka
	l.kafka.Brokers = l.b.Addrs
	l.user(role).settings(&l.kafka)
	body, err := json.Marshal(map[string]any{"kafka": l.kafkaSection()})
	l.kafka = was
	l.must(err)
	file := filepath.Join(l.data, string(role)+"-command.yaml")
	l.must(os.WriteFile(file, body, 0o600))
	return file
}

// examinesAsDaemons has the doctor look with the file of each daemon: it tells all that the daemon's user may see, and
// calls nothing wrong that it may not. No command calls for another role for that user.
func (l *locked) examinesAsDaemons() {
	l.t.Helper()
	for role, unknown := range map[access.Role][]string{
		access.API: {
			"broker 1: settings", "share group s.agents-0: settings", "queue managers: running",
			"queue m1.small: topic and share state",
		},
		access.Conductor: {"broker 1: settings", "share group s.agents-0: settings", "queue managers: running"},
		access.Queues:    {"broker 1: settings", "conductors: running, and how far they are"},
		access.Agent: {
			"broker 1: settings", "share group s.agents-0: settings", "queue managers: running",
			"conductors: running, and how far they are", "hosts: heard of in the last 60 s", "partitions: set aside",
		},
	} {
		principal, file := l.user(role).principal, l.file(role)
		code, out, errs := reaches(l.t, "doctor", "-o", "json", "--config", file)
		well := strings.Join(findings(l.t, out, doctor.OK), "\n")
		warned := strings.Join(findings(l.t, out, doctor.Warn), "\n")
		for _, what := range unknown {
			if !strings.Contains(warned, what+": not known: "+principal+" may not ") {
				l.t.Errorf("%s: it is not said that this is not known: %s", role, what)
			}
		}
		if code != 0 || strings.Contains(out, "--principal "+principal) ||
			!strings.Contains(well, "topic s.requests: replicas: 1") || !strings.Contains(well, "Kafka version: v4.3") {
			l.t.Errorf("the doctor with the file of %s: exit %d %s\n%s", role, code, errs, out)
		}
	}
	for _, command := range []string{"verify", "audit"} {
		code, out, errs := reaches(l.t, command, "--config", l.file(access.Agent))
		if code != 6 || !strings.Contains(errs, l.user(access.Agent).principal+" may not ") ||
			!strings.Contains(errs, "acl apply --role operator --principal User:NAME --prefix s.") {
			l.t.Errorf("%s with the file of an agent: exit %d %s\n%s", command, code, errs, out)
		}
	}
}

// examines has the doctor look as an operator, whose role reaches none of Kafka's own topics.
func (l *locked) examines() {
	l.t.Helper()
	_, out, errs := reaches(l.t, "doctor", "--config", l.file(access.Operator))
	if !strings.Contains(out, "warn  topics __consumer_offsets, __transaction_state, __share_group_state: ") ||
		!strings.Contains(out, "this user may not describe them") || strings.Contains(out, ".replication.factor") ||
		strings.Contains(out, "partitions: set aside") {
		l.t.Errorf("the doctor of an operator:\n%s%s", out, errs)
	}
}

// boots has a machine come and go.
func (l *locked) boots() {
	l.t.Helper()
	id := l.boot(l.is, 1, compute.Boot{Flavor: "m1.small"})
	l.await(id, compute.StateActive)
	l.poll("the host answers for a console", func() bool { // it may be slower than a node waits
		_, err := l.is.Console(l.t.Context(), id[0], 0, 1)
		if err != nil && compute.KindOf(err) != compute.KindTimeout && compute.KindOf(err) != compute.KindNotFound {
			l.t.Errorf("console: %v", err)
		}
		return compute.KindOf(err) != compute.KindTimeout
	})
	l.delete(l.is, id)
	l.await(id, compute.StateDeleted)
}

// triesAll has each role try everything, and answers what Kafka allowed.
func (l *locked) triesAll() func(access.Role, trial) bool {
	l.t.Helper()
	allowed, refused := 0, 0
	seen := map[string]bool{}
	for _, role := range access.Roles() {
		a, err := l.user(role).tries(l.b.Addrs)
		l.must(err)
		defer a.Close()
		for _, x := range trials(l.cell("t").Topics()) {
			is, err := x.do(l.t.Context(), a, x.name)
			l.must(err)
			if want := mayDo(l.t, role, x); is != want {
				l.t.Errorf("%s may %s %s %s: %t, and should be %t", role, x.op, x.kind, x.name, is, want)
			}
			if want, known := mayDoBySaying(role, x); known && is != want {
				l.t.Errorf("%s may %s %s %s: %t, and nobody meant that", role, x.op, x.kind, x.name, is)
			}
			seen[string(role)+x.String()] = is
			if is {
				allowed++
			} else {
				refused++
			}
		}
	}
	l.t.Logf("%d tries were allowed, %d refused", allowed, refused)
	if allowed < 100 || refused < 400 {
		l.t.Errorf("%d tries were allowed, %d refused", allowed, refused)
	}
	return func(role access.Role, x trial) bool { return seen[string(role)+x.String()] }
}

// agentTry is what a rogue agent does beyond what it is for.
type agentTry struct {
	what string
	do   func() (allowed bool, err error)
}

// agentTries has the agent of h1 try to be more than that. What it cannot be kept from does no lasting harm: machines
// come and go as before, and none comes twice.
func (l *locked) agentTries() (rows [][2]string) {
	l.t.Helper()
	a, err := l.user(access.Agent).tries(l.b.Addrs)
	l.must(err)
	defer a.Close()
	ctx, t := l.t.Context(), l.cell("t").Topics()
	queue, group := t.Build("m1.small"), t.ShareGroup(0)
	put := func(topic string, rec wire.Record) func() (bool, error) {
		return func() (bool, error) { return a.Put(ctx, topic, rec.Key, rec.Value) }
	}
	grant := wire.EncodeCommand(compute.Command{
		Op: compute.CommandGrant, Project: "default", Instance: "01900000-0000-7000-8000-000000000000",
		Attempt: 1, Claim: "claim",
	})
	for _, try := range []agentTry{
		{"read the commands to another host", func() (bool, error) { return a.Read(ctx, t.Host(lockedOther)) }},
		{"grant itself a claim, in its own stream", put(t.Host(lockedHost), grant)},
		{"grant another host a claim", put(t.Host(lockedOther), grant)},
		{"write a request", put(t.Requests(), grant)},
		{"write an instance", put(t.Instances(), grant)},
		{"read instances", func() (bool, error) { return a.Read(ctx, t.Instances()) }},
		{"read requests", func() (bool, error) { return a.Read(ctx, t.Requests()) }},
		{"put work into a queue", put(queue, grant)},
		{"remove work from a queue", func() (bool, error) { return a.Delete(ctx, queue) }},
		{"read who may call the API", func() (bool, error) { return a.Read(ctx, t.Tokens()) }},
		{"write a token", put(t.Tokens(), grant)},
		{"read who changed what", func() (bool, error) { return a.Read(ctx, t.Audit()) }},
		{"write an audit entry", put(t.Audit(), grant)},
		{"make a queue", func() (bool, error) { return a.Create(ctx, t.Build("of-mine")) }},
		{"write to the list of queues", put(t.Queues(), grant)},
		{"be a conductor", func() (bool, error) { return a.Join(ctx, t.ConductorGroup()) }},
		{"be a queue manager", func() (bool, error) { return a.Join(ctx, t.ManagerGroup()) }},
		{"write as the owner of a partition", func() (bool, error) { return a.End(ctx, t.ConductorGroup()+".0") }},
		{"have work that waits passed over", func() (bool, error) { return l.resets(a, group, queue, 1000) }},
		{"have work that is done handed out again", func() (bool, error) { return l.resets(a, group, queue, 0) }},
	} {
		is, err := try.do()
		l.must(err)
		if is != strings.HasPrefix(try.what, "have work") {
			l.t.Errorf("an agent may %s: %t", try.what, is)
		}
		answer := "refused"
		if is {
			answer = "**allowed**, see below"
			l.boots()
		}
		rows = append(rows, [2]string{try.what, answer})
	}
	return rows
}

// resets has an agent set a queue's position. The queue manager can see that.
func (l *locked) resets(a *kafkatest.Tries, group, queue string, offset int64) (bool, error) {
	l.t.Helper()
	admin, err := kafkaadmin.New(l.cell("admin").Kafka)
	l.must(err)
	defer admin.Close()
	ids, err := admin.TopicIDs(l.t.Context(), queue)
	l.must(err)
	name, _ := l.cell("admin").Topics().QueueOf(queue)
	written := func() int64 {
		all, err := admin.QueueProgress(l.t.Context(), []wire.QueueRef{{Name: name, Group: group, TopicID: ids[queue]}})
		l.must(err)
		l.must(all[0].Err)
		return all[0].Written
	}
	before := written()
	is, err := a.ResetShare(l.t.Context(), group, queue, offset)
	now := written()
	set := now == offset || offset == 0 && now < before // its host may have taken some already
	if !set || before == offset {
		l.t.Errorf("an agent set the position of %s from %d to %d: it is %d", queue, before, offset, now)
	}
	return is, err
}

// mayDoBySaying is what each role may do with topics and groups, said once more and not taken from the product's
// table, for the operations that matter most.
func mayDoBySaying(role access.Role, x trial) (may, known bool) {
	core := []access.Operation{access.Read, access.Write, access.Delete, access.Create}
	if !slices.Contains(core, x.op) || x.kind != access.Topic && x.kind != access.Group {
		return false, false
	}
	name, ours := strings.CutPrefix(x.name, "s.")
	if !ours {
		return false, true
	}
	if x.op == access.Create {
		return role == access.Queues, true
	}
	said := map[access.Role]string{
		access.API: "read requests,write requests,read instances,read catalog,write catalog,read queues,read hosts," +
			"write hosts,read advice,read consoles,read tokens,write tokens,read audit,write audit,read rejected,write host.h1," +
			"write host.h2",
		access.Queues: "read catalog,read instances,read hosts,read queues,write queues,read advice,write advice," +
			"write rejected,read build.m1.small,delete build.m1.small,write host.h1,write host.h2,delete host.h1," +
			"delete host.h2,read queue-manager,read agents-0",
		access.Conductor: "read requests,read reports,read instances,write instances,read catalog,read queues," +
			"read hosts,read advice,write rejected,write build.m1.small,write host.h1,write host.h2,read conductor",
		access.Agent: "read host.h1,read queues,read advice,write reports,write hosts,write consoles,write rejected," +
			"read build.m1.small,read agents-0",
		access.Publisher: "write requests",
		access.Follower:  "read instances",
		access.Operator:  "write requests",
	}[role]
	if role == access.Operator && x.kind == access.Topic && x.op == access.Read {
		return true, true
	}
	return slices.Contains(strings.Split(said, ","), fmt.Sprintf("%s %s", strings.ToLower(string(x.op)), name)), true
}
