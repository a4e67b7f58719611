// SPDX-License-Identifier: Apache-2.0

package doctor

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/berth-project/berth/pkg/kafka/admin"
)

func brokers(f Facts) []Finding {
	all := []Finding{versions(f), shares(f), size(f)}
	if f.QueuesErr == nil {
		all = append(all, heap(f))
	}
	var untold []string
	var why error
	for _, b := range f.Cluster.Brokers {
		if b.SettingsErr != nil {
			untold, why = append(untold, fmt.Sprint(b.ID)), b.SettingsErr
			continue
		}
		if b.Err != "" {
			all = append(all, Finding{
				Level: Fail, About: broker(b), Check: "answers", Is: b.Err, Wanted: "its version and settings",
				Why: "nothing is known of it",
				Fix: "look into its log",
			})
			continue
		}
		for _, s := range Settings() {
			if s.Name == settingSessions && f.BeaconsErr != nil {
				continue // how many it needs is not known: the finding about hosts says why
			}
			all = append(all, s.at(b, f))
		}
	}
	if len(untold) > 0 {
		all = append(all, Finding{
			About: when(len(untold) == 1, "broker ", "brokers ") + names(untold), Check: "settings",
			Wanted: "those of deploy/kafka/server.properties",
			Why:    "whether agents can pull, and how long placement stands still when a broker dies, is not looked at",
		}.notKnown(why))
	}
	return all
}

func broker(b admin.BrokerFacts) string { return fmt.Sprintf("broker %d", b.ID) }

// at judges the setting at one broker.
func (s Setting) at(b admin.BrokerFacts, f Facts) Finding {
	value, there := b.Settings[s.Name]
	out := Finding{
		About: broker(b), Check: s.Name, Is: value, Wanted: s.wanted(f), Why: s.Why,
		Fix: fmt.Sprintf("put %s=%s into server.properties of broker %d (%s) and restart it",
			s.Name, s.Value, b.ID, b.Address),
	}
	if !there {
		out.Is = "not told"
		return out.with(Warn)
	}
	if s.judge == nil {
		return out.with(when(value == s.Value, OK, Warn))
	}
	n, err := strconv.ParseInt(value, 10, 64)
	if err != nil {
		return out.with(Warn)
	}
	return out.with(s.judge(n, f))
}

// versions: too old to work with, or with a known fault.
func versions(f Facts) Finding {
	out := Finding{
		About: "brokers", Check: "Kafka version", Wanted: "4.3.1 or later", Why: "share groups",
		Fix: "upgrade the brokers, one at a time",
	}
	level := OK
	var seen []string
	for _, b := range f.Cluster.Brokers {
		seen = append(seen, b.Version)
		switch {
		case b.Lacks != "":
			level, out.Why = Fail, b.Lacks
		case strings.Contains(b.Version, "4.2") && level == OK:
			level, out.Why = Warn, "4.2.0 has a deadlock in share groups"
		}
	}
	out.Is = strings.Join(distinct(seen), ", ")
	return out.with(level)
}

func shares(f Facts) Finding {
	level, there := f.Cluster.Features["share.version"]
	out := Finding{
		About: "cluster", Check: "feature share.version", Is: fmt.Sprint(level), Wanted: "1",
		Why: "share groups are switched off",
		Fix: "kafka-features.sh --bootstrap-server " + f.Bootstrap + " upgrade --feature share.version=1",
	}
	if !there {
		out.Is = "not there"
	}
	return out.with(when(level >= 1, OK, Fail))
}

func size(f Facts) Finding {
	n := len(f.Cluster.Brokers)
	out := Finding{
		About: "cluster", Check: "brokers", Is: fmt.Sprint(n), Wanted: "3 or more",
		Why: "with fewer, losing one stops the cell or loses what it had",
		Fix: "add brokers, and give topics three replicas with kafka-reassign-partitions.sh",
	}
	return out.with(when(n >= 3, OK, Warn))
}

const (
	// heapOfQueue is what a broker keeps of a queue that hosts wait on, in MB: the
	// three histograms of a share partition's gauges, of 1,028 samples each.
	heapOfQueue = 0.2
	// usualHeap is a broker's heap, in MB, if it is started by Kafka's own script
	// and nothing else is said.
	usualHeap = 1024
)

