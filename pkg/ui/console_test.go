// SPDX-License-Identifier: Apache-2.0

package ui_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/chromedp"

	"github.com/berth-project/berth/compute-agent/agent"
	"github.com/berth-project/berth/pkg/cell"
	"github.com/berth-project/berth/pkg/client"
	"github.com/berth-project/berth/pkg/compute"
)

// withCell runs a whole cell with six simulated hosts while use does.
func withCell(t *testing.T, o cell.EverythingOptions, use func(node string)) {
	t.Helper()
	o.Hosts, o.Listen = cell.SimulatedHosts(6), "127.0.0.1:0"
	o.Timing = agent.Timing{BeaconApart: 100 * time.Millisecond}
	err := cell.WithEverything(t.Context(), o, func(_ context.Context, address string) error {
		use("http://" + address)
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}

func clientOf(t *testing.T, node, token string) *client.Client {
	t.Helper()
	c, err := client.New(client.Config{Address: node, Token: token, Project: "default", Timeout: patience})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	return c
}

// offers makes a catalog of three flavors and two axes, and waits until it can be booted from.
func offers(t *testing.T, c *client.Client) {
	t.Helper()
	size := func(cpus, gib int64) compute.Resources {
		return compute.Resources{compute.VCPU: cpus, compute.MemoryMB: gib << 10, compute.DiskGB: 20}
	}
	for _, a := range []compute.Capability{
		{Axis: "disk", Values: []compute.CapabilityValue{{Value: "hdd"}, {Value: "ssd", Requires: []compute.Trait{"CUSTOM_SSD"}}}},
		{Axis: "gpu", Values: []compute.CapabilityValue{{Value: "a100", Consumes: compute.Resources{"CUSTOM_GPU_A100": 1}}}},
	} {
		must(t)(c.AddCapability(t.Context(), a, false))
	}
	for _, f := range []compute.Flavor{
		{Name: "m1.small", Resources: size(1, 2), Capabilities: []compute.AxisName{"disk", "gpu"}},
		{Name: "m1.large", Resources: size(16, 64), Capabilities: []compute.AxisName{"disk"}},
		{Name: "m1.huge", Resources: size(48, 96)},
	} {
		must(t)(c.AddFlavor(t.Context(), f, false))
	}
	settles(t, "all queues open", func() bool {
		flavors, err := c.Flavors(t.Context())
		open, wanted := 0, 0
		for _, f := range flavors {
			open, wanted = open+f.Queues.Open, wanted+f.Queues.Wanted
		}
		return err == nil && open == wanted && wanted > 0
	})
}

func must(t *testing.T) func(_ any, err error) {
	return func(_ any, err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
}

// settles asks again and again for what no record tells.
func settles(t *testing.T, what string, done func() bool) {
	t.Helper()
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	lost := time.After(patience)
	for !done() {
		select {
		case <-tick.C:
		case <-lost:
			t.Fatalf("%s: not after %s", what, patience)
		}
	}
}

const markup = `<img src=x onerror="document.title='taken'">`

// TestConsole does in a browser what people come for: they boot, watch it become active, learn why another waits, drain
// a host and delete.
func TestConsole(t *testing.T) {
	if testing.Short() {
		t.Skip("it looks at every page three times")
	}
	withCell(t, cell.EverythingOptions{}, func(node string) {
		b, c := newTab(t, node), clientOf(t, node, "")
		defer b.close()
		b.open("/overview")
		b.says("There are no queues yet")
		offers(t, c)
		b.says("All that was booted has a host.")

		// Boot, from the keyboard: what would become of it is said while typing, and what is wrong beside its field.
		b.open("/boot")
		b.choose("flavor", "m1.small")
		b.choose("with-disk", "ssd")
		b.says("m1.small.disk-ssd")
		b.says("starts now")
		b.click("More")
		b.refuses(100) // it asks while somebody types
		b.fill("deadline", "soon")
		b.until(`document.querySelector("#f-deadline-error")?.textContent.includes("give a number with a unit")`)
		b.fill("name", "web-1\r")
		b.until(`document.querySelector("#f-deadline-error")?.textContent.includes("give a number with a unit")`)
		b.until(`document.activeElement.name === "deadline" && document.activeElement.ariaInvalid === "true"`)
		b.do(chromedp.KeyEvent("\b\b\b\b"))
		b.fill("deadline", "10m\r")
		b.says("It runs on host")
		b.refuses(0)
		b.until(`document.querySelector("h1")?.textContent === "web-1" && document.querySelector(".badge.ok")?.textContent === "active"`)
		b.click("Show what it prints")
		b.until(`document.querySelector("[role=log]")?.textContent.length > 20`)

		// What is not fresh any more stays, and says so, until the node answers again.
		b.refuses(100)
		b.cutOff(true)
		b.says("What follows is not fresh: this node does not answer")
		b.says("It runs on host")
		b.cutOff(false)
		b.until(`!document.body.innerText.includes("not fresh")`)
		b.refuses(0)

		lostAnswer(t, b, c)
		textStaysText(t, b, c)

		// One that waits is explained, and what is wrong shows on the first page.
		b.follow("/overview")
		for n := range 7 {
			must(t)(c.Boot(t.Context(), "", compute.Boot{Name: fmt.Sprintf("batch-%d", n+1), Flavor: "m1.huge"}))
		}
		b.until(`Number(document.querySelector(".tile .value")?.textContent) > 0`) // boots a second
		b.says("1 machine waits in m1.huge, and no host can take it now.")
		graphs(t, b)
		b.click("1 machine waits in m1.huge, and no host can take it now.")
		b.says("Who could take what waits")
		b.open("/instances?state=queued")
		b.says("no host can take it now")
		name := ask[string](b, `document.querySelector("tbody a").textContent`)
		b.click(name)
		b.says("operators can")
		b.says("free 32 processors")
		settles(t, "only one waits", func() bool {
			all, err := c.Instances(t.Context(), client.Filter{States: []compute.State{compute.StateQueued}})
			return err == nil && len(all) == 1
		})
		everyPage(t, b, c)

		// A drained host says what is left, until all is gone.
		host := drain(t, b, c)
		deleteAll(t, b, c, host)
	})
}

// lostAnswer boots a machine whose answer does not reach the page, and boots again: it is the same machine.
func lostAnswer(t *testing.T, b *tab, c *client.Client) {
	t.Helper()
	b.open("/boot")
	b.choose("flavor", "m1.small")
	ask[bool](b, `(() => {
		const real = window.fetch;
		window.fetch = async (url, init) => {
			const r = await real(url, init);
			if (init?.method === "POST" && String(url).endsWith("/v1/instances")) {
				window.fetch = real;
				throw new TypeError("lost");
			}
			return r;
		};
		return true;
	})()`)
	b.fill("name", "once\r")
	b.says("this node does not answer")
	b.do(chromedp.Focus("[name=name]"), chromedp.KeyEvent("\r"))
	b.says("It runs on host")
	all, err := c.Instances(t.Context(), client.Filter{Name: "once"})
	must(t)(all, err)
	if len(all) != 1 {
		t.Errorf("there are %d", len(all))
	}
	must(t)(c.Delete(t.Context(), all[0].ID))
}

// textStaysText boots a machine whose name and metadata are markup, and looks that they are shown as what they are.
func textStaysText(t *testing.T, b *tab, c *client.Client) {
	t.Helper()
	i, err := c.Boot(t.Context(), "", compute.Boot{
		Name: markup, Flavor: "m1.small", Metadata: map[string]string{"note": markup},
	})
	must(t)(i, err)
	b.open("/instances")
	b.says(markup)
	b.open("/instances/" + string(i.ID))
	b.until(fmt.Sprintf(`[...document.querySelectorAll("dd")].some((e) => e.textContent === %s)`, quoted(markup)))
	if n := ask[int](b, `document.querySelectorAll("img[src=x]").length`); n != 0 {
		t.Errorf("%d elements were made of it", n)
	}
	b.click(markup) // the label leads to those that have it
	b.until(`location.hash.includes("label=") && document.querySelectorAll("tbody tr").length === 1`)
	b.says(markup)
	b.open("/instances?label=nobody%3Dhas")
	b.says("None matches")
	must(t)(c.Delete(t.Context(), i.ID))
}

// drain drains a host that has one machine, by keyboard alone.
func drain(t *testing.T, b *tab, c *client.Client) compute.HostID {
	t.Helper()
	var host compute.HostID
	hosts, err := c.Hosts(t.Context())
	must(t)(hosts, err)
	for _, h := range hosts {
		if h.Machines == 1 {
			host = h.Host
		}
	}
	b.open("/hosts/" + string(host))
	b.do(chromedp.Focus(chromedp.Search(`//button[.="Drain"]`)), chromedp.KeyEvent("\r"))
	b.until(`document.querySelector("dialog")?.open && document.querySelector("dialog").contains(document.activeElement)`)
	b.usable("the question before a drain")
	b.do(chromedp.KeyEvent("\x1b"))
	b.until(`!document.querySelector("dialog")`)
	b.do(chromedp.KeyEvent("\r")) // the focus is back where it was
	b.fill("reason", "new disks\r")
	b.says("is asked. It acts as soon as it reads this.")
	b.says("1 machine left")
	b.says("new disks")
	b.picture("host")
	return host
}

// deleteAll deletes what the host has, and waits until it is said to be empty.
func deleteAll(t *testing.T, b *tab, c *client.Client, host compute.HostID) {
	t.Helper()
	on, err := c.HostInstances(t.Context(), host)
	must(t)(on, err)
	b.click(on[0].Name)
	b.click("Delete")
	b.says("The machine " + on[0].Name + " (" + string(on[0].ID) + ") ends")
	b.picture("delete")
	b.click("Cancel")
	b.until(`!document.querySelector("dialog") && document.activeElement.textContent === "Delete"`)
	askedAgain(t, b)
	b.click("Delete " + on[0].Name)
	b.says("The end of " + on[0].Name + " is asked for.")
	b.until(`document.querySelector(".badge")?.textContent === "deleted"`)
	b.click("Boot it again")
	b.until(`document.querySelector("[name=name]")?.value === ` + quoted(on[0].Name))
	b.until(`document.querySelector("[name=flavor]")?.value === "m1.huge"`)
	b.until(`document.querySelector("[name=attempts]")?.value === "3"`)
	b.says("Filled in as instance " + on[0].Name + " was, but for: its deadline")
	b.usable("the form of one that is booted again")
	b.open("/hosts/" + string(host))
	b.says("It is empty, and can be taken away.")
	b.click("Enable")
	b.click("Enable " + string(host))
	b.until(`document.querySelector(".badge")?.textContent === "enabled"`)
}

// askedAgain asks, cancels and asks again before the browser has told that the first dialog was closed: the second stays.
func askedAgain(t *testing.T, b *tab) {
	t.Helper()
	stays := ask[bool](b, `(async () => {
		const click = (called) => [...document.querySelectorAll("button")].find((e) => e.textContent === called).click();
		const frame = () => new Promise(requestAnimationFrame);
		click("Delete");
		click("Cancel");
		click("Delete");
		await frame();
		await frame();
		return document.querySelector("dialog")?.open === true;
	})()`)
	if !stays {
		t.Error("the first dialog's end closed the second")
	}
}

// graphs looks at what is drawn while machines boot: a line in the page's own colour, which follows light and dark, as
// wide as there is room, and the same in words.
func graphs(t *testing.T, b *tab) {
	t.Helper()
	said := `document.querySelectorAll(".graph [role=img]")[%d].ariaLabel`
	b.until(fmt.Sprintf(said, 0) + `.match(/^boots a second: [\d.]+ now, [\d.]+ to [\d.]+ in the last /)`)
	b.until(fmt.Sprintf(said, 1) + `.match(/^machines that wait: 1 now, 0 to \d in the last /)`)
	drawn := `(() => {
		const copied = (paint) => {
			const c = document.createElement("canvas").getContext("2d", { willReadFrequently: true });
			paint(c);
			return c.getImageData(0, 0, c.canvas.width, c.canvas.height).data;
		};
		const want = copied((c) => {
			c.fillStyle = getComputedStyle(document.documentElement).getPropertyValue("--accent");
			c.fillRect(0, 0, 1, 1);
		});
		return [...document.querySelectorAll(".graph canvas")].filter((graph) => {
			const data = copied((c) => {
				Object.assign(c.canvas, { width: graph.width, height: graph.height });
				c.drawImage(graph, 0, 0);
			});
			let n = 0;
			for (let i = 0; i < data.length; i += 4) if ([0, 1, 2].every((k) => data[i + k] === want[k]) && data[i + 3]) n++;
			return n > 20;
		}).length === 2;
	})()`
	for _, look := range []struct {
		scheme  string
		width   int64
		picture string
	}{{"light", 1280, "overview"}, {"dark", 1280, "overview-dark"}, {"dark", 360, ""}, {"light", 360, "overview-phone"}} {
		b.like(look.scheme, look.width)
		b.until(drawn)
		b.until(`[...document.querySelectorAll(".graph canvas")].every((c) => c.clientWidth <= c.closest(".canvas").clientWidth)`)
		b.usable("graphs, " + look.scheme)
		if look.picture != "" {
			b.picture(look.picture)
		}
	}
	b.like("light", 1280)
	at := ask[[]float64](b, `(() => {
		const r = document.querySelector(".graph .u-over").getBoundingClientRect();
		return [r.right - 3, r.top + 10];
	})()`)
	b.do(chromedp.MouseEvent(chromedp.MouseMoved, at[0], at[1]))
	b.until(`document.querySelector(".graph figcaption").textContent.match(/ at \d\d:\d\d:\d\d$/)`)
}

// everyPage looks at each page, light and dark, wide and on a phone.
func everyPage(t *testing.T, b *tab, c *client.Client) {
	t.Helper()
	limit := compute.Resources{compute.Instances: 50, compute.VCPU: 600}
	must(t)(c.SetQuota(t.Context(), compute.Quota{Project: "default", Limits: limit}))
	all, err := c.Instances(t.Context(), client.Filter{States: []compute.State{compute.StateQueued}})
	must(t)(all, err)
	for _, page := range []struct{ name, hash string }{
		{"overview", "/overview"}, {"instances", "/instances"}, {"instance", "/instances/" + string(all[0].ID)},
		{"active", "/instances/" + string(running(t, c))}, {"boot", "/boot"}, {"queues", "/queues"},
		{"queue", "/queues/m1.huge"}, {"hosts", "/hosts"}, {"one host", "/hosts/host-01"}, {"quotas", "/quotas"},
		{"flavors", "/flavors"}, {"nothing there", "/queues/none"},
	} {
		if page.name == "nothing there" {
			b.refuses(100)
		}
		b.like("light", 1280)
		b.open(page.hash)
		if page.name == "overview" {
			b.until(`document.querySelector(".tile .value")?.textContent !== "–"`)
		}
		b.usable(page.name + ", light")
		if !strings.Contains(page.name, " ") && page.name != "overview" {
			b.picture(page.name)
		}
		b.like("dark", 1280)
		b.usable(page.name + ", dark")
		b.like("light", 360)
		b.usable(page.name + ", on a phone")
		if page.name == "instances" {
			b.picture("instances-phone")
		}
	}
	b.refuses(0)
	b.like("light", 1280)
}

// running is some instance that runs.
func running(t *testing.T, c *client.Client) compute.InstanceID {
	t.Helper()
	all, err := c.Instances(t.Context(), client.Filter{States: []compute.State{compute.StateActive}})
	must(t)(all, err)
	return all[0].ID
}

// TestSignIn: where callers sign in, the console asks for a token, shows nothing before, and offers to each what its role
// may do.
func TestSignIn(t *testing.T) {
	var admin string
	withCell(t, cell.EverythingOptions{FirstToken: func(text string) { admin = text }}, func(node string) {
		c := clientOf(t, node, admin)
		offers(t, c)
		token := func(role compute.Role, p compute.Project) string {
			made, err := c.CreateToken(t.Context(), client.TokenWish{Name: "bot", Role: role, Project: p})
			must(t)(made, err)
			return made.Secret
		}
		b := newTab(t, node)
		defer b.close()
		b.refuses(2)
		b.open("/hosts")
		b.usable("the question for a token")
		if text := b.text(); strings.Contains(text, "does not count") || strings.Contains(text, "Hosts") {
			t.Errorf("before anybody signs in it says %q", text)
		}
		b.fill("token", "berth_wrong\r")
		b.says("This token does not count")
		signIn := func(token string) {
			t.Helper()
			b.open("/hosts")
			b.fill("token", token+"\r")
			b.says("Sign out")
		}
		signOut := func() {
			t.Helper()
			b.click("Sign out")
			b.says("Who calls this cell shows a token.")
		}
		b.do(chromedp.Evaluate[chromedp.Void](`document.querySelector("[name=token]").value = ""`))
		b.fill("token", token(compute.RoleReader, "shop")+"\r")
		b.says("This page is for operators of the cell")
		if text := b.text(); strings.Contains(text, "\nHosts\nQuotas") {
			t.Errorf("a reader is offered the hosts: %q", text)
		}
		if p := ask[string](b, `document.querySelector("#project").value`); p != "shop" {
			t.Errorf("a reader of shop looks at project %s", p)
		}
		b.click("Boot")
		b.says("Booting is for members of project shop")
		b.refuses(2) // the page and its events
		b.open("/instances?project=foreign")
		b.says(`"reader": is needed on project foreign`)
		b.refuses(0)
		b.open("/overview")
		b.says("Nothing waits")
		b.refuses(1)
		signOut()

		b.refuses(1)
		signIn(token(compute.RoleMember, "shop"))
		b.click("Boot")
		b.fill("name", "web\r")
		b.says("It runs on host")
		b.click("Stop")
		b.click("Stop web")
		b.until(`[...document.querySelectorAll("button")].some((e) => e.textContent === "Start")`)
		b.click("Start")
		b.click("Start web")
		b.until(`[...document.querySelectorAll("button")].some((e) => e.textContent === "Reboot")`)
		signOut()

		b.refuses(1)
		signIn(token(compute.RoleOperator, ""))
		b.says("host-01")
		b.do(chromedp.Navigate(node + "/ui/#/quotas"))
		b.says("what projects use, and may")
		if text := b.text(); strings.Contains(text, "Limits") {
			t.Errorf("an operator is offered to set limits: %q", text)
		}
		signOut()

		b.refuses(1)
		signIn(admin)
		limits(t, b, c)
	})
}

// limits sets a limit of a project: what the question does not ask for stays, and what another admin changes while it is
// open.
func limits(t *testing.T, b *tab, c *client.Client) {
	t.Helper()
	high := compute.ClassLimits{compute.PriorityHigh: {compute.VCPU: 4}}
	had := compute.Quota{Project: "shop", Limits: compute.Resources{compute.Instances: 90}, Classes: high, Weight: 3}
	must(t)(c.SetQuota(t.Context(), had))
	b.click("Quotas")
	staysTyped(t, b, "#project", "x")
	b.do(chromedp.KeyEvent("\b")) // as it was: leaving it asks for nothing
	staysTyped(t, b, "[name=only]", "sh")
	b.fill("only", "op\r")
	b.until(`document.querySelectorAll("tbody tr").length === 1`)
	b.do(chromedp.NavigateBack())
	b.until(`document.querySelectorAll("tbody tr").length > 1 && document.querySelector("[name=only]").value === ""`)
	b.fill("only", "shop\r")
	b.until(`document.querySelectorAll("tbody tr").length === 1`)
	b.click("Limits of project shop")
	b.until(`document.querySelector("dialog [name=INSTANCES]").value === "90"`)
	had.Limits[compute.Instances], had.Limits[compute.DiskGB] = 80, 5000
	must(t)(c.SetQuota(t.Context(), had))
	b.fill("VCPU", "7\r")
	b.says("The limits of project shop are set.")
	b.says("48 of 7")
	q, err := c.Quota(t.Context(), "shop")
	must(t)(q, err)
	if q.Weight != 3 || q.WeightFrom != "project" {
		t.Errorf("its weight is %d, of the %s", q.Weight, q.WeightFrom)
	}
	if got := limitsOf("all", q.Resources); got != "all DISK_GB 5000, all INSTANCES 80, all VCPU 7" {
		t.Errorf("its limits are %q", got)
	}
	var left string
	for _, p := range q.Priorities {
		left += limitsOf(p.Priority, p.Resources)
	}
	if left != "high VCPU 4" {
		t.Errorf("its limits of a class of priority are %q", left)
	}
}

// limitsOf are the limits in a quota, of all instances or of those of a class of priority.
func limitsOf(which string, all []client.QuotaResource) string {
	var limits []string
	for _, r := range all {
		if r.Limit != nil {
			limits = append(limits, fmt.Sprintf("%s %s %d", which, r.Class, *r.Limit))
		}
	}
	return strings.Join(limits, ", ")
}

// staysTyped types into a field without Enter, and draws the page again.
func staysTyped(t *testing.T, b *tab, field, words string) {
	t.Helper()
	b.do(chromedp.SendKeys(chromedp.CSS(field), words))
	value := fmt.Sprintf("document.querySelector(%s).value", quoted(field))
	before := ask[string](b, value)
	if after := ask[string](b, `dispatchEvent(new Event("hashchange")); `+value); !strings.HasSuffix(before, words) || after != before {
		t.Errorf("%s had %q, and %q once the page was drawn again", field, before, after)
	}
}
