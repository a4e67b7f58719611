package kafka

import (
	"context"
	"slices"
	"testing"
)

// followed is a reader that runs, and what it handed over.
type followed struct {
	*Reader
	batches chan Batch
	stop    func() // ends the reader and waits for its end
}

// follow runs a reader until the test ends.
func follow(t testing.TB, cfg Config, opts ReaderOptions) *followed {
	t.Helper()
	f := &followed{batches: make(chan Batch, 10_000)}
	opts.Handle = func(b Batch) { f.batches <- b }
	f.Reader = NewReader(cfg, opts)
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() {
		defer close(done)
		_ = f.Run(ctx) // a test that waits for more says what is missing
	}()
	f.stop = func() {
		cancel()
		<-done
	}
	t.Cleanup(f.stop)
	return f
}

// upTo collects values until one is the last.
func (f *followed) upTo(t testing.TB, last string) (values []string) {
	t.Helper()
	ctx := patient(t)
	for {
		select {
		case b := <-f.batches:
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
