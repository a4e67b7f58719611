// SPDX-License-Identifier: Apache-2.0

package bench

import (
	"maps"
	"sync"

	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
)

// tally counts what the product warns of, by what it says. Thousands of hosts
// may say the same.
type tally struct {
	mu   sync.Mutex
	said map[string]int
}

func newTally() *tally { return &tally{said: map[string]int{}} }

// on is a log that is counted too.
func (t *tally) on(log *zap.Logger) *zap.Logger {
	return log.WithOptions(zap.WrapCore(func(c zapcore.Core) zapcore.Core {
		return zapcore.NewTee(c, &tallyCore{LevelEnabler: zapcore.WarnLevel, of: t})
	}))
}

func (t *tally) counts() map[string]int {
	t.mu.Lock()
	defer t.mu.Unlock()
	return maps.Clone(t.said)
}

// tallyCore is the end of the log that counts.
type tallyCore struct {
	zapcore.LevelEnabler
	of *tally
}

// With has nothing to do with fields.
func (c *tallyCore) With([]zapcore.Field) zapcore.Core { return c }

// Check takes what is worth a warning.
func (c *tallyCore) Check(e zapcore.Entry, to *zapcore.CheckedEntry) *zapcore.CheckedEntry {
	if c.Enabled(e.Level) {
		return to.AddCore(e, c)
	}
	return to
}

// Write counts.
func (c *tallyCore) Write(e zapcore.Entry, _ []zapcore.Field) error {
	c.of.mu.Lock()
	defer c.of.mu.Unlock()
	c.of.said[e.LoggerName+": "+e.Message]++
	return nil
}

// Sync has nothing to wait for.
func (c *tallyCore) Sync() error { return nil }
