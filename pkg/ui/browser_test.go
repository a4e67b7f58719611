// SPDX-License-Identifier: Apache-2.0

package ui_test

import (
	"context"
	_ "embed"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/emulation"
	devlog "github.com/chromedp/cdproto/log"
	"github.com/chromedp/cdproto/network"
	"github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/chromedp"
)

// patience is how long a test waits for something that should happen soon, before it calls it lost.
const patience = 4 * time.Minute

// axe finds what keeps people from using a page: contrasts, names, roles.
//
//go:embed testdata/axe/axe.min.js
var axe string

// tab is a page of a browser that looks at one node. At its end the test fails for what its scripts said was wrong, and
// for each request to another place than the node.
type tab struct {
	t    *testing.T
	ctx  context.Context
	node string // http://…

	close func() // ends the browser, before the node ends: pages say that it is gone

	mu    sync.Mutex
	wrong []string
	// How many requests more a test means to fail, now and when each request began: browsers log them as errors.
	meant   *int
	begun   map[network.RequestID]*int
	streams int           // of events, that have begun to tell
	told    chan struct{} // closed when there is one more
}

// newTab opens the console of a node in a browser of its own.
func newTab(t *testing.T, node string) *tab {
	t.Helper()
	program, err := exec.LookPath("chromium")
	if err != nil {
		if os.Getenv("BERTH_REQUIRE_CHROMIUM") == "1" {
			t.Fatal(err)
		}
		t.Skip("chromium is not installed (Debian's package chromium): the console is not tested in a browser")
	}
	options := append(chromedp.DefaultExecAllocatorOptions[:],
		chromedp.ExecPath(program), chromedp.DisableGPU, chromedp.WindowSize(1280, 800),
		chromedp.WSURLReadTimeout(patience))
	if os.Geteuid() == 0 {
		options = append(options, chromedp.NoSandbox) // it refuses to run as root with one
	}
	allocator, stop := chromedp.NewExecAllocator(context.Background(), options...)
	ctx, cancel := chromedp.NewContext(allocator)
	b := &tab{
		t: t, ctx: ctx, node: node, meant: new(int), begun: map[network.RequestID]*int{}, told: make(chan struct{}),
	}
	b.close = sync.OnceFunc(func() {
		cancel()
		stop()
		b.mu.Lock()
		defer b.mu.Unlock()
		for _, line := range b.wrong {
			t.Error(line)
		}
	})
	t.Cleanup(b.close)
	b.do(func(ctx context.Context, _ *chromedp.Target) (chromedp.Void, error) {
		if err := chromedp.Listen(b.ctx, b.hear); err != nil {
			return chromedp.Void{}, err
		}
		if _, err := chromedp.Call(ctx, network.Enable, network.EnableParams{}); err != nil {
			return chromedp.Void{}, err
		}
		_, err := chromedp.Call(ctx, devlog.Enable, cdp.Empty{})
		return chromedp.Void{}, err
	})
	return b
}

// hear notes what must not happen.
func (b *tab) hear(event any) {
	b.mu.Lock()
	defer b.mu.Unlock()
	note := func(format string, args ...any) { b.wrong = append(b.wrong, fmt.Sprintf(format, args...)) }
	switch e := event.(type) {
	case *network.EventRequestWillBeSent:
		if u := e.Request.URL; !strings.HasPrefix(u, b.node+"/") && !strings.HasPrefix(u, "data:") && u != "about:blank" {
			note("the page asked %s", u)
		}
		b.begun[e.RequestID] = b.meant
	case *network.EventResponseReceived:
		if strings.HasPrefix(e.Response.URL, b.node+"/v1/events?") {
			b.streams++
			close(b.told)
			b.told = make(chan struct{})
		}
	case *runtime.EventExceptionThrown:
		note("a script ended: %s", (&chromedp.ExceptionError{ExceptionDetails: e.ExceptionDetails}).Error())
	case *runtime.EventConsoleAPICalled:
		if e.Type == "error" || e.Type == "warning" {
			said, _ := json.Marshal(e.Args)
			note("a script said: %s", said)
		}
	case *devlog.EventEntryAdded:
		text := e.Entry.Text
		meant := strings.Contains(text, "status of 4") || strings.Contains(text, "ERR_INTERNET_DISCONNECTED")
		for _, left := range []*int{b.begun[e.Entry.NetworkRequestID], b.meant} {
			if e.Entry.Source == "network" && meant && left != nil && *left > 0 {
				*left--
				return
			}
		}
		note("the browser said: %s %s", e.Entry.Text, e.Entry.URL)
	}
}

// refuses says that up to so many requests will be refused or not reach the node, as the test means. It counts for a
// request that has begun by the next call, whenever the answer comes.
func (b *tab) refuses(n int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.meant = &n
}

// do does these steps, or fails.
func (b *tab) do(steps ...chromedp.Action[chromedp.Void]) {
	b.t.Helper()
	if chromedp.FromContext(b.ctx).Target == nil { // the browser lives as long as the context of its first step
		if err := chromedp.Do(b.ctx); err != nil {
			b.t.Fatal(err)
		}
	}
	ctx, cancel := context.WithTimeout(b.ctx, patience)
	defer cancel()
	if err := chromedp.Do(ctx, steps...); err != nil {
		b.t.Fatalf("%v\nthe page says: %s", err, b.text())
	}
}

// ask is the value of an expression in the page, a promise's too.
func ask[T any](b *tab, expression string) T {
	b.t.Helper()
	ctx, cancel := context.WithTimeout(b.ctx, patience)
	defer cancel()
	v, err := chromedp.Run(ctx, chromedp.Evaluate[T](expression, chromedp.EvalAwaitPromise))
	if err != nil {
		b.t.Fatalf("%s: %v", expression, err)
	}
	return v
}

