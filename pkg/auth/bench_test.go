// SPDX-License-Identifier: Apache-2.0

package auth

import (
	"testing"
	"time"

	"github.com/berth-project/berth/pkg/compute"
)

// What a token costs each request, among as many as there may be.
func BenchmarkAuthenticate(b *testing.B) {
	all := NewTokens(time.Now)
	var text string
	for range 10_000 {
		made, id, hash := NewToken()
		all.Put(compute.Token{ID: id, Hash: hash, Role: RoleMember, Project: "p"})
		text = made
	}
	r := request("Bearer " + text)
	for b.Loop() {
		if _, ok, err := all.Authenticate(b.Context(), r); !ok || err != nil {
			b.Fatal(err)
		}
	}
}
