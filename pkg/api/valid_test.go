// SPDX-License-Identifier: Apache-2.0

package api

import (
	"encoding/base64"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"net/http/httptest"
	"regexp"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/berth-project/berth/pkg/auth"
	"github.com/berth-project/berth/pkg/compute"
	"github.com/berth-project/berth/pkg/wire/rest"
)

func (n *node) valid() rest.Capabilities {
	n.Helper()
	return into[rest.Capabilities](n.do("GET", "/v1/capabilities", nil), 200)
}

// TestCapabilitiesHasATag: a caller that has the document is told that it is the same, until something else is offered.
func TestCapabilitiesHasATag(t *testing.T) {
	n := newNode(t)
	n.offer()
	first := n.do("GET", "/v1/capabilities", nil)
	tag := first.header.Get("ETag")
	ask := func(has string) answer {
		req := httptest.NewRequest("GET", "/v1/capabilities", nil)
		req.Header.Set("If-None-Match", has)
		return n.ask(req)
	}
	for _, has := range []string{tag, `"x", ` + tag, "W/" + tag, "*"} {
		if a := ask(has); a.status != 304 || len(a.body) > 0 || a.header.Get("ETag") != tag {
			t.Errorf("%s: %d %q %s", has, a.status, a.header, a.body)
		}
	}
	n.hears(offering("h1", 8)) // which is no part of it
	n.has(instance(id1, "w", compute.StateActive))
	again := n.do("GET", "/v1/capabilities", nil)
	if again.header.Get("ETag") != tag || string(again.body) != string(first.body) {
		t.Errorf("another document: %s and %s", first.body, again.body)
	}
	into[rest.Change](n.do("DELETE", "/v1/capabilities/disk", nil), 200)
	a := ask(tag)
	if doc := into[rest.Capabilities](a, 200); a.header.Get("ETag") == tag || len(doc.Items) != 1 {
		t.Errorf("without disk: %s %+v", a.header, doc.Items)
	}
}

// TestCapabilitiesPages: a client that walks the axes finds each once, as with any list.
func TestCapabilitiesPages(t *testing.T) {
	n := newNode(t)
	n.offer()
	if doc := n.valid(); len(doc.Items) != 2 || doc.Next != "" || len(doc.Flavors) != 1 {
		t.Errorf("%+v", doc)
	}
	page := into[rest.Capabilities](n.do("GET", "/v1/capabilities?limit=1", nil), 200)
	behind := into[rest.Capabilities](n.do("GET", "/v1/capabilities?marker="+page.Next, nil), 200)
	if len(page.Items) != 1 || page.Items[0].Axis != "disk" ||
		len(behind.Items) != 1 || behind.Items[0].Axis != "gpu" || behind.Next != "" {
		t.Errorf("%+v, then %+v", page, behind)
	}
}

// TestWhatIsOfferedIsTaken: each flavor, with each value of its axes.
func TestWhatIsOfferedIsTaken(t *testing.T) {
	n := newNode(t)
	n.offer()
	doc := n.valid()
	boots := 0
	for _, f := range doc.Flavors {
		asked := []compute.Choices{nil}
		for _, a := range doc.Items {
			for _, v := range a.Values {
				if slices.Contains(f.Capabilities, a.Axis) {
					asked = append(asked, compute.Choices{a.Axis: v.Value})
				}
			}
		}
		for _, with := range asked {
			into[rest.Instance](n.do("POST", "/v1/instances", rest.Boot{Flavor: f.Name, With: with}), 202)
			boots++
		}
	}
	if boots != 3 {
		t.Errorf("%d boots", boots)
	}
}

func atLeast(n int64, text string) string { return text + strings.Repeat("a", int(n)-len(text)) }

func items[T any](n int64, item func(i int) T) []T {
	out := make([]T, n)
	for i := range out {
		out[i] = item(i)
	}
	return out
}

func classes(n int64) compute.Resources {
	out := compute.Resources{}
	for i := range n {
		out[compute.ResourceClass(fmt.Sprintf("CUSTOM_C%d", i))] = 1
	}
	return out
}