func (b *tab) text() string {
	v, _ := chromedp.Run(b.ctx, chromedp.Evaluate[string]("document.body.innerText"))
	return v
}

// open shows a page of the console, and waits until it has read what it shows.
func (b *tab) open(hash string) {
	b.t.Helper()
	b.do(chromedp.Navigate("about:blank"), chromedp.Navigate(b.node+"/ui/#"+hash))
	b.until(`document.querySelector("h1") && !document.body.innerText.includes("Reading …")`)
}

// follow is open, and waits until the page hears of changes too: what happens before, it is not told.
func (b *tab) follow(hash string) {
	b.t.Helper()
	heard := func() (int, <-chan struct{}) {
		b.mu.Lock()
		defer b.mu.Unlock()
		return b.streams, b.told
	}
	before, _ := heard()
	b.open(hash)
	lost := time.After(patience)
	for n, more := heard(); n == before; n, more = heard() {
		select {
		case <-more:
		case <-lost:
			b.t.Fatalf("%s hears of no changes", hash)
		}
	}
}

// until waits until an expression holds.
func (b *tab) until(expression string) {
	b.t.Helper()
	ctx, cancel := context.WithTimeout(b.ctx, patience)
	defer cancel()
	_, err := chromedp.Run(ctx, chromedp.Poll[bool]("Boolean("+expression+")",
		chromedp.WithPollingTimeout(patience), chromedp.WithPollingInterval(50*time.Millisecond)))
	if err != nil {
		b.t.Fatalf("%s: %v\nthe page says: %s", expression, err, b.text())
	}
}

// says waits until the page says something.
func (b *tab) says(words string) {
	b.t.Helper()
	b.until("document.body.innerText.includes(" + quoted(words) + ")")
}

// click clicks what is called so, a button or a link, once it is there and may be clicked. It does not go by where that
// is: what comes meanwhile may move it.
func (b *tab) click(called string) {
	b.t.Helper()
	b.until(`(() => {
		const e = [...document.querySelectorAll("button, a, summary")].find((e) => e.textContent.trim() === ` + quoted(called) + ` && !e.disabled);
		e?.focus();
		e?.click();
		return e;
	})()`)
}

// fill types into a field, by its name.
func (b *tab) fill(field, words string) {
	b.t.Helper()
	b.do(chromedp.SendKeys(chromedp.CSS(`[name="`+field+`"]`), words))
}

// choose chooses a value of a select or a group of radios, by its name.
func (b *tab) choose(field, value string) {
	b.t.Helper()
	ask[bool](b, fmt.Sprintf(`(() => {
		const e = document.querySelector('select[name="%[1]s"], input[type=radio][name="%[1]s"][value="%[2]s"]');
		if (e.type === "radio") e.click();
		else { e.value = "%[2]s"; e.dispatchEvent(new Event("change", { bubbles: true })); }
		return true;
	})()`, field, value))
}

// cutOff takes the network from the page, or gives it back.
func (b *tab) cutOff(off bool) {
	b.t.Helper()
	b.do(func(ctx context.Context, _ *chromedp.Target) (chromedp.Void, error) {
		_, err := chromedp.Call(ctx, network.EmulateNetworkConditionsByRule, network.EmulateNetworkConditionsByRuleParams{
			MatchedNetworkConditions: []*network.Conditions{{Offline: off, DownloadThroughput: -1, UploadThroughput: -1}},
		})
		return chromedp.Void{}, err
	})
}

// like makes the page think of these colours and this width.
func (b *tab) like(scheme string, width int64) {
	b.t.Helper()
	b.do(chromedp.EmulateViewport(width, 800), func(ctx context.Context, _ *chromedp.Target) (chromedp.Void, error) {
		_, err := chromedp.Call(ctx, emulation.SetEmulatedMedia, emulation.SetEmulatedMediaParams{
			Features: []*emulation.MediaFeature{{Name: "prefers-color-scheme", Value: scheme}},
		})
		return chromedp.Void{}, err
	})
}

// usable fails for each fault that axe finds in the page as it is, and if it is wider than the window.
func (b *tab) usable(what string) {
	b.t.Helper()
	ask[bool](b, axe+"; true")
	for _, fault := range ask[[]string](b, `axe.run(document, { resultTypes: ["violations"] }).then((r) =>
		r.violations.flatMap((v) => v.nodes.slice(0, 5).map((n) => v.id + " at " + n.target + ": " + n.failureSummary)))`) {
		b.t.Errorf("%s: %s", what, fault)
	}
	if over := ask[int](b, "document.documentElement.scrollWidth - innerWidth"); over > 0 {
		b.t.Errorf("%s is wider than the window by %d pixels", what, over)
	}
}

// picture writes what the page looks like, if that is asked for.
func (b *tab) picture(name string) {
	b.t.Helper()
	if os.Getenv("BERTH_UPDATE") != "1" {
		return
	}
	width, height := ask[int64](b, "innerWidth"), ask[int64](b, "document.documentElement.scrollHeight")
	b.do(chromedp.EmulateViewport(width, height))
	defer b.do(chromedp.EmulateViewport(width, 800))
	ctx, cancel := context.WithTimeout(b.ctx, patience)
	defer cancel()
	data, err := chromedp.Run(ctx, chromedp.CaptureScreenshot())
	if err == nil {
		err = os.WriteFile("../../docs/ui/"+name+".png", data, 0o644)
	}
	if err != nil || len(data) > 150<<10 {
		b.t.Errorf("%s: %d bytes, %v", name, len(data), err)
	}
}

func quoted(s string) string {
	data, _ := json.Marshal(s)
	return string(data)
}
