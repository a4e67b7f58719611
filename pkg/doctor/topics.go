// SPDX-License-Identifier: Apache-2.0

package doctor

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/berth-project/berth/pkg/kafka/access"
	"github.com/berth-project/berth/pkg/kafka/admin"
)

// cell judges the cell's own topics one by one, and those of queues and hosts
// only where something is wrong: there may be thousands.
func cell(f Facts) []Finding {
	var all []Finding
	var hidden []string
	for _, p := range f.Plans(wantedReplicas(f)) {
		t, there := f.Own[p.Name]
		if !there && slices.Contains(f.Refused, p.Name) {
			hidden = append(hidden, p.Name)
			continue
		}
		if !there {
			all = append(all, Finding{
				Level: Fail, About: "topic " + p.Name, Check: "exists", Is: "no", Wanted: "yes",
				Why: "the cell has not begun, or the prefix is another",
				Fix: "start a queue manager of this version: it makes what is missing",
			})
			continue
		}
		all = append(all, topic(t, p, f)...)
	}
	if len(hidden) > 0 {
		all = append(all, Finding{
			About: "topics " + names(hidden), Check: "leaders, replicas and settings", Wanted: "known",
			Why: "whether they are there, and can be written and read, is not looked at",
		}.notKnown(mayNotDescribe(f, hidden)))
	}
	return slices.Concat(all, partitions(f), many(f), untold(f))
}

// mayNotDescribe is the error of brokers that hide topics from this user.
func mayNotDescribe(f Facts, topics []string) error {
	var lacks []access.Right
	for _, name := range topics {
		lacks = append(lacks, access.To(access.Describe, access.Topic, name))
	}
	return f.As.Denied("", nil, lacks...)
}

// untold is one finding about all of the cell's topics whose settings were not told: they are judged by nothing else.
func untold(f Facts) []Finding {
	var all []string
	var why error
	for _, name := range sorted(f.Own) {
		err := f.Own[name].SettingsErr
		if err == nil || !strings.HasPrefix(name, f.Topics.Prefix) {
			continue
		}
		all, why = append(all, name), cmp.Or(why, err)
	}
	if len(all) == 0 {
		return nil
	}
	return []Finding{Finding{
		About: when(len(all) == 1, "topic ", "topics ") + names(all), Check: "settings", Wanted: "as Berth makes them",
		Why: "whether records are kept for as long as they are needed, and on how many brokers, is not looked at",
		Fix: "look again in a moment",
	}.notKnown(why)}
}

func wantedReplicas(f Facts) int16 { return int16(min(3, max(1, len(f.Cluster.Brokers)))) }

// topic judges one topic.
func topic(t admin.TopicFacts, p admin.TopicPlan, f Facts) []Finding {
	all := []Finding{replicas(t, f)}
	if t.SettingsErr != nil {
		return append(all, alive(t)...)
	}
	all = append(all, inSync(t, f))
	for _, key := range []string{
		"cleanup.policy", "retention.ms", "retention.bytes", "max.message.bytes", "message.timestamp.type",
		"delete.retention.ms",
	} {
		want, planned := p.Settings[key]
		if !planned {
			continue
		}
		out := Finding{
			About: "topic " + t.Name, Check: key, Is: t.Settings[key], Wanted: want, Why: whyTopic(key),
			Fix: alter(f, t.Name, key, want),
		}
		wrong := Fail
		switch {
		case key == "message.timestamp.type":
			wrong = Warn // nothing is the matter while all clocks are right
		case key == "delete.retention.ms":
			wrong = Warn // nor while no process is cut off for that long
		case t.Name == f.Topics.Audit() && strings.HasPrefix(key, "retention."):
			wrong, out.Why = Warn, "it is forgotten sooner who changed what over the API" // for the operator to choose
		}
		all = append(all, out.with(when(suffices(key, t.Settings[key], want), OK, wrong)))
	}
	return append(all, alive(t)...)
}

// whyTopic is what goes wrong with another value.
func whyTopic(key string) string {
	switch key {
	case "cleanup.policy":
		return "a table that is not compacted loses entries or grows for ever; a stream that is compacted loses records"
	case "max.message.bytes":
		return "the largest records of Berth are refused"
	case "message.timestamp.type":
		return "a process whose clock is an hour ahead can write nothing"
	case "delete.retention.ms":
		return "a process that was cut off for longer goes on with what was removed meanwhile, until it is started again"
	}
	return "records are removed before everybody has read them"
}

// suffices says whether a value is as wanted or, where more does no harm, more.
func suffices(key, is, want string) bool {
	if is == want {
		return true
	}
	have, err1 := strconv.ParseInt(is, 10, 64)
	need, err2 := strconv.ParseInt(want, 10, 64)
	if err1 != nil || err2 != nil {
		return false
	}
	switch key {
	case "retention.ms", "retention.bytes":
		return have == -1 || need != -1 && have >= need
	case "max.message.bytes", "delete.retention.ms":
		return have >= need
	}
	return false
}

func alter(f Facts, topic, key, value string) string {
	return fmt.Sprintf(
		"kafka-configs.sh --bootstrap-server %s --alter --entity-type topics --entity-name %s --add-config %s=%s",
		f.Bootstrap, topic, key, value,
	)
}

func replicas(t admin.TopicFacts, f Facts) Finding {
	want := int(wantedReplicas(f))
	out := Finding{
		About: "topic " + t.Name, Check: "replicas", Is: fmt.Sprint(t.Replicas), Wanted: fmt.Sprint(want),
		Why: "with one replica the loss of its broker stops the cell, and may lose what was acknowledged",
		Fix: "kafka-reassign-partitions.sh --bootstrap-server " + f.Bootstrap + " --execute, with three " +
			"replicas for each partition of " + t.Name,
	}
	return out.with(when(t.Replicas >= want, OK, when(t.Replicas == 1, Fail, Warn)))
}

