// SPDX-License-Identifier: Apache-2.0

package cell

import (
	"errors"
	"time"

	"github.com/berth-project/berth/pkg/compute"
	"github.com/berth-project/berth/pkg/config"
	"github.com/berth-project/berth/queues/save"
)

// SaveSettings say when hosts save room for large work.
type SaveSettings struct {
	After time.Duration `yaml:"after"` // 0: none does
	For   time.Duration `yaml:"for"`
	Share int           `yaml:"share"` // one host in so many
}

// DefaultSave is what most cells want.
func DefaultSave() SaveSettings {
	r := save.DefaultRules()
	return SaveSettings{After: r.After, For: r.For, Share: r.Share}
}

// Check refuses what makes no sense.
func (s SaveSettings) Check() error {
	var after, during error
	if s.After < 0 || s.After > 0 && s.After < time.Second {
		after = compute.Invalid("save.after", s.After.String(), "give 1s or more, or 0 to have no host save room")
	}
	if s.For < time.Minute || s.For > compute.MaxSave {
		during = compute.Invalid("save.for", s.For.String(), "give 1m to "+compute.MaxSave.String())
	}
	return errors.Join(after, during, config.Between("save.share", s.Share, 1, 1_000_000))
}

// Rules are what the queue manager goes by.
func (s SaveSettings) Rules() *save.Rules {
	r := save.DefaultRules()
	r.After, r.For, r.Share = s.After, s.For, s.Share
	return &r
}
