// SPDX-License-Identifier: Apache-2.0

package retry

import (
	"context"
	"fmt"
	"time"

	"go.uber.org/zap"

	"github.com/berth-project/berth/pkg/kafka"
	"github.com/berth-project/berth/pkg/kafka/internal/pace"
)

// Do tries with growing waits until it works, trying is no use, or ctx
// ends. What does not pass soon it tells: nobody else hears of it. That brokers
// do not answer is reported to outage, if there is one.
func Do[T any](
	ctx context.Context, log *zap.Logger, what string, outage *kafka.OutageReporter, try func() (T, error)) (T, error,
) {
	wait := func(fails int, _ error) time.Duration { return min(pace.MostWait, pace.Backoff(fails)) }
	return After(ctx, log, what, outage, wait, try)
}

// After is retry with other waits: wait is asked how long, after so many failures
// before, from 0, and the last error.
func After[T any](
	ctx context.Context, log *zap.Logger, what string, outage *kafka.OutageReporter,
	wait func(int, error) time.Duration, try func() (T, error),
) (T, error) {
	told := time.Now().Add(ToldAfter)
	for fails := 0; ; fails++ {
		v, err := try()
		switch {
		case err == nil || kafka.IsFatal(err):
			outage.Fine()
			return v, err
		case ctx.Err() != nil:
			return v, fmt.Errorf("%w: %w", ctx.Err(), err) // whatever it was, it is called off
		}
		switch {
		case fails >= pace.LogAfter && outage != nil && !kafka.Answered(err):
			outage.Failed(err)
		case !told.IsZero() && !time.Now().Before(told):
			told = time.Time{}
			log.Info(what, zap.Error(err))
		}
		if err := pace.Sleep(ctx, wait(fails, err)); err != nil {
			return v, err
		}
	}
}

// ToldAfter is how long a wait lasts before it is told. What passes sooner is how a
// young cluster begins.
const ToldAfter = 8 * time.Second