// inSync: with three replicas, two must have a record before it counts; as many
// as there are replicas, and the loss of one stops everything.
func inSync(t admin.TopicFacts, f Facts) Finding {
	n, _ := strconv.Atoi(t.Settings["min.insync.replicas"])
	want := when(t.Replicas >= 3, 2, 1)
	out := Finding{
		About: "topic " + t.Name, Check: "min.insync.replicas", Is: t.Settings["min.insync.replicas"],
		Wanted: fmt.Sprint(want),
		Why:    "what was acknowledged is on one broker only and may be lost with it",
		Fix:    alter(f, t.Name, "min.insync.replicas", fmt.Sprint(want)),
	}
	switch {
	case n > 1 && n >= t.Replicas:
		out.Why = "when one broker is down nothing can be written"
		return out.with(Fail)
	case n < want:
		return out.with(Fail)
	}
	return out.with(OK)
}

func alive(t admin.TopicFacts) []Finding {
	var all []Finding
	if len(t.Offline) > 0 {
		all = append(all, Finding{
			Level: Fail, About: "topic " + t.Name, Check: "leaders",
			Is: fmt.Sprintf("partitions %v have none", t.Offline), Wanted: "every partition has one",
			Why: "nothing can be read or written there", Fix: "start the brokers that are down",
		})
	}
	least := t.Settings["min.insync.replicas"]
	switch n, _ := strconv.Atoi(least); { // 0, and no failure, where the setting is not told
	case len(t.Under) == 0:
	case t.InSync < n:
		all = append(all, Finding{
			Level: Fail, About: "topic " + t.Name, Check: "can be written",
			Is:     fmt.Sprintf("no: of partitions %v one has %d replicas in sync", t.Under, t.InSync),
			Wanted: "at least " + least + ", its min.insync.replicas", Why: "brokers refuse every write there",
			Fix: "start the brokers that are down; one that has just come back needs some time",
		})
	default:
		all = append(all, Finding{
			Level: Warn, About: "topic " + t.Name, Check: "replicas in sync",
			Is: fmt.Sprintf("not all of partitions %v", t.Under), Wanted: "all",
			Why: "the next broker to be lost may stop the cell",
			Fix: "start the brokers that are down; one that has just come back needs some time",
		})
	}
	return all
}

// partitions: the partition of a project must be the same everywhere.
func partitions(f Facts) []Finding {
	names := []string{f.Topics.Requests(), f.Topics.Reports(), f.Topics.Instances()}
	var counts, said []string
	for _, n := range names {
		if t, there := f.Own[n]; there {
			counts = append(counts, fmt.Sprint(t.Partitions))
			said = append(said, fmt.Sprintf("%s %d", n, t.Partitions))
		}
	}
	if len(counts) < len(names) {
		return nil // what is missing is said already
	}
	out := Finding{
		About: "cell", Check: "partitions", Is: strings.Join(said, ", "), Wanted: "the same for the three",
		Why: "a project's requests, reports and instances must meet in one place: no conductor starts",
		Fix: "choose another kafka.prefix; if the cell is empty, delete the three topics and start a daemon",
	}
	return []Finding{out.with(when(len(distinct(counts)) == 1, OK, Fail))}
}

// most findings of one kind about queues and hosts.
const most = 5

// many judges the topics of queues and hosts.
func many(f Facts) []Finding {
	var bad []Finding
	seen, more := 0, map[string]int{}
	for _, name := range sorted(f.Own) {
		t := f.Own[name]
		p, ok := f.Plan(name, wantedReplicas(f))
		if !ok {
			continue
		}
		seen++
		for _, finding := range topic(t, p, f) {
			if finding.Level == OK {
				continue
			}
			if more[finding.Check]++; more[finding.Check] <= most {
				bad = append(bad, finding)
			}
		}
	}
	slices.SortStableFunc(bad, func(a, b Finding) int { return strings.Compare(a.Check, b.Check) })
	for i := range bad {
		if n := more[bad[i].Check]; n > most && (i == len(bad)-1 || bad[i+1].Check != bad[i].Check) {
			bad[i].About += fmt.Sprintf(" (and %d more)", n-most)
		}
	}
	sum := Finding{
		Level: OK, About: "queues and hosts", Check: "their topics", Is: fmt.Sprintf("%d looked at", seen),
		Wanted: "as Berth makes them",
	}
	hidden := slices.DeleteFunc(slices.Clone(f.Refused), func(name string) bool {
		_, planned := f.Plan(name, 1)
		return !planned
	})
	if len(hidden) > 0 {
		bad = append(bad, Finding{
			About: "queues and hosts", Check: "their topics", Wanted: "as Berth makes them",
			Why: "whether they are there, and can be written and read, is not looked at",
		}.notKnown(mayNotDescribe(f, hidden)))
	}
	if len(bad) > 0 {
		return bad
	}
	return []Finding{sum}
}

func sorted(m map[string]admin.TopicFacts) []string {
	var names []string
	for n := range m {
		names = append(names, n)
	}
	slices.Sort(names)
	return names
}

// names is a few of many.
func names[T ~string](all []T) string {
	var out []string
	for i, n := range all {
		if i == most {
			out = append(out, fmt.Sprintf("and %d more", len(all)-most))
			break
		}
		out = append(out, string(n))
	}
	return strings.Join(out, ", ")
}
