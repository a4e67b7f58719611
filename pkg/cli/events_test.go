// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"bufio"
	"bytes"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/creack/pty"
	"github.com/google/go-cmp/cmp"
	"github.com/spf13/cobra"

	"github.com/berth-project/berth/pkg/client"
	"github.com/berth-project/berth/pkg/terminal"
)

func TestWhatHappened(t *testing.T) {
	failed := &client.Reason{Code: "BuildFailed", Message: "attempt 1 failed on h1 (host): no disk"}
	for want, e := range map[string]client.Event{
		"admitted":            {State: "queued"},
		"refused; over quota": {State: "error", Reason: &client.Reason{Message: "over quota"}},
		"attempt 2 granted":   {StateBefore: "queued", State: "starting", Attempt: 2},
		"it runs":             {StateBefore: "starting", State: "active", Power: "running"},
		"stop asked for":      {StateBefore: "active", State: "active", Command: &client.PowerCommand{Op: "stop"}},
		"it is gone":          {StateBefore: "deleting", State: "deleted", PowerBefore: "running"},
		"delete asked for":    {StateBefore: "active", State: "deleting", Delete: true},
		"its record changed":  {StateBefore: "active", State: "active"},
		"reboot failed: no button": {StateBefore: "active", State: "active",
			Answer: &client.PowerAnswer{Op: "reboot", Failed: "no button"}},
		"queued again; attempt 1 failed on h1 (host): no disk":  {StateBefore: "starting", State: "queued", Reason: failed},
		"it has failed; attempt 1 failed on h1 (host): no disk": {StateBefore: "starting", State: "error", Reason: failed},
		"stop done; it shut down": {
			StateBefore: "active", State: "active", PowerBefore: "running", Power: "stopped",
			Answer: &client.PowerAnswer{Op: "stop"},
			Reason: &client.Reason{Code: "StoppedByCommand", Message: "stopped by command: it shut down",
				Detail: "it shut down"},
		},
		"now stopped; the guest powered itself off": {
			StateBefore: "active", State: "active", PowerBefore: "running", Power: "stopped",
			Reason: &client.Reason{Code: "GuestShutdown", Message: "the guest powered itself off"},
		},
	} {
		if got := happened(client.Told{Kind: "change", Event: e}); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
	if got := happened(client.Told{Kind: client.ToldPresent, Event: client.Event{State: "active"}}); got != "" {
		t.Errorf("%q of what is present", got)
	}
}

const watched = `retry: 1

event: present
data: {"instance":"11111111-1111","name":"web","state":"active","host":"h1","version":3,"at":"2020-01-01T00:00:00Z"}

event: present
data: {"instance":"22222222-2222","name":"a-long\u001b[2Jname","state":"queued","version":1,"at":"2020-01-01T00:00:00Z"}

id: 0:7
event: presented
data: {"id":"0:7"}

: still here
id: 0:9

id: 0:10
event: change
data: {"id":"0:10","instance":"22222222-2222","name":"a-long\u001b[2Jname","state_before":"queued","state":"deleted","version":2,"at":"2020-01-01T00:00:00Z"}

id: 0:20
event: gap
data: {"id":"0:20","why":"forgotten","message":"changes are missing"}

id: 0:21
event: end
data: {"why":"caught-up"}

`

// run runs a command against a node that says so.
func run(t *testing.T, says string, args ...string) (out, errs string, code int) {
	t.Helper()
	t.Setenv("TZ", "UTC")
	node := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "text/event-stream")
		_, _ = io.WriteString(w, says)
	}))
	defer node.Close()
	root := NewRoot()
	var o, e bytes.Buffer
	root.SetOut(&o)
	root.SetErr(&e)
	code = Execute(t.Context(), root, append([]string{"--api", node.URL}, args...))
	return o.String(), e.String(), code
}

