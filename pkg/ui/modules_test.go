// SPDX-License-Identifier: Apache-2.0

package ui_test

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"testing"

	"github.com/chromedp/chromedp"

	"github.com/berth-project/berth/pkg/explain"
	"github.com/berth-project/berth/pkg/ui"
)

// TestModules runs what of the console touches no page, in the browser: each file of testdata/modules is a module that
// exports tests, which end with an error or not.
func TestModules(t *testing.T) {
	mux := http.NewServeMux()
	mux.Handle("/ui/", ui.Handler())
	mux.Handle("/test/", http.StripPrefix("/test/", http.FileServer(http.Dir("testdata/modules"))))
	mux.HandleFunc("/blank", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/html")
		_, _ = w.Write([]byte(`<!doctype html><link rel="icon" href="/ui/icon.svg">`))
	})
	mux.HandleFunc("/standings", func(w http.ResponseWriter, _ *http.Request) {
		var names []string
		for s := explain.Standing(0); s.String() != "unknown"; s++ {
			names = append(names, s.String())
		}
		_ = json.NewEncoder(w).Encode(names) // the page may be gone
	})
	node := httptest.NewServer(mux)
	defer node.Close()
	b := newTab(t, node.URL)
	b.do(chromedp.Navigate(node.URL + "/blank"))
	for _, file := range globbed(t, "testdata/modules/*_test.js") {
		t.Run(filepath.Base(file), func(t *testing.T) {
			b.t = t
			for _, line := range ask[[]string](b, `import("/test/`+filepath.Base(file)+`").then(async (tests) => {
				const failed = [];
				for (const [name, test] of Object.entries(tests)) {
					try { await test(); } catch (e) { failed.push(name + ": " + e.message); }
				}
				if (!Object.keys(tests).length) failed.push("it has no tests");
				return failed;
			})`) {
				t.Error(line)
			}
		})
	}
}
