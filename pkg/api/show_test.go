// SPDX-License-Identifier: Apache-2.0

package api

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/berth-project/berth/pkg/auth"
	"github.com/berth-project/berth/pkg/compute"
	"github.com/berth-project/berth/pkg/wire"
	"github.com/berth-project/berth/pkg/wire/rest"
)

// crowdedNode has machines of two projects on two hosts, with everything that can be said of them; "alien" and
// its hosts have names that stand nowhere else.
func crowdedNode(t *testing.T) *node {
	n := lockedNode(t)
	hosts := map[compute.Project]compute.HostID{"own": "rack1-07.secret", "alien": "rack2-09.secret"}
	for p, h := range hosts {
		n.hears(compute.Beacon{
			Host: h, Journal: compute.JournalID("journal-of-" + h), At: start, State: compute.HostDraining,
			Reason: "rack.secret moves, the last machine of alien failed",
			Inventory: compute.Inventory{Totals: compute.Resources{compute.VCPU: 64, compute.MemoryMB: 1 << 20,
				compute.DiskGB: 1 << 10}},
		})
		n.Advice([]wire.Record{wire.EncodeAdvice(compute.Advice{At: start, Full: true, About: []compute.QueueAdvice{
			{Queue: "m1.small", Depth: 3, Hosts: compute.HostCounts{Eligible: 1, Full: 2}},
		}})}, true)
		why := &compute.Reason{Code: compute.MachineKilled, Host: h, Detail: "on " + string(h) + ": gone"}
		for i, state := range []compute.State{compute.StateActive, compute.StateQueued, compute.StateError} {
			id := compute.InstanceID(fmt.Sprintf("%d%d111111-1111-4111-8111-111111111111", len(p), i))
			n.has(instance(id, string(p)+"-name", state, func(in *compute.Instance) {
				in.Project, in.Host = p, h
				if state == compute.StateQueued {
					in.Boot.Host, in.Host = h, ""
				}
				in.Boot.Avoid, in.Boot.SSHKeys = []compute.HostID{h}, []string{"ssh-ed25519 KEYOF" + string(p)}
				in.Boot.UserData = compute.UserData("DATAOF" + string(p))
				in.Boot.Metadata = map[string]string{"of": string(p) + "-metadata"}
				in.Reason, in.Stopped, in.Power = why, why, compute.PowerStopped
				in.Failures = []compute.Failure{{Host: h, Attempt: 1, Message: "qemu on " + string(h) + " failed"}}
				in.Answer = &compute.PowerAnswer{Op: compute.OpStop, Failed: string(h) + " is busy"}
			}))
		}
	}
	return n
}

