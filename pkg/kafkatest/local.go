package kafkatest

import "github.com/berth-project/berth/pkg/localkafka"

// Version is the Kafka that tests run against unless told otherwise.
const Version = localkafka.Version

// How tests say which brokers to run, and what they get.
type (
	Options = localkafka.Options
	Cluster = localkafka.Cluster
)

// FreePorts finds ports nobody listens on.
func FreePorts(n int) ([]int, error) { return localkafka.FreePorts(n) }
