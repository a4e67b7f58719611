// SPDX-License-Identifier: Apache-2.0

package doctor

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/berth-project/berth/pkg/compute"
	"github.com/berth-project/berth/pkg/kafka/admin"
	"github.com/berth-project/berth/pkg/wire"
)

// queues judges the share state of every queue in the list.
func queues(f Facts) []Finding {
	const check, wanted = "topic and share state", "the listed topic, initialised"
	if f.QueuesErr != nil {
		return []Finding{Finding{
			About: "queues", Check: check, Wanted: wanted,
			Why: "which queues there are, and whether their work can be published and pulled, is not looked at",
		}.notKnown(f.QueuesErr)}
	}
	var hidden []string
	var why error
	amount, last := map[string]int{}, map[string]int{} // of each kind: how many, and where in all the last one is
	var all []Finding
	for _, p := range f.Progress {
		out := Finding{
			About: "queue " + string(p.Queue.Name), Wanted: "the listed topic, with its share state initialised",
		}
		switch {
		case forbidden(p.Err):
			hidden, why = append(hidden, string(p.Queue.Name)), cmp.Or(why, p.Err)
			continue
		case errors.Is(p.Err, wire.ErrNoTopic):
			out.Check, out.Is, out.Why = "its topic", "does not exist", "its work can be neither published nor pulled"
			out.Fix = "start a queue manager: it makes the topic again and lists it anew"
		case p.Err != nil:
			out.Check, out.Is, out.Why = "its share state", "not known: "+p.Err.Error(), "the brokers do not say"
			out.Fix = "look again in a moment; then whether its topic has a leader, and into the log of the share coordinator"
		case p.TopicID != p.Queue.TopicID:
			out.Check, out.Is = "its topic", fmt.Sprintf("is %.8s…, listed is %.8s…", p.TopicID, p.Queue.TopicID)
			out.Why = "it was deleted and made again: agents ask for one that is gone"
			out.Fix = "start a queue manager: it lists the queue anew"
		case p.Start < 0:
			out.Check, out.Is, out.Why = "its share state", "not initialised", "no agent can pull from it"
			out.Fix = fmt.Sprintf("kafka-share-groups.sh --bootstrap-server %s --group %s --topic %s "+
				"--reset-offsets --to-earliest --execute",
				f.Bootstrap, p.Queue.Group, f.Topics.Build(p.Queue.Name))
		default:
			continue
		}
		kind := out.Check + out.Is
		if amount[kind]++; amount[kind] <= most {
			last[kind] = len(all)
			all = append(all, out.with(Fail))
		}
	}
	if len(hidden) > 0 {
		all = append(all, Finding{
			About: when(len(hidden) == 1, "queue ", "queues ") + names(hidden), Check: check, Wanted: wanted,
			Why: "whether their work can be published and pulled is not looked at",
		}.notKnown(why))
	}
	if len(all) == 0 {
		return append(groups(f), Finding{
			Level: OK, About: "queues", Check: check, Is: fmt.Sprintf("%d queues", len(f.Progress)), Wanted: wanted,
		})
	}
	for kind, n := range amount {
		if n > most {
			all[last[kind]].About += fmt.Sprintf(" (and %d more)", n-most)
		}
	}
	return append(all, groups(f)...)
}

// groups judges what the share groups are told to do.
func groups(f Facts) []Finding {
	var all []Finding
	want := admin.ShareGroupSettings()
	for _, g := range slices.Sorted(maps.Keys(f.Groups)) {
		for _, key := range slices.Sorted(maps.Keys(want)) {
			out := Finding{
				About: "share group " + g, Check: key, Is: f.Groups[g][key], Wanted: want[key],
				Why: "agents count on it",
				Fix: fmt.Sprintf(
					"kafka-configs.sh --bootstrap-server %s --alter --entity-type groups --entity-name %s "+
						"--add-config %s=%s",
					f.Bootstrap, g, key, want[key],
				),
			}
			all = append(all, out.with(when(out.Is == out.Wanted, OK, Warn)))
		}
	}
	if hidden := slices.Sorted(maps.Keys(f.GroupErrs)); len(hidden) > 0 {
		all = append(all, Finding{
			About: when(len(hidden) == 1, "share group ", "share groups ") + names(hidden), Check: "settings",
			Wanted: "as queue managers make them", Why: "agents count on them",
		}.notKnown(f.GroupErrs[hidden[0]]))
	}
	return all
}

// lateAt is how many requests and reports may wait for the conductors before it
// is worth a word.
const lateAt = 10_000

