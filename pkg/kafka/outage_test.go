// SPDX-License-Identifier: Apache-2.0

package kafka

import (
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/twmb/franz-go/pkg/kgo"
	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"
)

// One outage is one line at its beginning, one a minute and one at its end,
// however many notice it.
func TestAnOutageIsToldOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		core, logs := observer.New(zap.DebugLevel)
		cfg := Config{Outage: NewOutage(zap.New(core))}
		read, pull := cfg.OutageReporter("read berth.hosts"), cfg.OutageReporter("pull work")
		read.Fine()
		refused := errors.New("refused")
		for range 150 { // seconds
			read.Failed(refused)
			pull.Failed(refused)
			time.Sleep(time.Second)
		}
		pull.Fine()
		pull.Fine()
		time.Sleep(time.Second)
		read.Fine()
		time.Sleep(time.Hour)
		pull.Failed(refused)
		pull.Fine()
		type line struct {
			Text   string
			Fields map[string]any
		}
		var got []line
		for _, e := range logs.TakeAll() {
			got = append(got, line{e.Message, e.ContextMap()})
		}
		both := []any{"pull work", "read berth.hosts"}
		want := []line{
			{"Kafka cannot be used; trying on", map[string]any{"to": "read berth.hosts", "error": "refused"}},
			{"Kafka still cannot be used", map[string]any{"for": time.Minute, "to": both, "error": "refused"}},
			{"Kafka still cannot be used", map[string]any{"for": 2 * time.Minute, "to": both, "error": "refused"}},
			{"Kafka can be used again", map[string]any{"after": 151 * time.Second}},
			{"Kafka cannot be used; trying on", map[string]any{"to": "pull work", "error": "refused"}},
			{"Kafka can be used again", map[string]any{"after": time.Duration(0)}},
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Error(diff)
		}
	})
}

// What many clients of a process say at once is one line.
func TestClientsOfAProcessDoNotRepeatEachOther(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		core, logs := observer.New(zap.InfoLevel)
		log := clientLog{zap.New(core).Sugar(), NewOutage(zap.NewNop())}
		for range 20 {
			log.Log(kgo.LogLevelError, "unable to request api versions")
			log.Log(kgo.LogLevelError, groupErrored)
		}
		log.Log(kgo.LogLevelError, "another")
		time.Sleep(stillEvery)
		log.Log(kgo.LogLevelError, "unable to request api versions")
		if n := logs.Len(); n != 3 {
			t.Errorf("%d lines: %v", n, logs.All())
		}
		log.outage = nil
		log.Log(kgo.LogLevelError, "another")
		if n := logs.Len(); n != 4 {
			t.Errorf("without a common outage nothing is left out: %d lines", n)
		}
	})
}
