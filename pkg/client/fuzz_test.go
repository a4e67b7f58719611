// SPDX-License-Identifier: Apache-2.0

package client

import (
	"net/http"
	"testing"
)

// FuzzAnswer is what a client makes of a refusal, whichever server wrote it and however
// it says when to come again.
func FuzzAnswer(f *testing.F) {
	f.Add(503, "1", []byte(`{"kind":"unavailable","detail":"d"}`))
	f.Add(429, "99999999999999999999", []byte(`<html>`))
	f.Add(0, "-1", []byte(`null`))
	f.Fuzz(func(t *testing.T, status int, after string, body []byte) {
		resp := &http.Response{
			StatusCode: status,
			Header:     http.Header{"Retry-After": {after}, "Content-Type": {"application/problem+json"}},
		}
		if err := problem(resp, body); err == nil || err.Error() == "" {
			t.Fatal("a refusal is no error")
		}
		if wait, ok := asksToRepeat(resp); ok && wait < 0 {
			t.Fatalf("comes again in %s", wait)
		}
	})
}
