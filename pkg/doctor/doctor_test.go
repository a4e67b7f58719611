// SPDX-License-Identifier: Apache-2.0

package doctor

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/berth-project/berth/pkg/compute"
	"github.com/berth-project/berth/pkg/kafka"
	"github.com/berth-project/berth/pkg/kafka/access"
	kafkaadmin "github.com/berth-project/berth/pkg/kafka/admin"
	"github.com/berth-project/berth/pkg/wire"
)

var now = time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)

// well is a cell on three brokers in which nothing is wrong.
func well(t *testing.T) *Facts {
	t.Helper()
	admin, err := kafkaadmin.New(kafka.Config{Brokers: []string{"k:9092"}, Topics: wire.Topics{Prefix: "b."}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(admin.Close)
	f := &Facts{
		Now: now, Bootstrap: "k:9092", Topics: wire.Topics{Prefix: "b."}, Plan: admin.Plan, Plans: admin.Plans,
		As:        asked(),
		Cluster:   kafkaadmin.ClusterFacts{ID: "c", Controller: 1, Features: map[string]int16{"share.version": 1}},
		Own:       map[string]kafkaadmin.TopicFacts{},
		Groups:    map[string]map[string]string{"b.agents-0": kafkaadmin.ShareGroupSettings()},
		Conductor: kafkaadmin.GroupFacts{Members: []string{"a", "b"}},
		Manager:   kafkaadmin.GroupFacts{Members: []string{"a", "b"}, Working: 1},
	}
	for i := range int32(3) {
		b := kafkaadmin.BrokerFacts{ID: i + 1, Address: "k:9092", Version: "v4.3", Settings: map[string]string{}}
		for _, s := range Settings() {
			b.Settings[s.Name] = s.Value
		}
		for _, r := range Internals() {
			b.Settings[r.Name] = r.Value
		}
		f.Cluster.Brokers = append(f.Cluster.Brokers, b)
	}
	for _, p := range admin.Plans(3) {
		f.have(p, max(1, int(p.Partitions)))
	}
	for _, name := range []string{"b.build.q1", "b.build.q2", "b.host.h1"} {
		p, _ := admin.Plan(name, 3)
		f.have(p, 1)
	}
	for _, q := range []compute.QueueName{"q1", "q2"} {
		f.Progress = append(f.Progress, kafkaadmin.QueueProgress{
			Queue: wire.QueueRef{Name: q, Group: "b.agents-0", TopicID: "id"}, TopicID: "id",
		})
	}
	f.Beacons = []compute.Beacon{{
		Host: "h1", At: now.Add(-10 * time.Second), Opens: []compute.KeyID{"aaaaaaaa"},
	}}
	return f
}

func (f *Facts) have(p kafkaadmin.TopicPlan, partitions int) {
	f.Own[p.Name] = kafkaadmin.TopicFacts{
		Name: p.Name, Partitions: partitions, Replicas: 3, InSync: 3, Settings: p.Settings,
	}
}

// change makes a topic another one.
func (f *Facts) change(name string, how func(*kafkaadmin.TopicFacts)) {
	t := f.Own[name]
	how(&t)
	f.Own[name] = t
}

func (f *Facts) setting(name, value string) {
	for i := range f.Cluster.Brokers {
		f.Cluster.Brokers[i].Settings[name] = value
	}
}

// internal is one of Kafka's own topics, made as it should be.
func (f *Facts) internal(name string) {
	f.have(kafkaadmin.TopicPlan{Name: name, Settings: map[string]string{"min.insync.replicas": "2"}}, 50)
}

// inSyncAre is a partition that lacks replicas.
func inSyncAre(n int) func(*kafkaadmin.TopicFacts) {
	return func(t *kafkaadmin.TopicFacts) { t.InSync, t.Under = n, []int32{0} }
}

func set(key, value string) func(*kafkaadmin.TopicFacts) {
	return func(t *kafkaadmin.TopicFacts) { t.Settings[key] = value }
}

// asked is the user that the doctor has.
func asked() access.Identity {
	return access.Identity{
		Principal: func() string { return "User:u" }, Role: access.Operator, Topics: wire.Topics{Prefix: "b."},
	}
}

// denied is the error of what that user may not do.
func denied(op access.Operation, kind access.Kind, name string) error {
	return asked().Denied("look", errors.New("refused"), access.To(op, kind, name))
}

// complaints are what is not ok, in short.
func complaints(f *Facts) []string {
	var out []string
	for _, c := range Examine(*f) {
		if c.Level != OK {
			out = append(out, fmt.Sprintf("%s %s: %s: %s", c.Level, c.About, c.Check, c.Is))
		}
		if strings.HasPrefix(c.Is, "not known: User:u may not ") && !strings.HasPrefix(c.Fix, "kafka-acls.sh") &&
			!strings.Contains(c.Fix, "berth acl apply --role operator --principal User:NAME") {
			out = append(out, fmt.Sprintf("a finding that does not say which user may: %+v", c))
		}
		if c.Level != OK && (c.Why == "" || c.Fix == "") || c.Level == OK && c.Why+c.Fix != "" || c.Wanted == "" {
			out = append(out, fmt.Sprintf("a finding that explains nothing: %+v", c))
		}
	}
	return out
}

func TestExamine(t *testing.T) {
	all := func(format string) []string {
		var out []string
		for i := 1; i <= 3; i++ {
			out = append(out, fmt.Sprintf(format, i))
		}
		return out
	}
	for name, c := range map[string]struct {
		fault func(f *Facts)
		want  []string
	}{
		"nothing": {func(*Facts) {}, nil},

		"no sessions": {
			func(f *Facts) { f.setting("group.share.max.share.sessions", "0") },
			all("FAIL broker %d: group.share.max.share.sessions: 0"),
		},
		"hardly sessions": {
			func(f *Facts) { f.hosts(100); f.setting("group.share.max.share.sessions", "210") },
			all("warn broker %d: group.share.max.share.sessions: 210"),
		},
		"sessions": {func(f *Facts) { f.hosts(100); f.setting("group.share.max.share.sessions", "250") }, nil},
		"a certificate": {
			func(f *Facts) { f.Certificate = CertificateFacts{"/etc/cert.pem", now.Add(8 * 24 * time.Hour)} }, nil,
		},
		"a certificate that expires": {
			func(f *Facts) { f.Certificate = CertificateFacts{"/etc/cert.pem", now.Add(6 * 24 * time.Hour)} },
			[]string{"warn kafka.tls.cert: expires: 2026-11-27T12:00:00Z"},
		},
		"two groups": {func(f *Facts) {
			f.hosts(100)
			f.Groups["b.agents-1"] = f.Groups["b.agents-0"]
			f.setting("group.share.max.share.sessions", "399")
		}, all("FAIL broker %d: group.share.max.share.sessions: 399")},
		"deliveries": {
			func(f *Facts) { f.setting("group.share.max.delivery.count.limit", "10") },
			all("warn broker %d: group.share.max.delivery.count.limit: 10"),
		},
		"more deliveries": {func(f *Facts) { f.setting("group.share.max.delivery.count.limit", "26") }, nil},
		"topics by chance": {
			func(f *Facts) { f.setting("auto.create.topics.enable", "true") },
			all("warn broker %d: auto.create.topics.enable: true"),
		},
		"long session": {
			func(f *Facts) { f.setting("broker.session.timeout.ms", "9000") },
			all("warn broker %d: broker.session.timeout.ms: 9000"),
		},
		"too long session": {
			func(f *Facts) { f.setting("broker.session.timeout.ms", "15000") },
			all("FAIL broker %d: broker.session.timeout.ms: 15000"),
		},
		"long lag": {
			func(f *Facts) { f.setting("replica.lag.time.max.ms", "30000") },
			all("warn broker %d: replica.lag.time.max.ms: 30000"),
		},
		"few heartbeats": {
			func(f *Facts) { f.setting("broker.heartbeat.interval.ms", "2000") },
			all("warn broker %d: broker.heartbeat.interval.ms: 2000"),
		},
		"no heartbeats": {
			func(f *Facts) { f.setting("broker.heartbeat.interval.ms", "3000") },
			all("FAIL broker %d: broker.heartbeat.interval.ms: 3000"),
		},
		"one of three": {
			func(f *Facts) { f.Cluster.Brokers[1].Settings["auto.create.topics.enable"] = "true" },
			[]string{"warn broker 2: auto.create.topics.enable: true"},
		},
		"nonsense": {
			func(f *Facts) { f.Cluster.Brokers[1].Settings["broker.session.timeout.ms"] = "x" },
			[]string{"warn broker 2: broker.session.timeout.ms: x"},
		},
		"not told": {
			func(f *Facts) { delete(f.Cluster.Brokers[2].Settings, "auto.create.topics.enable") },
			[]string{"warn broker 3: auto.create.topics.enable: not told"},
		},
		"settings of brokers that may not be described": {
			func(f *Facts) {
				for i := range f.Cluster.Brokers {
					f.Cluster.Brokers[i].Settings = map[string]string{}
					f.Cluster.Brokers[i].SettingsErr = denied(access.DescribeConfigs, access.Cluster, "kafka-cluster")
				}
			},
			[]string{
				"warn brokers 1, 2, 3: settings: not known: User:u may not DescribeConfigs cluster kafka-cluster",
			},
		},
		"silent broker": {
			func(f *Facts) { f.Cluster.Brokers[0].Err = "refused" }, []string{"FAIL broker 1: answers: refused"},
		},
		"too old": {
			func(f *Facts) { f.Cluster.Brokers[0].Version, f.Cluster.Brokers[0].Lacks = "v4.1", "it lacks" },
			[]string{"FAIL brokers: Kafka version: v4.1, v4.3"},
		},
		"deadlock": {
			func(f *Facts) { f.Cluster.Brokers[0].Version = "v4.2" },
			[]string{"warn brokers: Kafka version: v4.2, v4.3"},
		},
		"no share groups": {
			func(f *Facts) { f.Cluster.Features["share.version"] = 0 },
			[]string{"FAIL cluster: feature share.version: 0"},
		},
		"never shared": {
			func(f *Facts) { delete(f.Cluster.Features, "share.version") },
			[]string{"FAIL cluster: feature share.version: not there"},
		},
		"internal to come": {
			func(f *Facts) { f.setting("share.coordinator.state.topic.replication.factor", "1") },
			all("FAIL broker %d: share.coordinator.state.topic.replication.factor: 1"),
		},
		"internal in sync": {
			func(f *Facts) { f.setting("transaction.state.log.min.isr", "1") },
			all("warn broker %d: transaction.state.log.min.isr: 1"),
		},
		"too many replicas": {
			func(f *Facts) { f.setting("offsets.topic.replication.factor", "4") },
			all("FAIL broker %d: offsets.topic.replication.factor: 4"),
		},
		"internal as it is": {func(f *Facts) {
			f.setting("offsets.topic.replication.factor", "1") // how it is counts, not how it would be
			f.internal("__consumer_offsets")
		}, nil},
		"internal that may not be described": {func(f *Facts) {
			f.setting("offsets.topic.replication.factor", "1") // it may have been made with three
			f.setting("transaction.state.log.min.isr", "1")
			f.Refused = []string{"__consumer_offsets", "__transaction_state"}
		}, []string{
			"warn topics __consumer_offsets, __transaction_state: leaders, replicas and settings: " +
				"not known: this user may not describe them",
		}},
		"internal whose settings may not be described": {func(f *Facts) {
			f.have(kafkaadmin.TopicPlan{Name: "__transaction_state"}, 50)
			f.change("__transaction_state", func(t *kafkaadmin.TopicFacts) {
				t.Replicas, t.SettingsErr = 1, denied(access.DescribeConfigs, access.Topic, t.Name)
			})
		}, []string{
			"FAIL topic __transaction_state: replicas (transaction.state.log.replication.factor): 1",
			"warn topics __transaction_state: settings: " +
				"not known: User:u may not DescribeConfigs topic __transaction_state",
		}},
		"internal on one": {func(f *Facts) {
			f.have(
				kafkaadmin.TopicPlan{
					Name: "__transaction_state", Settings: map[string]string{"min.insync.replicas": "1"},
				},
				50,
			)
			f.change("__transaction_state", func(t *kafkaadmin.TopicFacts) { t.Replicas = 1 })
		}, []string{"FAIL topic __transaction_state: replicas (transaction.state.log.replication.factor): 1"}},
		"internal offline": {func(f *Facts) {
			f.internal("__share_group_state")
			f.change("__share_group_state", func(t *kafkaadmin.TopicFacts) { t.Offline = []int32{7, 9} })
		}, []string{"FAIL topic __share_group_state: leaders: partitions [7 9] have none"}},
		"internal under-replicated": {func(f *Facts) {
			f.internal("__consumer_offsets")
			f.change("__consumer_offsets", inSyncAre(2))
		}, []string{"warn topic __consumer_offsets: replicas in sync: not all of partitions [0]"}},
		"internal that cannot be written": {func(f *Facts) {
			f.internal("__transaction_state")
			f.change("__transaction_state", inSyncAre(1))
		}, []string{"FAIL topic __transaction_state: can be written: no: of partitions [0] one has 1 replicas in sync"}},

		"many queues": {func(f *Facts) { f.queues(5_120) }, nil},
		"too many queues": {
			func(f *Facts) { f.queues(5_130) },
			[]string{"warn brokers: heap for queues: up to 513 MB at each for 5130 queues"},
		},
		"one broker's": {
			func(f *Facts) { f.alone(); f.queues(20_000) },
			[]string{
				"warn brokers: heap for queues: up to 4000 MB at each for 20000 queues",
				"warn cluster: brokers: 1",
			},
		},
		"enough heap": {func(f *Facts) { f.queues(20_000); f.Heap = 4096 }, nil},
		"not enough heap": {
			func(f *Facts) { f.queues(20_000); f.Heap = 3072 },
			[]string{"warn brokers: heap for queues: up to 2000 MB at each for 20000 queues"},
		},

		"no topic": {
			func(f *Facts) { delete(f.Own, "b.catalog") }, []string{"FAIL topic b.catalog: exists: no"},
		},
		"topics that may not be described": {func(f *Facts) {
			for _, name := range []string{"b.audit", "b.tokens", "b.build.q2"} {
				delete(f.Own, name)
				f.Refused = append(f.Refused, name)
			}
			f.Audit.Err = denied(access.Read, access.Topic, "b.audit")
		}, []string{
			"warn audit: its entries: not known: User:u may not Read topic b.audit",
			"warn queues and hosts: their topics: not known: User:u may not Describe topic b.build.q2",
			"warn topics b.tokens, b.audit: leaders, replicas and settings: " +
				"not known: User:u may not Describe topic b.tokens, Describe topic b.audit",
		}},
		"settings that may not be described": {func(f *Facts) {
			for _, name := range []string{"b.requests", "b.hosts", "b.build.q1"} {
				f.change(name, func(t *kafkaadmin.TopicFacts) {
					t.Settings, t.SettingsErr = nil, denied(access.DescribeConfigs, access.Topic, "b.…")
				})
			}
			f.change("b.hosts", func(t *kafkaadmin.TopicFacts) { t.Offline = []int32{0} })
		}, []string{
			"FAIL topic b.hosts: leaders: partitions [0] have none",
			"warn topics b.build.q1, b.hosts, b.requests: settings: not known: User:u may not DescribeConfigs topic b.…",
		}},
		"policy": {
			func(f *Facts) { f.change("b.instances", set("cleanup.policy", "delete")) },
			[]string{"FAIL topic b.instances: cleanup.policy: delete"},
		},
		"short retention": {
			func(f *Facts) { f.change("b.requests", set("retention.ms", "604800000")) },
			[]string{"FAIL topic b.requests: retention.ms: 604800000"},
		},
		"long retention": {func(f *Facts) { f.change("b.requests", set("retention.ms", "1209600001")) }, nil},
		"for ever":       {func(f *Facts) { f.change("b.requests", set("retention.ms", "-1")) }, nil},
		"by size": {
			func(f *Facts) { f.change("b.reports", set("retention.bytes", "1000000000")) },
			[]string{"FAIL topic b.reports: retention.bytes: 1000000000"},
		},
		"small messages": {
			func(f *Facts) { f.change("b.queues", set("max.message.bytes", "1048588")) },
			[]string{"FAIL topic b.queues: max.message.bytes: 1048588"},
		},
		"large messages": {func(f *Facts) { f.change("b.queues", set("max.message.bytes", "10485880")) }, nil},
		"their own time": {
			func(f *Facts) { f.change("b.reports", set("message.timestamp.type", "CreateTime")) },
			[]string{"warn topic b.reports: message.timestamp.type: CreateTime"},
		},
		"removals are forgotten after a day": {
			func(f *Facts) {
				for _, topic := range []string{"b.catalog", "b.hosts", "b.queues", "b.instances"} {
					f.change(topic, set("delete.retention.ms", "86400000"))
				}
			},
			[]string{
				"warn topic b.catalog: delete.retention.ms: 86400000", "warn topic b.hosts: delete.retention.ms: 86400000",
				"warn topic b.queues: delete.retention.ms: 86400000",
			},
		},
		"removals are remembered longer": {
			func(f *Facts) { f.change("b.hosts", set("delete.retention.ms", "2592000001")) }, nil,
		},
		"two replicas": {func(f *Facts) {
			f.change("b.hosts", func(t *kafkaadmin.TopicFacts) {
				t.Replicas = 2
				t.Settings["min.insync.replicas"] = "1"
			})
		}, []string{"warn topic b.hosts: replicas: 2"}},
		"one replica": {func(f *Facts) {
			f.change("b.hosts", func(t *kafkaadmin.TopicFacts) {
				t.Replicas = 1
				t.Settings["min.insync.replicas"] = "1"
			})
		}, []string{"FAIL topic b.hosts: replicas: 1"}},
		"one in sync": {
			func(f *Facts) { f.change("b.hosts", set("min.insync.replicas", "1")) },
			[]string{"FAIL topic b.hosts: min.insync.replicas: 1"},
		},
		"all in sync": {
			func(f *Facts) { f.change("b.hosts", set("min.insync.replicas", "3")) },
			[]string{"FAIL topic b.hosts: min.insync.replicas: 3"},
		},
		"offline": {
			func(f *Facts) { f.change("b.hosts", func(t *kafkaadmin.TopicFacts) { t.Offline = []int32{0} }) },
			[]string{"FAIL topic b.hosts: leaders: partitions [0] have none"},
		},
		"under-replicated": {
			func(f *Facts) { f.change("b.hosts", inSyncAre(2)) },
			[]string{"warn topic b.hosts: replicas in sync: not all of partitions [0]"},
		},
		"below min.insync.replicas": {
			func(f *Facts) { f.change("b.requests", inSyncAre(1)) },
			[]string{"FAIL topic b.requests: can be written: no: of partitions [0] one has 1 replicas in sync"},
		},
		"one queue of many below min.insync.replicas": {func(f *Facts) {
			for i := range 2 * most {
				p, _ := f.Plan(fmt.Sprintf("b.build.a%d", i), 3)
				f.have(p, 1)
				f.change(p.Name, inSyncAre(2))
			}
			f.change("b.build.q2", inSyncAre(1))
		}, []string{
			"FAIL topic b.build.q2: can be written: no: of partitions [0] one has 1 replicas in sync",
			"warn topic b.build.a0: replicas in sync: not all of partitions [0]",
			"warn topic b.build.a1: replicas in sync: not all of partitions [0]",
			"warn topic b.build.a2: replicas in sync: not all of partitions [0]",
			"warn topic b.build.a3: replicas in sync: not all of partitions [0]",
			"warn topic b.build.a4 (and 5 more): replicas in sync: not all of partitions [0]",
		}},
		"partitions": {
			func(f *Facts) { f.change("b.reports", func(t *kafkaadmin.TopicFacts) { t.Partitions = 9 }) },
			[]string{"FAIL cell: partitions: b.requests 1, b.reports 9, b.instances 1"},
		},
		"a queue's topic": {
			func(f *Facts) { f.change("b.build.q2", set("retention.ms", "1")) },
			[]string{"FAIL topic b.build.q2: retention.ms: 1"},
		},
		"a host's topic": {
			func(f *Facts) { f.change("b.host.h1", set("cleanup.policy", "compact")) },
			[]string{"FAIL topic b.host.h1: cleanup.policy: compact"},
		},

		"not initialised": {
			func(f *Facts) { f.Progress[1].Start = -1 },
			[]string{"FAIL queue q2: its share state: not initialised"},
		},
		"another topic": {
			func(f *Facts) { f.Progress[0].TopicID = "other" },
			[]string{"FAIL queue q1: its topic: is other…, listed is id…"},
		},
		"gone": {
			func(f *Facts) { f.Progress[0].Err = wire.ErrNoTopic },
			[]string{"FAIL queue q1: its topic: does not exist"},
		},
		"unknown": {
			func(f *Facts) { f.Progress[0].Err = fmt.Errorf("not now") },
			[]string{"FAIL queue q1: its share state: not known: not now"},
		},
		"group": {func(f *Facts) {
			f.Groups["b.agents-0"] = map[string]string{
				"share.delivery.count.limit": "5", "share.record.lock.duration.ms": "30000",
				"share.partition.max.record.locks": "4000",
			}
		}, []string{"warn share group b.agents-0: share.delivery.count.limit: 5"}},

		"settings of a group that may not be described": {func(f *Facts) {
			f.Groups, f.GroupErrs = nil, map[string]error{
				"b.agents-0": denied(access.DescribeConfigs, access.Group, "b.agents-0"),
			}
		}, []string{
			"warn share group b.agents-0: settings: not known: User:u may not DescribeConfigs group b.agents-0",
		}},
		"share state that may not be described": {func(f *Facts) {
			for i := range f.Progress {
				f.Progress[i].Err = denied(access.Describe, access.Group, "b.agents-0")
			}
		}, []string{
			"warn queues q1, q2: topic and share state: not known: User:u may not Describe group b.agents-0",
		}},
		"a list of queues that may not be read": {func(f *Facts) {
			f.Progress, f.Groups, f.QueuesErr = nil, nil, denied(access.Read, access.Topic, "b.queues")
		}, []string{"warn queues: topic and share state: not known: User:u may not Read topic b.queues"}},
		"beacons that may not be read": {func(f *Facts) {
			f.Beacons, f.BeaconsErr, f.Trust = nil, denied(access.Read, access.Topic, "b.hosts"), "keys"
			f.setting("group.share.max.share.sessions", "0") // it may be enough
		}, []string{
			"warn hosts: heard of in the last 60 s: not known: User:u may not Read topic b.hosts",
			"warn hosts: whose word counts: hosts.trust keys; how many hosts sign is not known",
			"warn user data: sealed: not known: User:u may not Read topic b.hosts",
		}},
		"groups of daemons that may not be described": {func(f *Facts) {
			f.Conductor, f.ConductorErr = kafkaadmin.GroupFacts{}, denied(access.Describe, access.Group, "b.conductor")
			f.Manager, f.ManagerErr = kafkaadmin.GroupFacts{}, denied(access.Describe, access.Group, "b.queue-manager")
		}, []string{
			"warn conductors: running, and how far they are: not known: User:u may not Describe group b.conductor",
			"warn queue managers: running: not known: User:u may not Describe group b.queue-manager",
		}},

		"no conductor": {func(f *Facts) { f.Conductor.Members = nil }, []string{"FAIL conductors: running: 0"}},
		"one conductor": {
			func(f *Facts) { f.Conductor.Members = f.Conductor.Members[:1] },
			[]string{"warn conductors: running: 1"},
		},
		"behind": {
			func(f *Facts) { f.Conductor.Lag = 10_000 },
			[]string{"warn conductors: requests and reports that wait: 10000"},
		},
		"a position beyond the end": {
			func(f *Facts) {
				f.Conductor.Beyond = []kafkaadmin.GroupPosition{{Topic: "b.reports", Partition: 3, At: 800, End: 700}}
			},
			[]string{"FAIL partition 3: where conductors go on: 800 in b.reports, which ends at 700"},
		},
		"set aside": {
			func(f *Facts) { f.Aside = []int32{0, 1, 2, 4, 5, 6, 7} },
			[]string{
				"FAIL partition 0: where conductors go on: set aside by a conductor",
				"FAIL partition 1: where conductors go on: set aside by a conductor",
				"FAIL partition 2: where conductors go on: set aside by a conductor",
				"FAIL partition 4: where conductors go on: set aside by a conductor",
				"FAIL partition 5 (and 2 more): where conductors go on: set aside by a conductor",
			},
		},
		"what is set aside is not known": {
			func(f *Facts) { f.AsideErr = errors.New("no leader") },
			[]string{"warn partitions: set aside: not known: no leader"},
		},
		"what is set aside may not be read": {
			func(f *Facts) { f.AsideErr = denied(access.Read, access.Topic, "b.instances") },
			[]string{"warn partitions: set aside: not known: User:u may not Read topic b.instances"},
		},
		"a partition without a conductor": {
			func(f *Facts) {
				f.Conductor.Unowned = []kafkaadmin.GroupPosition{
					{Topic: "b.reports", Partition: 3, At: 7, End: 7}, {Topic: "b.requests", Partition: 3, At: -1},
				}
			},
			[]string{"FAIL partitions: without a conductor: 3 of b.reports, 3 of b.requests"},
		},
		"no manager": {
			func(f *Facts) { f.Manager = kafkaadmin.GroupFacts{} },
			[]string{"FAIL queue managers: running: 0", "warn queue managers: active: 0"},
		},
		"silent host": {
			func(f *Facts) { f.hosts(2); f.Beacons[1].At = now.Add(-61 * time.Second) },
			[]string{"warn hosts: heard of in the last 60 s: 1 of 2"},
		},
		"all are believed": {
			func(f *Facts) { f.Trust, f.Unsigned = "all", []compute.HostID{"h1"} },
			[]string{"warn hosts: whose word counts: hosts.trust all; 0 of 1 hosts sign"},
		},
		"keys":        {func(f *Facts) { f.Trust = "keys" }, nil},
		"not learned": {func(f *Facts) { f.Unsigned = []compute.HostID{"h1"} }, nil},
		"one does not sign": {
			func(f *Facts) { f.hosts(2); f.Trust, f.Unsigned = "keys", []compute.HostID{"h1"} },
			[]string{"warn hosts: whose word counts: hosts.trust keys; 1 of 2 hosts sign"},
		},
		"all may write requests": {
			func(f *Facts) { f.Publish = "all" }, []string{"warn requests: whose count: publish.trust all"},
		},
		"user data lies open": {
			func(f *Facts) { f.Beacons[0].Opens = nil },
			[]string{"warn user data: sealed: no: user data lies open in Kafka"},
		},
		"user data lies open, though hosts have keys": {
			func(f *Facts) { f.UserData.Known = true },
			[]string{"warn user data: sealed: no: user data lies open in Kafka"},
		},
		"user data is sealed": {func(f *Facts) {
			f.Beacons[0].Opens = []compute.KeyID{"cccccccc", "bbbbbbbb", "aaaaaaaa"}
			f.UserData = UserDataFacts{Known: true, Keys: []compute.KeyID{"bbbbbbbb", "aaaaaaaa"}}
		}, nil},
		"a host lacks the key before": {
			func(f *Facts) { f.UserData = UserDataFacts{Known: true, Keys: []compute.KeyID{"bbbbbbbb", "aaaaaaaa"}} },
			[]string{"warn user data: sealed: under key aaaaaaaa; 1 of 1 hosts have it"},
		},
		"a host lacks the key of user data": {
			func(f *Facts) {
				f.hosts(2)
				f.Beacons[1].Opens = []compute.KeyID{"bbbbbbbb"}
				f.UserData = UserDataFacts{Known: true, Keys: []compute.KeyID{"bbbbbbbb", "aaaaaaaa"}}
			},
			[]string{"warn user data: sealed: under key aaaaaaaa; 1 of 2 hosts have it"},
		},
		"keys of user data that cannot be read": {
			func(f *Facts) { f.UserData = UserDataFacts{Known: true, Err: errors.New("no such file")} },
			[]string{"warn user data: sealed: not known"},
		},
		"publishers have keys": {func(f *Facts) { f.Publish = "keys" }, nil},
		"no audit": {
			func(f *Facts) { f.Audit.Kept = "false" },
			[]string{"warn audit: kept: audit false; no entry in the last day"},
		},
		"an audit": {func(f *Facts) {
			f.Audit = AuditFacts{Kept: "true", Looked: 2, Last: now.Add(-time.Hour), Node: "a"}
		}, nil},
		"an audit, of which not all is true": {
			func(f *Facts) { f.Audit = AuditFacts{Looked: 9, LeftOut: 7, Garbled: 2} },
			[]string{"warn audit: refusals without an entry: 7", "warn audit: records that are no entries: 2"},
		},
		"an audit that is not shown": {
			func(f *Facts) { f.Audit.Err = errors.New("may not") }, []string{"warn audit: its entries: not known: may not"},
		},
		"no topic of the audit": {
			func(f *Facts) { delete(f.Own, "b.audit"); f.Audit.Err = errors.New("no topic") },
			[]string{"FAIL topic b.audit: exists: no"},
		},
		"an audit that is forgotten soon": {
			func(f *Facts) { f.change("b.audit", set("retention.ms", "604800000")) },
			[]string{"warn topic b.audit: retention.ms: 604800000"},
		},
		"an audit that is compacted": {
			func(f *Facts) { f.change("b.audit", set("cleanup.policy", "compact")) },
			[]string{"FAIL topic b.audit: cleanup.policy: compact"},
		},
		"kept apart": {func(f *Facts) {
			f.hosts(3)
			f.Beacons[0].Warnings, f.Beacons[2].Warnings = []string{"as root; another user"}, []string{
				"as root; another user", "alike",
			}
		}, []string{"warn hosts h0, h2: warnings of their agents: one",
			"warn hosts h2: warnings of their agents: one"}},
		"no host": {func(f *Facts) { f.Beacons = nil }, []string{
			"warn hosts: heard of in the last 60 s: 0 of 0", "warn user data: sealed: no: user data lies open in Kafka",
		}},
		"one broker": {func(f *Facts) { f.alone() }, []string{"warn cluster: brokers: 1"}},
	} {
		t.Run(name, func(t *testing.T) {
			f := well(t)
			c.fault(f)
			got := complaints(f)
			slices.Sort(got)
			slices.Sort(c.want)
			if diff := cmp.Diff(c.want, got); diff != "" {
				t.Error(diff)
			}
			fails := slices.ContainsFunc(got, func(s string) bool { return strings.HasPrefix(s, "FAIL") })
			if Healthy(Examine(*f)) == fails {
				t.Errorf("healthy, and %v", got)
			}
		})
	}
}

func (f *Facts) queues(n int) { f.Queues = make([]compute.Queue, n) }

// A heap that is not known is told as a setting to look at, with a value that is enough.
func TestHeapSaysWhatToLookAt(t *testing.T) {
	f := well(t)
	f.queues(20_000)
	unknown := heap(*f)
	f.Heap = 2048
	known := heap(*f)
	const enough = `KAFKA_HEAP_OPTS="-Xms3024m -Xmx3024m"`
	if !strings.Contains(unknown.Fix, enough) || !strings.Contains(unknown.Fix, "--broker-heap") ||
		!strings.Contains(unknown.Wanted, "at most 512 MB") {
		t.Errorf("%+v", unknown)
	}
	if !strings.Contains(known.Fix, enough) || strings.Contains(known.Fix, "--broker-heap") ||
		known.Wanted != "at most 1024 MB, half of a heap of 2048" {
		t.Errorf("%+v", known)
	}
}

func (f *Facts) hosts(n int) {
	f.Beacons = nil
	for i := range n {
		f.Beacons = append(f.Beacons, compute.Beacon{
			Host: compute.HostID(fmt.Sprintf("h%d", i)), At: now, Opens: []compute.KeyID{"aaaaaaaa"},
		})
	}
}

// alone is a cluster of one broker, as for a trial.
func (f *Facts) alone() {
	f.Cluster.Brokers = f.Cluster.Brokers[:1]
	for _, r := range Internals() {
		f.setting(r.Name, "1")
	}
	for name := range f.Own {
		f.change(name, func(t *kafkaadmin.TopicFacts) { t.Replicas = 1; t.Settings["min.insync.replicas"] = "1" })
	}
}

// How many more there are of a kind is said once, at the last one of that kind that is told.
func TestTheRestIsCountedOnce(t *testing.T) {
	f := well(t)
	for i := range 2 * most {
		p, _ := f.Plan(fmt.Sprintf("b.build.a%d", i), 3)
		p.Settings["retention.ms"], p.Settings["cleanup.policy"] = "1", "compact"
		f.have(p, 1)
		progress := kafkaadmin.QueueProgress{
			Queue: wire.QueueRef{Name: compute.QueueName(fmt.Sprint(i)), TopicID: "id"}, TopicID: "id", Start: -1,
		}
		if i > most { // four that are gone come last
			progress.Err = wire.ErrNoTopic
		}
		f.Progress = append(f.Progress, progress)
	}
	text := slices.DeleteFunc(complaints(f), func(s string) bool { return !strings.Contains(s, " more)") })
	if diff := cmp.Diff([]string{
		"FAIL topic b.build.a4 (and 5 more): cleanup.policy: compact",
		"FAIL topic b.build.a4 (and 5 more): retention.ms: 1",
		"FAIL queue 4 (and 1 more): its share state: not initialised",
	}, text); diff != "" {
		t.Error(diff)
	}
}

// What fails comes first, and thousands of queues do not drown it.
func TestOrderAndAmount(t *testing.T) {
	f := well(t)
	for i := range 1000 {
		p, _ := f.Plan(fmt.Sprintf("b.build.many-%03d", i), 3)
		p.Settings["retention.ms"] = "1"
		f.have(p, 1)
		f.Progress = append(f.Progress, kafkaadmin.QueueProgress{
			Queue: wire.QueueRef{Name: compute.QueueName(fmt.Sprint(i)), TopicID: "id"}, TopicID: "id",
			Start: -1,
		})
	}
	f.setting("auto.create.topics.enable", "true")
	all := Examine(*f)
	if len(all) > 140 {
		t.Errorf("%d findings", len(all))
	}
	var levels []Level
	for _, c := range all {
		if len(levels) == 0 || levels[len(levels)-1] != c.Level {
			levels = append(levels, c.Level)
		}
	}
	if diff := cmp.Diff([]Level{Fail, Warn, OK}, levels); diff != "" {
		t.Error(diff)
	}
	text := strings.Join(complaints(f), "\n")
	for _, want := range []string{
		"FAIL topic b.build.many-004 (and 995 more): retention.ms: 1",
		"FAIL queue 4 (and 995 more): its share state: not initialised",
	} {
		if !strings.Contains(text, want) {
			t.Errorf("%q is not in\n%s", want, text)
		}
	}
}