func TestListWatch(t *testing.T) {
	out, errs, code := run(t, watched, "list", "--watch")
	const day = "2020-01-01T00:00:00Z"
	want := strings.ReplaceAll(`TIME                  ID        NAME            STATE            HOST  WHAT
DAY  11111111  web             active           h1    -
DAY  22222222  a-long?[2Jname  queued           -     -
DAY  22222222  a-long?[2Jname  deleted          -     it is gone
`, "DAY", day)
	if diff := cmp.Diff(want, out); diff != "" || code != 0 ||
		errs != "berth: a gap: changes are missing; it goes on at 0:20\n" {
		t.Errorf("%d %q (-want +got):\n%s", code, errs, diff)
	}
	out, _, _ = run(t, watched, "list", "--watch", "--name", "web")
	if strings.Contains(out, "22222222") || !strings.Contains(out, "11111111") {
		t.Errorf("by name:\n%s", out)
	}
	out, errs, _ = run(t, watched, "events", "-f", "-o", "json")
	want = `{"kind":"gap","id":"0:20","why":"forgotten","message":"changes are missing"}`
	if lines := strings.Split(strings.TrimSpace(out), "\n"); len(lines) != 5 || lines[4] != want || errs != "" {
		t.Errorf("%q\n%s", errs, out)
	}
	out, _, _ = run(t, watched, "events", "--limit", "2", "-o", "json")
	if lines := strings.Split(strings.TrimSpace(out), "\n"); len(lines) != 2 || lines[1] != want {
		t.Errorf("the last two:\n%s", out)
	}
}

// TestListWatchAgain: a present that is broken off begins anew, and each instance is printed once.
func TestListWatchAgain(t *testing.T) {
	asked := 0
	node := func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/event-stream")
		says := watched
		if asked++; asked == 1 {
			says, _, _ = strings.Cut(watched, "id: 0:7\n") // before the end of the present
		}
		_, _ = io.WriteString(w, says)
	}
	out, errs, err := typed(t.Context(), t, node, newList, "--watch", "-o", "name")
	const want = "11111111-1111\n22222222-2222\n22222222-2222\n" // the last is the change
	if out != want || err != nil || asked != 2 || !strings.Contains(errs, "the connection is lost") {
		t.Errorf("asked %d times, %v, says %q and prints:\n%s", asked, err, errs, out)
	}
}

// TestEventsLimit: more than can be kept is refused before anything is asked.
func TestEventsLimit(t *testing.T) {
	for limit, want := range map[string]exitCode{
		"0": exitUsage, "-1": exitUsage, "100001": exitUsage, "5000000000000000000": exitUsage, "1": 0, "100000": 0,
	} {
		_, errs, code := run(t, watched, "events", "--limit", limit)
		said := "berth: limit \"" + limit + "\" is not valid; give 1 to 100000\n"
		if exitCode(code) != want || (errs == said) != (want == exitUsage) {
			t.Errorf("%s: %d, says %q", limit, code, errs)
		}
	}
}

// Columns align by what a terminal shows, and states have their colours there.
func TestEventsOnATerminal(t *testing.T) {
	us, it, err := pty.Open()
	if err != nil {
		t.Skipf("skipped: needs a terminal: %v", err)
	}
	defer us.Close()
	defer it.Close()
	t.Setenv("NO_COLOR", "")
	t.Setenv("TERM", "xterm")
	var plain bytes.Buffer
	for _, out := range []io.Writer{&plain, it} {
		cmd := &cobra.Command{}
		cmd.SetOut(out)
		lines := newEventLines(cmd, FormatTable, false)
		for _, name := range []string{"web-1", "機械"} {
			err := lines.told(client.Told{Kind: "change", Event: client.Event{
				At: time.Now(), Instance: "11111111-1111", Name: name, StateBefore: "starting", State: "error", Host: "h1",
			}})
			if err != nil {
				t.Fatal(err)
			}
		}
	}
	rows := strings.Split(strings.TrimSpace(plain.String()), "\n")
	for _, row := range rows[1:] {
		if before, _, _ := strings.Cut(row, "error"); terminal.Width(before) != strings.Index(rows[0], "STATE") {
			t.Errorf("columns do not align:\n%s", plain.String())
		}
	}
	shown := bufio.NewScanner(us)
	for range rows {
		shown.Scan()
	}
	if !strings.Contains(shown.Text(), "\x1b[31merror\x1b[0m") {
		t.Errorf("no colour: %q", shown.Text())
	}
}

// TestNoticeIsTold: a machine that is stopped already is asked for nothing, and is taken away all the same.
func TestNoticeIsTold(t *testing.T) {
	n := client.Notice{Priority: "high", Queue: "m1.large", Until: elsewhere}
	e := client.Event{StateBefore: "active", State: "active", Power: "stopped", PowerBefore: "stopped", Notice: &n}
	if got := happened(client.Told{Kind: "change", Event: e}); !strings.HasPrefix(got, "notice: its place is taken") ||
		!strings.Contains(got, "may run until 2026-03-04T05:06:07Z") {
		t.Errorf("%q", got)
	}
	n.Over = time.Now()
	if got := happened(client.Told{Kind: "change", Event: e}); strings.Contains(got, "notice") {
		t.Errorf("once it is over: %q", got)
	}
}
