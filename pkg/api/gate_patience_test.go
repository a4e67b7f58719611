package api

import (
	"testing"
	"time"
)

// A Kafka that has come back and is slow is asked more patiently from trial to
// trial, and as before once it has answered.
func TestTrialsGrowMorePatient(t *testing.T) {
	g, now := newGate("x", 10), time.Now()
	fail := func() {
		trial, err := g.enter(now)
		if err != nil {
			t.Fatal(err)
		}
		g.leave(now, trial, unanswered)
		now = now.Add(trialEvery)
	}
	fail() // no trial yet
	for _, want := range []time.Duration{1, 2, 4, 8, 8} {
		if got := g.patience(); got != want*trialTimeout {
			t.Errorf("%s, want %s", got, want*trialTimeout)
		}
		fail()
	}
	trial, err := g.enter(now)
	if err != nil {
		t.Fatal(err)
	}
	g.leave(now, trial, answered)
	if got := g.patience(); got != trialTimeout {
		t.Errorf("%s after an answer", got)
	}
}
