// SPDX-License-Identifier: Apache-2.0

package ui

import (
	"crypto/sha256"
	"embed"
	"encoding/hex"
	"io/fs"
	"net/http"
	"path"
	"strings"
)

//go:embed static
var static embed.FS

// policy lets the pages load and ask nothing but what this node serves, and lets no script set markup: text of users
// stays text, by the browser's own rule.
const policy = "default-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'; object-src 'none'; " +
	"require-trusted-types-for 'script'; trusted-types 'none'"

// kinds are the content types; those of the machine's own tables differ from machine to machine.
var kinds = map[string]string{
	".html": "text/html; charset=utf-8", ".css": "text/css; charset=utf-8", ".svg": "image/svg+xml",
	".js": "text/javascript; charset=utf-8", ".mjs": "text/javascript; charset=utf-8",
	".LICENSE": "text/plain; charset=utf-8", ".txt": "text/plain; charset=utf-8",
}

type file struct {
	data []byte
	etag string
}

// Handler serves the console below /ui/. The pages are open to everybody: they hold nothing of the cell.
func Handler() http.Handler {
	files := map[string]file{}
	err := fs.WalkDir(static, "static", func(name string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		data, err := static.ReadFile(name)
		sum := sha256.Sum256(data)
		files[strings.TrimPrefix(name, "static/")] = file{data, `"` + hex.EncodeToString(sum[:12]) + `"`}
		return err
	})
	if err != nil {
		panic(err) // the files are in the binary
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		name := strings.TrimPrefix(r.URL.Path, "/ui/")
		if name == "" {
			name = "index.html"
		}
		f, ok := files[name]
		if !ok {
			http.Redirect(w, r, "/ui/", http.StatusFound)
			return
		}
		f.serve(w, r, kinds[path.Ext(name)])
	})
}

// serve answers with a file, or that the caller has it. Browsers ask each time, so that the pages are never those of
// another version than the API.
func (f file) serve(w http.ResponseWriter, r *http.Request, kind string) {
	h := w.Header()
	h.Set("Content-Type", kind)
	h.Set("Content-Security-Policy", policy)
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("Referrer-Policy", "no-referrer")
	h.Set("Cross-Origin-Opener-Policy", "same-origin")
	h.Set("Cache-Control", "no-cache")
	h.Set("ETag", f.etag)
	if strings.Contains(r.Header.Get("If-None-Match"), f.etag) {
		w.WriteHeader(http.StatusNotModified)
		return
	}
	_, _ = w.Write(f.data) // the caller may be gone
}
