// SPDX-License-Identifier: Apache-2.0

package write

import (
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

func BenchmarkMetricsOfARecord(b *testing.B) {
	for name, m := range map[string]*produceMetrics{"on": newMetrics(prometheus.NewRegistry()), "off": nil} {
		b.Run(name, func(b *testing.B) {
			for b.Loop() {
				m.produced(time.Now(), nil)
			}
		})
	}
}
