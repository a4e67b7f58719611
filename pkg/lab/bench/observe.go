// SPDX-License-Identifier: Apache-2.0

package bench

import (
	"time"

	"github.com/berth-project/berth/pkg/kafka"
	"github.com/berth-project/berth/pkg/kafka/read"
	"github.com/berth-project/berth/pkg/wire"
)

// observer reads the log of instances as anybody may, committed records only,
// and notes when it saw what. The moment is that of the batch it was read in.
func observer(cfg kafka.Config, l *ledger) *read.Reader {
	return read.NewReader(cfg, read.Options{
		Topic: cfg.Topics.Instances(), Committed: true, From: read.End(),
		Handle: func(b read.Batch) {
			now := time.Now()
			l.observe(now, observations(b.Records))
		},
	})
}

func observations(recs []wire.Record) []observation {
	out := make([]observation, 0, len(recs))
	for _, rec := range recs {
		i, err := wire.DecodeInstance(rec)
		if err != nil {
			continue // a tombstone, or another's
		}
		out = append(out, observation{name: i.Boot.Name, id: i.ID, state: i.State, attempt: i.Attempt, host: i.Host})
	}
	return out
}