func traitNames(n int64) []compute.Trait {
	return items(n, func(i int) compute.Trait { return compute.Trait(fmt.Sprintf("CUSTOM_T%d", i)) })
}

// sshKey is a public key of so many bytes.
func sshKey(size int64) string {
	blob := append(binary.BigEndian.AppendUint32(nil, 11), "ssh-ed25519 and more"...)
	return atLeast(size, "ssh-ed25519 "+base64.StdEncoding.EncodeToString(blob)+" ")
}

// probes are requests that have so much of what a limit is about, by the limit.
func (n *node) probes(t *testing.T) map[string]func(most int64) answer {
	dead := func(change func(*rest.DeadHost, int64)) func(int64) answer {
		return func(most int64) (a answer) {
			w := rest.DeadHost{Fenced: true}
			change(&w, most)
			synctest.Test(t, func(t *testing.T) { a = silentHost(t).do("POST", "/v1/hosts/h1/forget", w) })
			return a
		}
	}
	token := func(w rest.TokenWish) answer {
		n := lockedNode(t)
		n.as = n.token(auth.RoleAdmin, "")
		w.Role = compute.RoleOperator
		return n.do("POST", "/v1/tokens", w)
	}
	boot := func(change func(*rest.Boot, int64)) func(int64) answer {
		return func(most int64) answer {
			b := rest.Boot{Flavor: "m1.small"}
			change(&b, most)
			return n.do("POST", "/v1/instances", b)
		}
	}
	flavor := func(change func(*rest.Flavor, int64)) func(int64) answer {
		return func(most int64) answer {
			f := rest.Flavor{Name: "new", Resources: compute.Resources{compute.VCPU: 1}}
			change(&f, most)
			return n.do("POST", "/v1/flavors?dry_run=true", f)
		}
	}
	padded := func(method, path string, body any) func(int64) answer {
		return func(most int64) answer {
			text, err := json.Marshal(body)
			if err != nil {
				n.Fatal(err)
			}
			return n.do(method, path, string(text)+strings.Repeat(" ", int(most)-len(text)))
		}
	}
	return map[string]func(int64) answer{
		"boot name bytes":        boot(func(b *rest.Boot, n int64) { b.Name = atLeast(n, "") }),
		"boot image bytes":       boot(func(b *rest.Boot, n int64) { b.Image = atLeast(n, "") }),
		"boot user_data bytes":   boot(func(b *rest.Boot, n int64) { b.UserData = make([]byte, n) }),
		"boot attempts attempts": boot(func(b *rest.Boot, n int64) { b.Attempts = compute.Attempt(n) }),
		"boot deadline seconds":  boot(func(b *rest.Boot, n int64) { b.Deadline = rest.Duration(time.Duration(n) * time.Second) }),
		"boot ssh_keys keys":     boot(func(b *rest.Boot, n int64) { b.SSHKeys = items(n, func(int) string { return sshKey(60) }) }),
		"boot ssh_keys bytes":    boot(func(b *rest.Boot, n int64) { b.SSHKeys = []string{sshKey(n)} }),
		"boot metadata bytes":    boot(func(b *rest.Boot, n int64) { b.Metadata = map[string]string{"k": atLeast(n-1, "")} }),
		"boot avoid hosts":       boot(func(b *rest.Boot, n int64) { b.Avoid = items(n, func(i int) compute.HostID { return "h2" }) }),
		"boot body bytes":        padded("POST", "/v1/instances", rest.Boot{Flavor: "m1.small"}),
		"placements body bytes":  padded("POST", "/v1/placements", rest.Boot{Flavor: "m1.small"}),
		"placements count machines in all": func(most int64) answer {
			return n.do("POST", "/v1/placements",
				fmt.Sprintf(`{"mix":[{"flavor":"m1.small","count":%d},{"flavor":"m1.small"}]}`, most-1))
		},
		"placements mix kinds": func(most int64) answer {
			kinds := strings.TrimSuffix(strings.Repeat(`{"flavor":"m1.small"},`, int(most)), ",")
			return n.do("POST", "/v1/placements", `{"mix":[`+kinds+`]}`)
		},
		"any other body bytes":    padded("PUT", "/v1/quotas/p", rest.QuotaLimits{Limits: compute.Resources{compute.VCPU: 1}}),
		"flavor required traits":  flavor(func(f *rest.Flavor, n int64) { f.Required = traitNames(n) }),
		"flavor forbidden traits": flavor(func(f *rest.Flavor, n int64) { f.Forbidden = traitNames(n) }),
		"flavor resources classes": flavor(func(f *rest.Flavor, n int64) {
			f.Resources = classes(n)
		}),
		"flavor resources of a class": flavor(func(f *rest.Flavor, n int64) { f.Resources[compute.VCPU] = n }),
		"boot metadata entries": boot(func(b *rest.Boot, n int64) {
			b.Metadata = map[string]string{}
			for i := range n {
				b.Metadata[fmt.Sprint(i)] = ""
			}
		}),
		"boot Idempotency-Key bytes": func(most int64) answer {
			req := httptest.NewRequest("POST", "/v1/instances", strings.NewReader(`{"flavor":"m1.small"}`))
			req.Header.Set("Idempotency-Key", atLeast(most, ""))
			return n.ask(req)
		},
		"power command bytes": func(most int64) answer {
			return n.do("POST", path(id1)+"/stop", rest.PowerWish{Command: compute.CommandID(atLeast(most, ""))})
		},
		"list limit entries": func(most int64) answer { return n.do("GET", fmt.Sprintf("/v1/instances?limit=%d", most), nil) },
		"list id ids": func(most int64) answer {
			return n.do("GET", "/v1/instances?"+strings.Repeat("&id="+string(id2), int(most)), nil)
		},
		"events reason reasons": func(most int64) answer {
			return n.do("GET", "/v1/events?follow=false"+strings.Repeat("&reason=BuildFailed", int(most)), nil)
		},
		"host reason characters": func(most int64) answer {
			n := newNode(t)
			n.hears(offering("h1", 8))
			return n.do("POST", "/v1/hosts/h1/drain", rest.HostWish{Reason: atLeast(most, "")})
		},
		"dead host reason characters": dead(func(w *rest.DeadHost, n int64) { w.Reason = atLeast(n, "") }),
		"dead host by characters":     dead(func(w *rest.DeadHost, n int64) { w.By = atLeast(n, "") }),
		"token name bytes":            func(most int64) answer { return token(rest.TokenWish{Name: atLeast(most, "")}) },
		"token expires_in seconds": func(most int64) answer {
			return token(rest.TokenWish{ExpiresIn: rest.Duration(time.Duration(most) * time.Second)})
		},
		"console limit bytes": func(most int64) answer {
			n.hosted(func(cmd compute.Command) []compute.Console {
				return []compute.Console{answeredBy("h1", cmd, "login:")}
			})
			return n.do("GET", fmt.Sprintf("%s/console?limit=%d", path(id1), most), nil)
		},
	}
}