// parts judges whether Berth's own daemons are there.
func parts(f Facts) []Finding {
	conductors := Finding{
		About: "conductors", Check: "running", Is: fmt.Sprint(len(f.Conductor.Members)), Wanted: "2 or more",
		Why: "without any, requests are accepted and nothing is decided; with one, nobody takes over",
		Fix: "berth conductor --config conductor.yaml",
	}
	lag := Finding{
		About: "conductors", Check: "requests and reports that wait", Is: fmt.Sprint(f.Conductor.Lag),
		Wanted: fmt.Sprintf("fewer than %d", lateAt),
		Why:    "they are behind",
		Fix: "look at berth_conductor_ metrics and at the brokers' load; more conductors help while there are " +
			"partitions for them",
	}
	managers := Finding{
		About: "queue managers", Check: "running", Is: fmt.Sprint(len(f.Manager.Members)), Wanted: "2",
		Why: "without any, no queue and no host stream is made; with one, nobody stands by",
		Fix: "berth queues --config queues.yaml",
	}
	active := Finding{
		About: "queue managers", Check: "active", Is: fmt.Sprint(f.Manager.Working), Wanted: "1",
		Why: "an election is under way, or none runs",
		Fix: "look again in a moment",
	}
	var all []Finding
	if f.ConductorErr != nil {
		conductors.Check = "running, and how far they are"
		conductors.Why = "whether requests are decided, and for which partitions, is not looked at"
		all = append(all, conductors.notKnown(f.ConductorErr))
	} else {
		all = append(all,
			conductors.with(count(len(f.Conductor.Members))), lag.with(when(f.Conductor.Lag < lateAt, OK, Warn)))
	}
	if f.ManagerErr != nil {
		all = append(all, managers.notKnown(f.ManagerErr))
	} else {
		all = append(all,
			managers.with(count(len(f.Manager.Members))), active.with(when(f.Manager.Working == 1, OK, Warn)))
	}
	all = append(all, hosts(f), trust(f), publishTrust(f), userData(f))
	return slices.Concat(all, decided(f), apart(f))
}

// decided judges whether there is a conductor for each partition that can go on with it. A partition may also be set
// aside for a record of a later version or one that cannot be read: only the conductor that has it can tell.
func decided(f Facts) []Finding {
	var all []Finding
	is := map[int32]string{}
	for _, p := range f.Aside {
		is[p] = "set aside by a conductor"
	}
	for _, p := range f.Conductor.Beyond {
		is[p.Partition] = fmt.Sprintf("%d in %s, which ends at %d", p.At, p.Topic, p.End)
	}
	for i, p := range slices.Sorted(maps.Keys(is)) {
		if i == most {
			all[i-1].About += fmt.Sprintf(" (and %d more)", len(is)-most)
			break
		}
		all = append(all, Finding{
			Level: Fail, About: fmt.Sprintf("partition %d", p), Check: "where conductors go on", Is: is[p],
			Wanted: "at or before the ends of requests and reports",
			Why:    "nothing is decided for its projects: records that had been decided are gone",
			Fix: fmt.Sprintf("docs/OPERATIONS.md, A partition that is set aside; then "+
				"berth conductor reset-position --partition %d --config conductor.yaml", p),
		})
	}
	if f.AsideErr != nil {
		all = append(all, Finding{
			About: "partitions", Check: "set aside", Wanted: "none",
			Why: "nothing would be decided for their projects", Fix: "look at /readyz of each conductor",
		}.notKnown(f.AsideErr))
	}
	var unowned []string
	for _, p := range f.Conductor.Unowned {
		unowned = append(unowned, fmt.Sprintf("%d of %s", p.Partition, p.Topic))
	}
	out := Finding{
		About: "partitions", Check: "without a conductor", Is: cmp.Or(names(unowned), "none"), Wanted: "none",
		Why: "nothing is decided for their projects",
		Fix: "look again in a moment; then look into the log of each conductor, and start another",
	}
	if f.ConductorErr != nil {
		return all // the finding about conductors says so
	}
	return append(all, out.with(when(len(unowned) == 0, OK, Fail)))
}

func count(n int) Level { return when(n == 0, Fail, when(n == 1, Warn, OK)) }

// hosts judges how many hosts were heard of lately.
func hosts(f Facts) Finding {
	var silent []compute.HostID
	for _, b := range f.Beacons {
		if f.Now.Sub(b.At) > compute.SilentAfter {
			silent = append(silent, b.Host)
		}
	}
	out := Finding{
		About: "hosts", Check: "heard of in the last " + short(compute.SilentAfter),
		Is:     fmt.Sprintf("%d of %d", len(f.Beacons)-len(silent), len(f.Beacons)),
		Wanted: "all, and at least one", Why: "no host has ever said anything: nothing can be placed",
		Fix: "berth agent --config agent.yaml on each host",
	}
	if f.BeaconsErr != nil {
		out.Why = "which hosts there are, and whether brokers have share sessions for all of them, is not looked at"
		return out.notKnown(f.BeaconsErr)
	}
	if len(silent) > 0 {
		out.Why = "silent: " + names(silent)
		out.Fix = "look at the agents there, and whether they reach Kafka"
	}
	return out.with(when(len(silent) == 0 && len(f.Beacons) > 0, OK, Warn))
}

