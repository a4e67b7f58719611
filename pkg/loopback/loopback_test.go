// SPDX-License-Identifier: Apache-2.0

package loopback

import (
	"net/url"
	"testing"
)

func TestOrHTTPS(t *testing.T) {
	for text, want := range map[string]bool{
		"https://example.org": true, "http://localhost:80": true, "http://127.0.0.9": true, "http://[::1]:7070/v1": true,
		"http://example.org": false, "http://192.0.2.1": false, "http://[2001:db8::1]": false, "http://": false,
		"http://localhost.example.org": false, "ftp://localhost": false, "": false,
	} {
		u, err := url.Parse(text)
		if err != nil {
			t.Fatal(err)
		}
		if got := OrHTTPS(u); got != want {
			t.Errorf("%q: %v", text, got)
		}
	}
}