// TestLimitsAreTheChecks: what has as much as the document allows is taken, and what has one more is refused.
func TestLimitsAreTheChecks(t *testing.T) {
	n := newNode(t)
	n.offer()
	n.hears(offering("h1", 8))
	n.has(instance(id1, "w", compute.StateActive))
	probes, least := n.probes(t), 0
	for _, l := range n.valid().Limits {
		name := fmt.Sprintf("%s %s %s", l.Request, l.Field, l.Unit)
		probe := probes[name]
		if probe == nil {
			t.Errorf("%s: nothing is known that has so much", name)
			continue
		}
		delete(probes, name)
		if a := probe(l.Most); a.status >= 300 {
			t.Errorf("%s: %d are refused: %s", name, l.Most, a.body)
		}
		if l.Least > 0 {
			into[rest.Problem](probe(l.Least-1), 422)
			if a := probe(l.Least); a.status >= 300 {
				t.Errorf("%s: %d are refused: %s", name, l.Least, a.body)
			}
			least++
		}
		a := probe(l.Most + 1)
		if p := into[rest.Problem](a, a.status); a.status < 400 || a.status >= 500 || p.Field == "" || p.Remedy == "" {
			t.Errorf("%s: %d are answered %d: %s", name, l.Most+1, a.status, a.body)
		}
	}
	for name := range probes {
		t.Errorf("%s: the document does not have it", name)
	}
	if least != 2 { // of pages of lists, and of the console
		t.Errorf("%d have a least", least)
	}
}