// heap judges what the queues take of the brokers' heaps before they are full.
// Queues lie evenly on the brokers, and of three or more brokers one may be down.
// No broker tells how large its heap is: only the operator can.
func heap(f Facts) Finding {
	up := len(f.Cluster.Brokers)
	if up >= 3 {
		up--
	}
	each := heapOfQueue * float64(len(f.Queues)) / float64(max(1, up))
	has, known := f.Heap, f.Heap > 0
	if !known {
		has = usualHeap
	}
	out := Finding{
		About: "brokers", Check: "heap for queues",
		Is:     fmt.Sprintf("up to %.0f MB at each for %d queues", each, len(f.Queues)),
		Wanted: fmt.Sprintf("at most %d MB, half of a heap of %d", has/2, has),
		Why: "a broker keeps 0.2 MB of heap for each queue that hosts wait on, and stands still for seconds " +
			"when its heap is full; " +
			"before 4.3.2 and 4.4.0 it keeps that of deleted queues too, until it is started again (KAFKA-21096)",
		Fix: fmt.Sprintf(
			"start each broker with a heap of %d MB or more: KAFKA_HEAP_OPTS=\"-Xms%[1]dm -Xmx%[1]dm\"",
			int(each)+usualHeap,
		),
	}
	if !known {
		out.Wanted += ", which is what a broker has if KAFKA_HEAP_OPTS does not say"
		out.Fix = "no broker tells its heap: if it is larger, say so with --broker-heap; if not, " + out.Fix
	}
	return out.with(when(each <= float64(has/2), OK, Warn))
}

// internals are Kafka's own topics; as long as one does not exist, the setting
// says how it will be made. Of one that may not be looked at it is not known which counts.
func internals(f Facts) []Finding {
	var all []Finding
	var refused, untold []string
	var why error
	for _, r := range Internals() {
		if slices.Contains(f.Refused, r.Topic) {
			if !slices.Contains(refused, r.Topic) {
				refused = append(refused, r.Topic)
			}
			continue
		}
		t, made := f.Own[r.Topic]
		if made && t.SettingsErr != nil && !slices.Contains(untold, r.Topic) {
			untold, why = append(untold, r.Topic), t.SettingsErr
		}
		if made {
			all = append(all, r.made(t, f)...)
			continue
		}
		for _, b := range f.Cluster.Brokers {
			if b.Err == "" && b.SettingsErr == nil {
				all = append(all, r.planned(b, f))
			}
		}
	}
	if len(refused) > 0 {
		all = append(all, Finding{
			Level: Warn, About: "topics " + strings.Join(refused, ", "), Check: "leaders, replicas and settings",
			Is: "not known: this user may not describe them", Wanted: "known",
			Why: "whether they survive the loss of a broker, and can be written now, is not looked at",
			Fix: describesInternals(f, refused),
		})
	}
	if len(untold) > 0 {
		out := Finding{
			About: "topics " + strings.Join(untold, ", "), Check: "settings", Wanted: "known",
			Why: "how many replicas a record must be on before it counts is not looked at",
		}.notKnown(why)
		out.Fix = describesInternals(f, untold) // the role of an operator has nothing outside of the cell
		all = append(all, out)
	}
	return all
}

// describesInternals is the call that lets a user of the role operator look at Kafka's own topics.
func describesInternals(f Facts, topics []string) string {
	return fmt.Sprintf("kafka-acls.sh --bootstrap-server %s --add --allow-principal User:NAME "+
		"--operation Describe --operation DescribeConfigs --topic %s",
		f.Bootstrap, strings.Join(topics, " --topic "))
}

// made judges the topic as it is; whether it works, where its replicas are judged.
func (r Replicated) made(t admin.TopicFacts, f Facts) []Finding {
	if r.InSync && t.SettingsErr != nil {
		return nil
	}
	if r.InSync {
		return []Finding{inSync(t, f)}
	}
	out := replicas(t, f)
	out.Check = "replicas (" + r.Name + ")"
	return append([]Finding{out}, alive(t)...)
}

// planned judges the setting of a topic to come.
func (r Replicated) planned(b admin.BrokerFacts, f Facts) Finding {
	brokers := len(f.Cluster.Brokers)
	value, _ := strconv.Atoi(b.Settings[r.Name])
	want := when(brokers >= 3, r.Value, "1")
	out := Finding{
		About: broker(b), Check: r.Name, Is: b.Settings[r.Name], Wanted: want,
		Why: r.Topic + " cannot be made with more replicas than brokers, and does not survive the loss of a " +
			"broker with fewer than three",
		Fix: fmt.Sprintf("put %s=%s into server.properties of broker %d (%s) and restart it",
			r.Name, want, b.ID, b.Address),
	}
	level := OK
	switch {
	case value > brokers || value < 1:
		level = Fail
	case brokers >= 3 && fmt.Sprint(value) != r.Value:
		level = when(value == 1 && !r.InSync, Fail, Warn)
	}
	return out.with(level)
}

func distinct(all []string) []string {
	var out []string
	seen := map[string]bool{}
	for _, s := range all {
		if !seen[s] {
			seen[s] = true
			out = append(out, s)
		}
	}
	return out
}