// TestProjectsSeeNothingOfEachOther walks through all operations as a member of one project and looks for
// whatever belongs to the other, and for names of hosts.
//
// Seen to fail when hideHosts does nothing, when the reason of a refusal is not hidden, when list-quotas shows all
// and when lists have SSH keys.
func TestProjectsSeeNothingOfEachOther(t *testing.T) {
	n := crowdedNode(t)
	n.as = n.token(auth.RoleMember, "own")
	asked := 0
	look := func(method, target, body string) {
		t.Helper()
		a := n.do(method, target, body)
		asked++
		for _, secret := range []string{
			"alien", ".secret", "DATAOF", "KEYOFalien", "50111111", "51111111", "j1", "journal-of", "rack",
		} {
			text := string(a.body)
			for _, said := range []string{target, body} { // what the caller said itself
				between := func(r rune) bool { return strings.ContainsRune(`"?&=/{}[]: ,`, r) }
				for _, word := range strings.FieldsFunc(said, between) {
					if len(word) > 4 {
						text = strings.ReplaceAll(text, word, "")
					}
				}
			}
			if strings.Contains(text, secret) {
				t.Errorf("%s %s %s: %q in %.900s", method, target, body, secret, text)
			}
		}
		one := strings.Contains(target, "/v1/instances/") && method == "GET" || a.status == 202
		if strings.Contains(string(a.body), "KEYOF") && !one {
			t.Errorf("%s %s has SSH keys: %s", method, target, a.body)
		}
	}
	for _, op := range n.documented() {
		for _, project := range []compute.Project{"own", "alien"} {
			look(op.asks(project))
		}
	}
	for _, id := range []string{"30", "31", "32", "50", "51", "52"} {
		at := "/v1/instances/" + id + "111111-1111-4111-8111-111111111111"
		for _, project := range []string{"own", "alien"} {
			look("GET", at+"?project="+project, "")
			look("POST", at+"/reboot?project="+project, "")
			look("GET", at+"/console?project="+project, "")
			look("GET", at+"/explain?project="+project, "")
		}
	}
	for _, query := range []string{
		"project=own&all=true", "project=own&host=rack1-07.secret", "project=own&host=rack2-09.secret",
		"project=own&fields=ssh_keys,host", "project=own&ref=5", "project=own&marker=1_50111111-1111-4111-8111-111111111111",
		"project=own&id=50111111-1111-4111-8111-111111111111", "project=alien",
	} {
		look("GET", "/v1/instances?"+query, "")
	}
	look("GET", "/v1/quotas/_default", "")
	own := into[rest.Instance](n.do("GET",
		"/v1/instances/30111111-1111-4111-8111-111111111111?project=own", nil), 200).Host
	for _, query := range []string{"host=" + string(own), "avoid=" + string(own),
		"avoid=" + string(own) + "&avoid=" + string(own)} {
		look("GET", "/v1/explain?flavor=m1.small&project=own&"+query, "")
	}
	if asked < 80 {
		t.Errorf("only %d requests", asked)
	}
}

// TestTheRestOfASetNamesNoHosts: why a set ended is the reason of one of it, which names hosts that the others never
// had. Once nobody knows what that one was, nothing of its reason is told.
func TestTheRestOfASetNamesNoHosts(t *testing.T) {
	var l log
	n := lockedNode(t, func(c *Config) { c.KeepOpen = time.Millisecond })
	server := n.serve()
	n.hears(compute.Beacon{Host: "rack7", Journal: "j7", At: start})
	hidden, _ := n.views.hosts.get("rack7")
	why := &compute.Reason{Code: compute.AttemptsExhausted, Attempt: 3, Detail: "rack7 (3 times): no disk on rack7"}
	failed := func(i *compute.Instance) {
		i.Project, i.Reason = "own", why
		i.Failures = []compute.Failure{{Host: "rack7", Attempt: 3, Message: "no disk on rack7"}}
	}
	others := func(i *compute.Instance) {
		i.Project = "own"
		i.Reason = &compute.Reason{Code: compute.SetFailed, Detail: "instance " + string(id1) + ": " + why.String()}
	}
	told := func(role auth.Role) (texts []string) {
		t.Helper()
		n.as = n.token(role, "own")
		if role == auth.RoleOperator {
			n.as = n.token(role, "")
		}
		for _, target := range []string{
			path(id2) + "?project=own", "/v1/instances?project=own&name=b", path(id2) + "/explain?project=own",
			path(id2) + "/events?project=own",
		} {
			a := n.do("GET", target, nil)
			if a.status != 200 {
				t.Errorf("%s: %d %s", target, a.status, a.body)
			}
			texts = append(texts, string(a.body))
		}
		h := n.hear(server, "project=own&present=true&follow=false&instance="+string(id2), "")
		return append(texts, string(h.told().Data))
	}
	l.write(id1, "a", compute.StateError, failed)
	l.write(id2, "b", compute.StateError, others)
	n.Instances(l.recs, true)
	for _, text := range told(auth.RoleReader) {
		if strings.Contains(text, "rack7") || !strings.Contains(text, string(hidden.opaque)+" (3 times)") &&
			strings.Contains(text, "SetFailed") {
			t.Errorf("a project reads %s", text)
		}
	}
	for i, text := range told(auth.RoleOperator) {
		if i != 3 && !strings.Contains(text, "rack7 (3 times)") {
			t.Errorf("an operator reads %s", text)
		}
	}
	gone := wire.Tombstone(wire.KeyInstance("own", id1)).To("test.instances", wire.Partition("own", 4))
	gone.Offset, gone.Time = int64(len(l.recs)), time.Now()
	n.Instances([]wire.Record{gone}, true)
	for _, text := range told(auth.RoleReader) {
		if strings.Contains(text, "rack7") || strings.Contains(text, "3 times") {
			t.Errorf("without the other, a project reads %s", text)
		}
	}
}

