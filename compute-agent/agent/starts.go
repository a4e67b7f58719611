// SPDX-License-Identifier: Apache-2.0

package agent

import (
	"slices"
	"time"

	"go.uber.org/zap"

	"github.com/berth-project/berth/compute-agent/offer"
	"github.com/berth-project/berth/pkg/compute"
)

// starts are how starts of machines went here lately: of the host, and of each image. What fails again and
// again is quarantined (offer.Guard): the host offers nothing then, or leaves work with that image to others.
//
// An image has a guard of its own because one that is broken on this host would keep it from all other work
// if it counted against the host, and would wear out the attempts of everybody that asks for it if it did not
// count at all.
type starts struct {
	first  time.Duration // how long the first quarantine lasts
	log    *zap.Logger
	host   offer.Guard
	images map[string]offer.Guard // by name
}

// mostImages bounds how many names are kept. With more of them than that the host
// begins to count anew.
const mostImages = 1000

func newStarts(host offer.Guard, first time.Duration, log *zap.Logger) starts {
	return starts{first: first, log: log, host: host, images: map[string]offer.Guard{}}
}

// prepared forgets that an image failed: it works.
func (s *starts) prepared(image string) { delete(s.images, image) }

// launched forgets that the host failed, and says whether it had.
func (s *starts) launched() bool {
	had := s.host.Fails > 0
	if had {
		s.host = s.host.Succeeded()
	}
	return had
}

// failed counts a start that failed by the fault of the host.
func (s *starts) failed(why string, now time.Time) { s.host = s.host.Failed(why, s.first, now) }

// imageFailed counts a start that failed by the fault of an image as it lies here.
func (s *starts) imageFailed(image, why string, now time.Time) {
	if len(s.images) >= mostImages {
		clear(s.images)
	}
	before := s.images[image]
	s.images[image] = before.Failed(why, s.first, now)
	if !before.Quarantined(now) && s.images[image].Quarantined(now) {
		s.log.Warn("an image fails here again and again: work with it is left to other hosts for a while",
			zap.String("image", image), zap.Time("until", s.images[image].Until), zap.String("the last", why))
	}
}

// mistrusts says whether work with an image is left to others.
func (s *starts) mistrusts(image string, now time.Time) bool { return s.images[image].Quarantined(now) }

// mistrusted are the images with which work is left to others, by name; of many only so many as a beacon names.
func (s *starts) mistrusted(now time.Time) (images []string) {
	for image := range s.images {
		if s.mistrusts(image, now) && len(image) <= compute.MaxNameLength { // what is longer no beacon names
			images = append(images, image)
		}
	}
	slices.Sort(images)
	return images[:min(len(images), compute.MaxMistrusts)]
}

// trust ends the quarantine of the host and of its images: the operator wants it to
// offer, and has mended what was wrong.
func (s *starts) trust(now time.Time) {
	if s.host.Quarantined(now) {
		s.log.Info("the operator ends the quarantine", zap.String("it was for", s.host.Reason),
			zap.Time("it was until", s.host.Until))
	}
	s.host = offer.Guard{}
	clear(s.images)
}
