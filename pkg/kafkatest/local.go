// SPDX-License-Identifier: Apache-2.0

package kafkatest

import (
	"cmp"
	"os"

	"github.com/berth-project/berth/pkg/localkafka"
)

// Version is the Kafka that tests run against: BERTH_KAFKA_VERSION, or the one
// that everything else runs.
func Version() string { return cmp.Or(os.Getenv("BERTH_KAFKA_VERSION"), localkafka.Version) }

// How tests say which brokers to run, and what they get.
type (
	Options = localkafka.Options
	Cluster = localkafka.Cluster
)

// FreePorts finds ports nobody listens on.
func FreePorts(n int) ([]int, error) { return localkafka.FreePorts(n) }