// What an operator sees has the names.
func TestOperatorsSeeHosts(t *testing.T) {
	n := crowdedNode(t)
	n.as = n.token(auth.RoleOperator, "")
	i := into[rest.Instance](n.do("GET", "/v1/instances/50111111-1111-4111-8111-111111111111?project=alien", nil), 200)
	if i.Host != "rack2-09.secret" || !strings.Contains(i.Failures[0].Message, "rack2-09.secret") {
		t.Errorf("%+v", i)
	}
	if all := into[rest.Quotas](n.do("GET", "/v1/quotas", nil), 200).Items; len(all) != 3 {
		t.Errorf("%+v", all)
	}
}

// TestStreamsThatFailNameNoHost: a console that cannot be asked for, since the host's stream takes nothing, is refused
// without the name of that stream, which is the host's.
func TestStreamsThatFailNameNoHost(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := crowdedNode(t)
		n.as = n.token(auth.RoleMember, "own")
		const at = "/v1/instances/30111111-1111-4111-8111-111111111111/console?project=own"
		look := func(what string, statuses ...int) {
			t.Helper()
			a := n.do("GET", at, nil)
			if !slices.Contains(statuses, a.status) || strings.Contains(string(a.body), "rack") {
				t.Errorf("%s: %d %s", what, a.status, a.body)
			}
		}
		n.fail = wire.ErrNoTopic
		look("no stream", 503)
		n.fail = &compute.Error{Kind: compute.KindForbidden}
		look("a stream of others", 503)
		n.fail = errors.New("no leader")
		look("no leader", 504)
		look("known to have no leader", 503)
	})
}

// An opaque id of a host can be given back: to pin to it, to avoid it, to list what is on it. A name cannot.
func TestOpaqueHosts(t *testing.T) {
	n := crowdedNode(t)
	n.as = n.token(auth.RoleMember, "own")
	const at = "/v1/instances?project=own"
	one := into[rest.Instance](n.do("GET", "/v1/instances/30111111-1111-4111-8111-111111111111?project=own", nil), 200)
	if !strings.HasPrefix(string(one.Host), "h-") || one.Failures[0].Host != one.Host || one.Avoid[0] != one.Host ||
		one.Failures[0].Message != "qemu on "+string(one.Host)+" failed" {
		t.Errorf("%+v", one)
	}
	on := func(h string) int { return len(into[rest.Instances](n.do("GET", at+"&host="+h, nil), 200).Items) }
	if on(string(one.Host)) != 2 || on("rack1-07.secret") != 0 || on("unknown-host") != 0 || on("h-00") != 0 {
		t.Error("what is on a host is listed by its opaque id alone")
	}
	n.do("POST", at, `{"flavor": "m1.small", "avoid": ["rack1-07.secret"]}`).refused(404, compute.KindNotFound)
	n.do("POST", at, `{"flavor": "m1.small", "host": "rack1-07.secret"}`).refused(404, compute.KindNotFound)
	n.published()
	out := into[rest.Instance](n.do("POST", at, rest.Boot{
		Flavor: "m1.small", Host: one.Host,
	}), 202)
	req, err := wire.DecodeRequest(n.published()[0])
	if err != nil || req.Boot.Host != "rack1-07.secret" || out.PinnedTo != one.Host {
		t.Errorf("%+v, shown as %+v: %v", req.Boot, out, err)
	}
	pinned := rest.Boot{ID: id4, Flavor: "m1.small", Host: one.Host}
	set := rest.BootSet{Boots: []rest.Boot{
		{ID: id3, Flavor: "m1.small", Avoid: []compute.HostID{one.Host}},
		{ID: "55555555-5555-4555-8555-555555555555", Flavor: "m1.small"},
	}}
	repeat := func() {
		t.Helper()
		into[rest.Instance](n.do("POST", at, pinned), 202)
		into[rest.Instances](n.do("POST", "/v1/sets?project=own", set), 202)
	}
	repeat()
	n.published()
	n.hears(compute.Beacon{Host: "rack1-07.secret", Journal: "a new one", At: start})
	if on(string(one.Host)) != 0 {
		t.Error("an id is good for one journal")
	}
	// What was accepted with that id can be repeated, and asked about; something else under the same id is refused.
	repeat()
	asked := into[rest.Placements](n.do("POST", "/v1/placements?project=own", pinned), 200)
	if e := asked.Kinds[0].Exists; e == nil || e.ID != pinned.ID {
		t.Errorf("asked about: %+v", asked)
	}
	for differs, boot := range map[string]rest.Boot{
		"name":        {ID: id4, Flavor: "m1.small", Host: one.Host, Name: "other"},
		"host":        {ID: id4, Flavor: "m1.small"},
		"host, avoid": {ID: id4, Flavor: "m1.small", Avoid: []compute.HostID{one.Host}},
	} {
		p := n.do("POST", at, boot).refused(409, compute.KindConflict)
		if !strings.HasSuffix(p.Message, "differs in "+differs) {
			t.Errorf("%s: %+v", differs, p)
		}
	}
	n.do("POST", at, rest.Boot{Flavor: "m1.small", Host: one.Host}).refused(404, compute.KindNotFound)
	n.do("POST", "/v1/placements?project=own", rest.Boot{Flavor: "m1.small", Host: one.Host}).
		refused(404, compute.KindNotFound)
	set.Boots[0].ID, set.Boots[1].ID = "", ""
	n.do("POST", "/v1/sets?project=own", set).refused(404, compute.KindNotFound)
	if recs := n.published(); len(recs) > 0 {
		t.Errorf("published %+v", recs)
	}
}

