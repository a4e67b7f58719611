// SPDX-License-Identifier: Apache-2.0

package loop

import (
	"testing"

	"github.com/berth-project/berth/pkg/kafka"
	"github.com/berth-project/berth/pkg/kafka/write"
)

func producer(t testing.TB, cfg kafka.Config) *write.Producer {
	t.Helper()
	p, err := write.NewProducer(cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(p.Close)
	return p
}
