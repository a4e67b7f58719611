// SPDX-License-Identifier: Apache-2.0

package ui_test

import (
	"testing"

	"github.com/chromedp/chromedp"

	"github.com/berth-project/berth/pkg/api/docs"
	"github.com/berth-project/berth/pkg/cell"
)

// TestDocs looks at the page of the API's document, /docs: it loads nothing from elsewhere, breaks none of the rules that
// the node gives the browser, shows each operation with its example, finds what is looked for, and can be used by all.
func TestDocs(t *testing.T) {
	examples := map[string]docs.Example{}
	for _, e := range docs.Examples() {
		examples[e.Operation] = e
	}
	withCell(t, cell.EverythingOptions{}, func(node string) {
		b := newTab(t, node)
		defer b.close()
		open := func(hash, until string) {
			t.Helper()
			b.do(chromedp.Navigate("about:blank"), chromedp.Navigate(node+"/docs"+hash))
			b.until(until)
			b.until(`document.querySelector(".menu-content")?.innerText.includes("instances")`)
		}
		shows := func(source string) string {
			return `[...document.querySelectorAll("pre")].some((e) => e.innerText.trim() === ` + quoted(source) + `)`
		}
		for _, look := range []struct {
			scheme string
			width  int64
		}{{"light", 1280}, {"dark", 1280}, {"light", 360}} {
			b.like(look.scheme, look.width)
			open("", `document.body.innerText.includes("Every refusal is a problem document")`)
			b.until(`!document.body.innerText.includes("Loading")`)
			b.until(`document.querySelector("a[href$='/openapi.json']")`)
			b.usable("the API's documentation, " + look.scheme)
			for id, method := range map[string]string{"boot": "POST", "delete-instance": "DELETE"} {
				open("#/instances/"+id, shows(examples[id].Curl(method, true)))
				b.usable("the API's documentation of " + id + ", " + look.scheme)
				b.until(`document.querySelector("[data-testid=page-actions]")?.innerText.trim() === "Copy"`)
			}
			if testing.Short() {
				break
			}
		}
		b.like("light", 1280)
		open("", `document.querySelector("[data-testid=search-trigger]")?.innerText.includes("Search")`)
		b.do(chromedp.Click(chromedp.CSS("[data-testid=search-trigger]")))
		b.do(chromedp.SendKeys(chromedp.CSS("input"), "serial"))
		b.until(`document.querySelector("[data-testid=search-dialog]").innerText.includes("Read a machine's serial console")`)
	})
}