// A key of one project says nothing to another: neither whether it was used, nor can it be taken first.
func TestKeysOfOthers(t *testing.T) {
	n := lockedNode(t)
	others := wire.KeyedInstance("alien", "deploy-42")
	n.as = n.token(auth.RoleMember, "own")
	const at = "/v1/instances?project=own"
	for range 2 {
		p := n.do("POST", at, rest.Boot{ID: others, Flavor: "m1.small"}).refused(422, compute.KindInvalid)
		if p.Field != "id" {
			t.Errorf("%+v", p)
		}
		n.has(instance(others, "x", compute.StateActive, func(i *compute.Instance) { i.Project = "alien" }))
	}
	p := n.do("POST", at, rest.Boot{ID: id2, Flavor: "m1.small"}).refused(409, compute.KindConflict)
	if p.Reason != nil || strings.Contains(p.Detail, "project") {
		t.Errorf("%+v", p)
	}
	n.as = n.token(auth.RoleMember, "alien")
	into[rest.Instance](n.do("POST", "/v1/instances?project=alien", rest.Boot{ID: id3, Flavor: "m1.small"}), 202)
}

// The project of the body counts, whatever the query says.
func TestBootIsOfItsBodysProject(t *testing.T) {
	n := lockedNode(t)
	n.as = n.token(auth.RoleMember, "own")
	for query, body := range map[string]string{"": "alien", "?project=alien": "", "?project=alien&x=": "alien"} {
		a := n.do("POST", "/v1/instances"+query, fmt.Sprintf(`{"flavor": "m1.small", "project": %q}`, body))
		if a.status != 403 && a.status != 422 {
			t.Errorf("%s %s: %d %s", query, body, a.status, a.body)
		}
	}
	n.do("POST", "/v1/instances?project=own", `{"flavor": "m1.small", "project": "alien"}`).
		refused(422, compute.KindInvalid)
	n.do("POST", "/v1/instances", `{"flavor": "m1.small"}`).refused(403, compute.KindForbidden) // of "default"
	if len(n.published()) > 0 {
		t.Error("something was booted")
	}
}
