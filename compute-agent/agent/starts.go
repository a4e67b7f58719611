// SPDX-License-Identifier: Apache-2.0

package agent

import (
	"time"

	"go.uber.org/zap"

	"github.com/berth-project/berth/compute-agent/offer"
)

// images are the guards of images that failed here, by their names. An image that is
// broken on this host would keep it from all other work if it counted against the
// host, and would wear out the attempts of everybody who asks for it if it did not
// count at all.
type images map[string]offer.Guard

// mostImages bounds how many names are kept. With more of them than that the host
// begins to count anew.
const mostImages = 1000

// badImage counts a start that failed by the fault of an image as it lies here.
func (l *loop) badImage(image, why string) {
	if len(l.images) >= mostImages {
		clear(l.images)
	}
	now := time.Now()
	before := l.images[image]
	l.images[image] = before.Failed(why, l.o.Timing.Quarantine, now)
	if !before.Quarantined(now) && l.images[image].Quarantined(now) {
		l.log.Warn("an image fails here again and again: work with it is left to other hosts for a while",
			zap.String("image", image), zap.Time("until", l.images[image].Until), zap.String("the last", why))
	}
}

// mistrusts says whether work with an image is left to others.
func (l *loop) mistrusts(image string, now time.Time) bool { return l.images[image].Quarantined(now) }

// trust ends the quarantine of the host and of its images: the operator wants it to
// offer, and has mended what was wrong.
func (l *loop) trust(now time.Time) {
	if l.guard.Quarantined(now) {
		l.log.Info("the operator ends the quarantine", zap.String("it was for", l.guard.Reason),
			zap.Time("it was until", l.guard.Until))
	}
	l.guard = offer.Guard{}
	clear(l.images)
}
