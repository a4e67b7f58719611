// SPDX-License-Identifier: Apache-2.0

package loop

import (
	"testing"
	"time"

	"github.com/berth-project/berth/pkg/kafka"
)

// What was too large for a turn and comes again while turns are narrow is cut further, until it fits.
func TestTurnsStayNarrow(t *testing.T) {
	now := time.Unix(0, 0)
	w := newWidth(2000, 1500)
	const come, fit = 14, 3
	tries := 0
	for ; ; tries++ {
		if w.took = min(w.most, come); w.took <= fit {
			break
		}
		w.tooLarge(now)
		for range 100 { // smaller ones, before these come again
			now = now.Add(narrowFor / 400)
			w.took = 1
			w.fitted(now)
		}
	}
	if tries != 2 {
		t.Errorf("they fit after %d turns that did not", tries)
	}
	if most := w.most; most != fit {
		t.Errorf("then a turn takes %d", most)
	}
	if w.fitted(now.Add(narrowFor)); w.most != fit+1 {
		t.Errorf("later one takes %d", w.most)
	}
}

// As many as fit whatever they change are taken soon again.
func TestTurnsAreNotNarrowerThanNeeded(t *testing.T) {
	now := time.Unix(0, 0)
	w := newWidth(2000, kafka.MaxTurnBytes)
	w.took = 2
	w.tooLarge(now)
	for range 100 {
		w.fitted(now)
	}
	if w.most != 32 {
		t.Errorf("a turn takes %d", w.most)
	}
	for range 5000 {
		w.fitted(now.Add(narrowFor))
	}
	if w.most != 2000 {
		t.Errorf("later it takes %d", w.most)
	}
}
