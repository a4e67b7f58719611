// SPDX-License-Identifier: Apache-2.0

package admin

import (
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/berth-project/berth/pkg/kafka"
	"github.com/berth-project/berth/pkg/kafka/write"
	"github.com/berth-project/berth/pkg/wire"
)

// The topics that are made are those that are asked for and that rights are given on.
func TestOwnTopicsAreAllMade(t *testing.T) {
	names := wire.Topics{Prefix: "c."}
	var made []string
	for _, own := range ownTopics(names, 1, 1) {
		made = append(made, own.topics...)
	}
	want := append(names.Own(), names.Tokens(), names.Audit())
	if diff := cmp.Diff(slices.Sorted(slices.Values(want)), slices.Sorted(slices.Values(made))); diff != "" {
		t.Error(diff)
	}
}

func producer(t testing.TB, cfg kafka.Config) *write.Producer {
	t.Helper()
	p, err := write.NewProducer(cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(p.Close)
	return p
}

func adminOf(t testing.TB, cfg kafka.Config) *Admin {
	t.Helper()
	a, err := New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(a.Close)
	return a
}
