// SPDX-License-Identifier: Apache-2.0

package docs_test

import (
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"encoding/hex"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/berth-project/berth/pkg/api/docs"
)

func get(t *testing.T, at string, header ...string) *httptest.ResponseRecorder {
	t.Helper()
	r := httptest.NewRequest(http.MethodGet, at, nil)
	for i := 0; i < len(header); i += 2 {
		r.Header.Set(header[i], header[i+1])
	}
	w := httptest.NewRecorder()
	docs.Files()[at].ServeHTTP(w, r)
	return w
}

// TestFiles: each file is served as what it is, under the page's policy, and not again to a browser that has it.
func TestFiles(t *testing.T) {
	for at := range docs.Files() {
		a := get(t, at)
		if a.Code != http.StatusOK || a.Header().Get("Content-Type") == "" || a.Body.Len() == 0 ||
			a.Header().Get("Content-Security-Policy") != docs.Policy() {
			t.Errorf("%s: %d %v", at, a.Code, a.Header())
		}
		if again := get(t, at, "If-None-Match", a.Header().Get("ETag")); again.Code != http.StatusNotModified {
			t.Errorf("%s again: %d", at, again.Code)
		}
	}
}

// TestRedocIsAsItCame: what is served is the file that redoc.txt names, compressed to those who take that.
func TestRedocIsAsItCame(t *testing.T) {
	const at = "/docs/vendor/redoc.js"
	plain := get(t, at)
	sum := sha256.Sum256(plain.Body.Bytes())
	if told := get(t, "/docs/vendor/redoc.txt").Body.String(); !strings.Contains(told, hex.EncodeToString(sum[:])) {
		t.Errorf("redoc.js has the sum %x, which redoc.txt does not say", sum)
	}
	for _, accepts := range []string{"gzip", "br, gzip;q=0.8", "deflate,gzip , br"} {
		a := get(t, at, "Accept-Encoding", accepts)
		zipped := a.Body.Len()
		unzipped, err := gzip.NewReader(a.Body)
		if err != nil {
			t.Fatalf("%s: %v", accepts, err)
		}
		data, err := io.ReadAll(unzipped)
		if err != nil || !bytes.Equal(data, plain.Body.Bytes()) || a.Header().Get("Content-Encoding") != "gzip" ||
			a.Header().Get("Vary") != "Accept-Encoding" || zipped > len(data)/3 {
			t.Errorf("%s: %d bytes for %d, %v, %v", accepts, zipped, len(data), a.Header(), err)
		}
	}
	for _, accepts := range []string{"br", "gzip; q=0", "gzip;q=0.0", "xgzip", "identity"} {
		a := get(t, at, "Accept-Encoding", accepts)
		if a.Header().Get("Content-Encoding") != "" || !bytes.Equal(a.Body.Bytes(), plain.Body.Bytes()) {
			t.Errorf("%s: %v", accepts, a.Header())
		}
	}
}

// TestCommandsAreQuoted: a body stays what it is.
func TestCommandsAreQuoted(t *testing.T) {
	e := docs.Example{Path: "/v1/x", Body: `{"a": "it's"}`}
	if got, want := e.Curl("PUT", false), `curl -X PUT "$BERTH_API/v1/x" \
  -H 'Content-Type: application/json' \
  -d '{"a": "it'\''s"}'`; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}
