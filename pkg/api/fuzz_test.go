// SPDX-License-Identifier: Apache-2.0

package api

import (
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"

	"github.com/berth-project/berth/pkg/compute"
)

// FuzzHTTP asks anything of a node: it must answer, with a problem if it cannot
// do it, and never with a fault of its own.
func FuzzHTTP(f *testing.F) {
	f.Add("POST", "/v1/instances", "", "key-1",
		[]byte(`{"flavor":"m1.small","with":{"gpu":"a100"},"id":"5f0c6f0e-3c41-4a53-9d0b-0f6c1b7a2d11"}`))
	f.Add("POST", "/v1/flavors", "dry_run=true", "", []byte(`{"name":"x","resources":{"VCPU":1}}`))
	f.Add("POST", "/v1/capabilities", "", "",
		[]byte(`{"axis":"gpu","values":[{"value":"a100","consumes":{"CUSTOM_X":-1}}]}`))
	f.Add("PUT", "/v1/quotas/p", "", "", []byte(`{"limits":{"VCPU":9223372036854775808}}`))
	f.Add("GET", "/v1/instances", "limit=1&marker=AAAA&fields=id,name&state=queued", "", []byte{})
	f.Add("GET", "/v1/queues", "limit=-1&marker=%ff", "", []byte{})
	f.Add("POST", "/v1/hosts/h1/drain", "", "", []byte(`{"reason":"x","deadline":"2026-13-01"}`))
	f.Add("DELETE", "/v1/instances/..%2f..", "project=%00", "", []byte{})
	f.Fuzz(func(t *testing.T, method, path, query, key string, body []byte) {
		n := newNode(t)
		n.offer()
		target, err := url.Parse("http://node/" + strings.TrimPrefix(path, "/"))
		if err != nil || strings.ContainsAny(method, " \t\r\n") || method == "" {
			return
		}
		target.RawQuery = query
		req, err := http.NewRequestWithContext(t.Context(), method, target.String(), strings.NewReader(string(body)))
		if err != nil {
			return
		}
		req.Header.Set("Content-Type", "application/json")
		if key != "" {
			req.Header.Set("Idempotency-Key", key)
		}
		w := httptest.NewRecorder()
		n.Handler().ServeHTTP(w, req)
		if w.Code >= 500 && w.Code != http.StatusServiceUnavailable {
			t.Fatalf("%s %s: %d %.500s", method, target, w.Code, w.Body)
		}
		if w.Code >= 400 && w.Header().Get("Content-Type") != "application/problem+json" {
			t.Fatalf("%s %s: %d is no problem: %.500s", method, target, w.Code, w.Body)
		}
	})
}

// FuzzMarker: whatever somebody gives as a marker, a walk goes on behind it and
// comes to its end.
func FuzzMarker(f *testing.F) {
	f.Add("", 1)
	f.Add("h2", 2)
	f.Add("\xff", 1000)
	f.Add("12_5f0c6f0e-3c41-4a53-9d0b-0f6c1b7a2d11", 1)
	f.Add("id,name,state", 0)
	f.Fuzz(func(t *testing.T, marker string, limit int) {
		if c, err := parseCursor(marker); err != nil && compute.KindOf(err) != compute.KindInvalid ||
			err == nil && c.id == "" && marker != "" {
			t.Fatalf("marker %q: %+v, %#v", marker, c, err)
		}
		if _, err := parseFields(marker); err != nil && compute.KindOf(err) != compute.KindInvalid {
			t.Fatalf("fields %q: %#v", marker, err)
		}
		all := []compute.HostID{"h1", "h2", "h3"}
		p := Paging{Limit: 1 + max(limit, 0)%1000, Marker: marker}
		for range len(all) + 1 {
			page, next := pageOfNames(p, all, func(h compute.HostID) compute.HostID { return h })
			for _, h := range page {
				if p.Marker != "" && string(h) <= p.Marker {
					t.Fatalf("%s comes after %q", h, p.Marker)
				}
			}
			if next == "" {
				return
			}
			p.Marker = next
		}
		t.Fatal("no end")
	})
}
