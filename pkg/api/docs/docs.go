// SPDX-License-Identifier: Apache-2.0

// Package docs is the page /docs of an API node: Redoc, which renders /openapi.json in the reader's browser. It also
// has what that document cannot know by itself: an example of each operation, as a command for a shell.
//
// static/vendor is Redoc as its npm package has it, compressed; static/vendor/redoc.txt says which.
package docs

import (
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"embed"
	"encoding/base64"
	"encoding/hex"
	"io"
	"net/http"
	"path"
	"strings"
)

//go:embed static
var static embed.FS

// Policy lets the page load nothing but what this node serves. Redoc writes its style sheets rule by rule into elements
// that are empty, so the only style element that is allowed is the empty one, by its hash. One font is a part of
// Redoc's file.
func Policy() string {
	return "default-src 'none'; script-src 'self'; style-src 'self' " + hashed("") + "; style-src-attr " + painted() +
		"; connect-src 'self'; img-src 'self'; font-src data:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
}

// painted is what a style attribute may say: what Redoc says to colour the words of a command.
func painted() string {
	out := "'unsafe-hashes'"
	for _, word := range []string{"function", "string"} {
		out += " " + hashed("color: var(--code-block-tokens-"+word+"-color)")
	}
	return out
}

// hashed is how a policy names a style.
func hashed(style string) string {
	sum := sha256.Sum256([]byte(style))
	return "'sha256-" + base64.StdEncoding.EncodeToString(sum[:]) + "'"
}

// page has the files of the page by their paths on a node. One that ends with .gz is in the binary as it is sent.
var page = map[string]string{
	"/docs":                      "index.html",
	"/docs/docs.js":              "docs.js",
	"/docs/docs.css":             "docs.css",
	"/docs/vendor/redoc.js":      "vendor/redoc.js.gz",
	"/docs/vendor/redoc.LICENSE": "vendor/redoc.LICENSE",
	"/docs/vendor/redoc.txt":     "vendor/redoc.txt",
}

var kinds = map[string]string{
	".html": "text/html; charset=utf-8", ".css": "text/css; charset=utf-8", ".js": "text/javascript; charset=utf-8",
	".LICENSE": "text/plain; charset=utf-8", ".txt": "text/plain; charset=utf-8",
}

// Files answer GET on their paths. They are open to everybody: they hold nothing of the cell.
func Files() map[string]http.Handler {
	all := map[string]http.Handler{}
	for at, name := range page {
		data, err := static.ReadFile("static/" + name)
		if err != nil {
			panic(err) // the files are in the binary
		}
		sum := sha256.Sum256(data)
		name, zipped := strings.CutSuffix(name, ".gz")
		all[at] = file{data, zipped, kinds[path.Ext(name)], `"` + hex.EncodeToString(sum[:12]) + `"`}
	}
	return all
}

type file struct {
	data   []byte
	zipped bool // data is compressed
	kind   string
	etag   string
}

// ServeHTTP answers with the file, or that the caller has it. Browsers ask each time, so that the page is never that of
// another version than the API.
func (f file) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	h := w.Header()
	h.Set("Content-Type", f.kind)
	h.Set("Content-Security-Policy", Policy())
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("Referrer-Policy", "no-referrer")
	h.Set("Cache-Control", "no-cache")
	h.Set("ETag", f.etag)
	if f.zipped {
		h.Set("Vary", "Accept-Encoding")
	}
	if strings.Contains(r.Header.Get("If-None-Match"), f.etag) {
		w.WriteHeader(http.StatusNotModified)
		return
	}
	body := io.Reader(bytes.NewReader(f.data))
	if f.zipped && takesGzip(r) {
		h.Set("Content-Encoding", "gzip")
	} else if f.zipped {
		unzipped, err := gzip.NewReader(body)
		if err != nil {
			panic(err) // the file is in the binary
		}
		body = unzipped
	}
	_, _ = io.Copy(w, body) // the caller may be gone
}

// takesGzip says whether the caller takes gzip: by its name, and with a weight that is not nothing.
func takesGzip(r *http.Request) bool {
	for _, one := range strings.Split(strings.Join(r.Header.Values("Accept-Encoding"), ","), ",") {
		coding, weight, _ := strings.Cut(strings.ReplaceAll(one, " ", ""), ";")
		if coding == "gzip" {
			return weight == "" || strings.Trim(strings.TrimPrefix(weight, "q="), "0.") != ""
		}
	}
	return false
}
