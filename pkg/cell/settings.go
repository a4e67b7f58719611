// SPDX-License-Identifier: Apache-2.0

package cell

import (
	"errors"
	"fmt"
	"net"

	"github.com/berth-project/berth/pkg/compute"
	"github.com/berth-project/berth/pkg/config"
	"github.com/berth-project/berth/pkg/wire"
)

// KafkaSettings is how a daemon reaches its cell. All daemons of a cell say the
// same.
type KafkaSettings struct {
	Brokers     []string `yaml:"brokers"`
	Prefix      string   `yaml:"prefix"`
	Partitions  int32    `yaml:"partitions"`  // used when the topics are made, never afterwards
	Replication int16    `yaml:"replication"` // 0: the brokers' default

	TLS  TLSSettings  `yaml:"tls"`
	SASL SASLSettings `yaml:"sasl"`
}

// DefaultKafka is a broker of this machine.
func DefaultKafka() KafkaSettings {
	return KafkaSettings{Brokers: []string{"127.0.0.1:9092"}, Prefix: wire.DefaultPrefix, Partitions: 12}
}

// Check answers all that is wrong, joined, each with the key it is about.
func (k KafkaSettings) Check() error {
	var errs []error
	if len(k.Brokers) == 0 {
		errs = append(errs, compute.Invalid("kafka.brokers", "", "name at least one broker as host:port"))
	}
	for _, b := range k.Brokers {
		if _, port, err := net.SplitHostPort(b); err != nil || port == "" {
			errs = append(errs, compute.Invalid("kafka.brokers", b, "give host:port, as in 127.0.0.1:9092"))
		}
	}
	if len(k.Prefix) > 40 || k.Prefix != "" && compute.Project(k.Prefix+"x").Check() != nil {
		errs = append(
			errs,
			compute.Invalid(
				"kafka.prefix",
				k.Prefix,
				"use at most 40 lower-case letters, digits, dots, dashes and underscores",
			),
		)
	}
	if k.Replication < 0 {
		errs = append(
			errs,
			compute.Invalid(
				"kafka.replication",
				fmt.Sprint(k.Replication),
				"give 0 for the brokers' default, or a positive number",
			),
		)
	}
	return errors.Join(
		append(
			errs,
			config.Between("kafka.partitions", int(k.Partitions), 1, 1000),
			k.TLS.check(),
			k.SASL.check(k.TLS.CA != ""),
		)...)
}
