// SPDX-License-Identifier: Apache-2.0

package clienttest

import (
	"testing"

	"github.com/berth-project/berth/pkg/kafka"
	"github.com/berth-project/berth/pkg/kafka/admin"
	"github.com/berth-project/berth/pkg/kafka/write"
)

// Producer is a producer until the test ends.
func Producer(t testing.TB, cfg kafka.Config) *write.Producer {
	t.Helper()
	p, err := write.NewProducer(cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(p.Close)
	return p
}

// Admin is an admin until the test ends.
func Admin(t testing.TB, cfg kafka.Config) *admin.Admin {
	t.Helper()
	a, err := admin.New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(a.Close)
	return a
}