// TestNamesAreTheChecks: a name as long as its rule allows is taken, and a longer one is refused.
func TestNamesAreTheChecks(t *testing.T) {
	n := newNode(t)
	n.offer()
	boot := func(b rest.Boot) answer { b.Flavor = "m1.small"; return n.do("POST", "/v1/instances", b) }
	axis := func(c rest.Capability) answer { return n.do("POST", "/v1/capabilities?dry_run=true", c) }
	flavor := func(f rest.Flavor) answer { return n.do("POST", "/v1/flavors?dry_run=true", f) }
	one := compute.Resources{compute.VCPU: 1}
	probes := map[string]func(name string) answer{
		"Idempotency-Key": func(s string) answer {
			req := httptest.NewRequest("POST", "/v1/instances", strings.NewReader(`{"flavor":"m1.small"}`))
			req.Header.Set("Idempotency-Key", s)
			return n.ask(req)
		},
		"project":     func(s string) answer { return boot(rest.Boot{Project: compute.Project(s)}) },
		"host":        func(s string) answer { return boot(rest.Boot{Avoid: []compute.HostID{compute.HostID(s)}}) },
		"instance id": func(s string) answer { return boot(rest.Boot{ID: compute.InstanceID(s)}) },
		"flavor":      func(s string) answer { return flavor(rest.Flavor{Name: compute.FlavorName(s), Resources: one}) },
		"trait": func(s string) answer {
			return flavor(rest.Flavor{Name: "new", Resources: one, Required: []compute.Trait{compute.Trait(s)}})
		},
		"resource class": func(s string) answer {
			return flavor(rest.Flavor{Name: "new", Resources: compute.Resources{compute.ResourceClass(s): 1}})
		},
		"capability": func(s string) answer {
			return axis(rest.Capability{Axis: compute.AxisName(s), Values: []rest.CapabilityValue{{Value: "v"}}})
		},
		"capability value": func(s string) answer {
			return axis(rest.Capability{Axis: "new", Values: []rest.CapabilityValue{{Value: compute.AxisValue(s)}}})
		},
	}
	begin := map[string]string{"trait": "A", "resource class": "CUSTOM_A"}
	for _, r := range n.valid().Names {
		name := begin[r.Of]
		letter := "A"
		if name == "" {
			letter = "a"
		}
		name += strings.Repeat(letter, r.Most-len(name))
		if r.Of == "instance id" {
			name = string(id2)
		}
		if !regexp.MustCompile(r.Pattern).MatchString(name) {
			t.Errorf("%s: %s does not fit %s", r.Of, name, r.Pattern)
		}
		probe := probes[r.Of]
		if probe == nil {
			t.Errorf("%s: nothing is known that has such a name", r.Of)
			continue
		}
		if a := probe(name); a.status >= 300 {
			t.Errorf("%s of %d bytes is refused: %s", r.Of, r.Most, a.body)
		}
		for _, s := range []string{"", " ", "~", "ä", "a\tb"} { // as the pattern says, so the check
			fits := regexp.MustCompile(r.Pattern).MatchString(s)
			if a := probe(s); r.Of == keyHeader && fits != (a.status < 300) {
				t.Errorf("%s %q: the pattern says %t, and it is answered %d: %s", r.Of, s, fits, a.status, a.body)
			}
		}
		if a := probe(name + letter); a.status < 400 || a.status >= 500 {
			t.Errorf("%s of %d bytes is answered %d: %s", r.Of, r.Most+1, a.status, a.body)
		}
	}
}