// trust tells which reports and beacons count, by the settings that the doctor was given.
func trust(f Facts) Finding {
	out := Finding{
		About: "hosts", Check: "whose word counts",
		Is: fmt.Sprintf("hosts.trust %s; %d of %d hosts sign", cmp.Or(f.Trust, "not known"),
			len(f.Beacons)-len(f.Unsigned), len(f.Beacons)),
		Wanted: "keys, and all hosts sign",
		Why:    "whoever may write to Kafka as an agent can speak for any host",
		Fix:    "docs/OPERATIONS.md, Whom conductors believe",
	}
	if f.BeaconsErr != nil {
		out.Is = fmt.Sprintf("hosts.trust %s; how many hosts sign is not known", cmp.Or(f.Trust, "not known"))
	}
	switch {
	case f.Trust == "":
		out.Wanted = "a conductor's file tells (--config)"
		return out.with(OK)
	case f.Trust != "keys":
		return out.with(Warn)
	case f.BeaconsErr != nil:
		is := out.Is
		out = out.notKnown(f.BeaconsErr)
		out.Is, out.Why = is, "conductors do not hear what is not signed"
		return out
	case len(f.Unsigned) > 0:
		out.Why = "conductors do not hear what is not signed: " + names(f.Unsigned)
		out.Fix = "berth host enroll HOST, and host_key_file in the settings of its agent"
		return out.with(Warn)
	}
	return out.with(OK)
}

// publishTrust tells which requests count, by the settings that the doctor was given.
func publishTrust(f Facts) Finding {
	out := Finding{
		About: "requests", Check: "whose count",
		Is:     "publish.trust " + cmp.Or(f.Publish, "not known"),
		Wanted: "keys",
		Why:    "whoever may write to Kafka's topic of requests can boot and delete for any project",
		Fix:    "docs/OPERATIONS.md, Whose requests count",
	}
	switch f.Publish {
	case "":
		out.Wanted = "a conductor's file tells (--config)"
		return out.with(OK)
	case "keys":
		return out.with(OK)
	}
	return out.with(Warn)
}

// UserDataFacts is by what API nodes seal user data, as far as the doctor was told.
type UserDataFacts struct {
	Known bool            // the doctor was given the file of an API node
	Keys  []compute.KeyID // of it; the last one seals
	Err   error           // why they cannot be read
}

// userData tells whether user data lies open in Kafka, and whether all hosts open what is sealed.
func userData(f Facts) Finding {
	out := Finding{
		About: "user data", Check: "sealed", Wanted: "by a key that all hosts have",
		Fix: "docs/OPERATIONS.md, User data that is sealed",
	}
	keys, open := f.UserData.Keys, 0
	lacking := map[compute.KeyID][]compute.HostID{}
	for _, b := range f.Beacons {
		if len(b.Opens) > 0 {
			open++
		}
		for _, key := range keys {
			if !slices.Contains(b.Opens, key) {
				lacking[key] = append(lacking[key], b.Host)
			}
		}
	}
	switch {
	case f.UserData.Err != nil:
		out.Is, out.Why = "not known", f.UserData.Err.Error()
		out.Fix = "run the doctor as the user of the API node"
	case f.BeaconsErr != nil && (len(keys) > 0 || !f.UserData.Known):
		out = out.notKnown(f.BeaconsErr)
		out.Why = "which hosts have a key is not looked at: those that lack it leave work with user data to others"
		return out
	case len(keys) == 0 && (f.UserData.Known || open == 0):
		out.Is = "no: user data lies open in Kafka"
		out.Why = "whoever reads the topics, a broker's disk or a backup of it reads the secrets in it"
	case len(keys) == 0:
		out.Is = fmt.Sprintf("not known; %d of %d hosts have a key", open, len(f.Beacons))
		out.Wanted = "an API node's file tells (--config)"
		return out.with(OK)
	default:
		newest := keys[len(keys)-1]
		out.Is = fmt.Sprintf("under key %s; %d of %d hosts have it", newest,
			len(f.Beacons)-len(lacking[newest]), len(f.Beacons))
		out.Fix = "that key into the file of user_data.keys of their agents, and restart them"
		for _, key := range slices.Backward(keys) {
			switch hosts := lacking[key]; {
			case len(hosts) == 0:
				continue
			case key == newest:
				out.Why = "these leave work with user data to others: " + names(hosts)
			default:
				out.Why = fmt.Sprintf("these build nothing again that was booted under key %s: %s", key, names(hosts))
				out.Fix += "; or take it out of this file, if berth verify counts nothing under it"
			}
			return out.with(Warn)
		}
		return out.with(OK)
	}
	return out.with(Warn)
}

// apart tells what hosts warn of, each warning once.
func apart(f Facts) []Finding {
	by := map[string][]compute.HostID{}
	for _, b := range f.Beacons {
		for _, w := range b.Warnings {
			by[w] = append(by[w], b.Host)
		}
	}
	var all []Finding
	for _, w := range slices.Sorted(maps.Keys(by)) {
		why, fix, _ := strings.Cut(w, "; ")
		out := Finding{
			About: "hosts " + names(by[w]), Check: "warnings of their agents", Is: "one",
			Wanted: "none",
			Why:    why, Fix: cmp.Or(fix, "berth host show HOST"),
		}
		all = append(all, out.with(Warn))
	}
	return all
}

func short(d time.Duration) string { return fmt.Sprintf("%d s", int(d.Seconds())) }
