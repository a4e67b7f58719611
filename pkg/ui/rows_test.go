// SPDX-License-Identifier: Apache-2.0

package ui_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/chromedp/chromedp"

	"github.com/berth-project/berth/pkg/ui"
)

// holding is a node that has one instance, in the project default, and quotas of one project. It refuses a label that
// is none. Questions about the project slow, about a state and about a second page it tells of, and answers once let.
func holding(asked chan<- struct{}, let <-chan struct{}) http.Handler {
	mux := http.NewServeMux()
	mux.Handle("/ui/", ui.Handler())
	says := func(pattern, body string) {
		mux.HandleFunc(pattern, func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, body) })
	}
	says("/v1/whoami", `{"open": true, "cell": "admin"}`)
	says("/v1/flavors", `{"items": [{"name": "m1.small"}]}`)
	mux.HandleFunc("/v1/events", func(w http.ResponseWriter, r *http.Request) {
		_ = http.NewResponseController(w).Flush()
		<-r.Context().Done()
	})
	held := func(w http.ResponseWriter, r *http.Request, hold bool, shown, later string) {
		if !hold {
			fmt.Fprint(w, shown)
			return
		}
		select {
		case asked <- struct{}{}:
		case <-let: // the test is past it
		case <-r.Context().Done():
		}
		select {
		case <-let:
			fmt.Fprint(w, later)
		case <-r.Context().Done():
		}
	}
	const none = `{"items": []}`
	mux.HandleFunc("/v1/quotas", func(w http.ResponseWriter, r *http.Request) {
		held(w, r, r.FormValue("marker") != "", `{"items": [{"project": "old", "resources": []}], "next": "old"}`, none)
	})
	mux.HandleFunc("/v1/instances", func(w http.ResponseWriter, r *http.Request) {
		if r.FormValue("label") != "" {
			w.WriteHeader(http.StatusUnprocessableEntity)
			fmt.Fprint(w, `{"status": 422, "detail": "this is no label"}`)
			return
		}
		hold := r.FormValue("project") == "slow" || r.FormValue("state") != ""
		held(w, r, hold, `{"items": [{"id": "old", "name": "old", "state": "active", "flavor": "m1.small"}]}`, none)
	})
	return mux
}

// TestRowsAreOfWhatIsAsked: what was read for one project, filter or page of a list does not stand under the name of
// another while that is read, and is not away while the same is read again. The filters stay, with the focus.
func TestRowsAreOfWhatIsAsked(t *testing.T) {
	asked, let := make(chan struct{}), make(chan struct{})
	node := httptest.NewServer(holding(asked, let))
	defer node.Close()
	b := newTab(t, node.URL)
	defer b.close()
	rows := func(want int, when string) {
		t.Helper()
		if n := ask[int](b, `document.querySelectorAll("tbody tr").length`); n != want {
			t.Errorf("%s: %d rows, want %d: %s", when, n, want, b.text())
		}
	}
	reads := func() { // it has drawn what it shows meanwhile
		t.Helper()
		select {
		case <-asked:
		case <-time.After(patience):
			t.Fatalf("it asks nothing, and says %s", b.text())
		}
	}
	b.open("/instances")
	rows(1, "at first")
	ask[bool](b, `dispatchEvent(new Event("hashchange"))`)
	rows(1, "while the same is read again")

	ask[bool](b, `location.hash = "/instances?project=slow"; true`)
	reads()
	b.says("of project slow")
	rows(0, "while another project is read")
	b.do(chromedp.NavigateBack())
	b.until(`document.querySelectorAll("tbody tr").length === 1`)

	b.open("/quotas")
	b.click("Next page")
	reads()
	rows(0, "while the next page is read")

	b.open("/instances")
	b.do(chromedp.Focus(chromedp.CSS("[name=state]")))
	b.choose("state", "queued")
	reads()
	rows(0, "while another state is read")
	if name := ask[string](b, `document.activeElement.name || ""`); name != "state" {
		t.Errorf("the focus is at %q, and was at the filter by state", name)
	}
	b.do(chromedp.Focus(chromedp.CSS("main a.button")))
	close(let)
	b.says("None matches")
	if text := ask[string](b, `document.activeElement.textContent`); text != "Boot a machine" {
		t.Errorf("the focus is at %q, and was at the link to boot a machine", text)
	}
	b.refuses(1)
	b.fill("label", "a b\r")
	b.says("this is no label")
	if text := ask[string](b, `document.querySelector("[name=label]")?.value`); text != "a b" {
		t.Errorf("a label that was refused cannot be mended: the field has %q", text)
	}

	b.open("/instances?flavor=m9.gone")
	if text := ask[string](b, `document.querySelector("[name=flavor]").value`); text != "m9.gone" {
		t.Errorf("rows of a flavor that is not offered are shown as of %q", text)
	}
}
