// SPDX-License-Identifier: Apache-2.0

package write

import (
	"testing"

	"github.com/berth-project/berth/pkg/kafka"
	"github.com/berth-project/berth/pkg/kafka/admin"
)

func producer(t testing.TB, cfg kafka.Config) *Producer {
	t.Helper()
	p, err := NewProducer(cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(p.Close)
	return p
}

func adminOf(t testing.TB, cfg kafka.Config) *admin.Admin {
	t.Helper()
	a, err := admin.New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(a.Close)
	return a
}
