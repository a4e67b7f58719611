// SPDX-License-Identifier: Apache-2.0

package readtest

import (
	"context"
	"slices"
	"testing"

	"github.com/berth-project/berth/pkg/kafka"
	"github.com/berth-project/berth/pkg/kafka/internal/brokertest"
	"github.com/berth-project/berth/pkg/kafka/read"
)

// Followed is a reader that runs, and what it handed over.
type Followed struct {
	*read.Reader
	Batches chan read.Batch
	Stop    func() // ends the reader and waits for its end
}

// Follow runs a reader until the test ends.
func Follow(t testing.TB, cfg kafka.Config, opts read.Options) *Followed {
	t.Helper()
	f := &Followed{Batches: make(chan read.Batch, 10_000)}
	opts.Handle = func(b read.Batch) { f.Batches <- b }
	f.Reader = read.NewReader(cfg, opts)
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() {
		defer close(done)
		_ = f.Run(ctx) // a test that waits for more says what is missing
	}()
	f.Stop = func() {
		cancel()
		<-done
	}
	t.Cleanup(f.Stop)
	return f
}

// UpTo collects values until one is the last.
func (f *Followed) UpTo(t testing.TB, last string) (values []string) {
	t.Helper()
	ctx := brokertest.Patient(t)
	for {
		select {
		case b := <-f.Batches:
			for _, rec := range b.Records {
				values = append(values, string(rec.Value))
			}
			if slices.Contains(values, last) {
				return values
			}
		case <-ctx.Done():
			t.Fatalf("never read %q, only %q", last, values)
		}
	}
}
