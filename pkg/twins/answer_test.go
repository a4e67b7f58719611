// SPDX-License-Identifier: Apache-2.0

package twins

import (
	"strings"
	"testing"
	"time"

	"github.com/berth-project/berth/pkg/compute"
)

// answers is what the agents of a host are told, one word for each beacon. Beacons come one a second; a
// number before one is how many seconds later it comes, "a?" asks, "a?b" was told of b, "a." is a's last,
// and "|" is the end of the log when the watch began.
func answers(t *testing.T, said string) string {
	t.Helper()
	var w Watch
	var out []string
	now, past := epoch, strings.Contains(said, "|")
	for _, word := range strings.Fields(said) {
		if word == "|" {
			past = false
			continue
		}
		wait := time.Second
		if head := strings.TrimRight(word, "abcABC?."); head != "" {
			more, err := time.ParseDuration(head + "s")
			if err != nil {
				t.Fatal(err)
			}
			wait, word = more, word[len(head):]
		}
		now = now.Add(wait)
		by := voiceOf(word[:1])
		b := beaconOf("h", by)
		b.Asks, b.Leaves = strings.Contains(word, "?"), strings.HasSuffix(word, ".")
		if _, beside, ok := strings.Cut(strings.TrimSuffix(word, "."), "?"); ok && beside != "" {
			b.Beside = voiceOf(beside)
		}
		told := "-"
		if several := w.Observe(b, past, now); several != nil {
			told = "twins"
		} else if b.Asks && !b.Leaves && !past {
			op := w.Answer("h", by, now)
			if told = op.String(); op == compute.CommandBegun {
				w.Called("h", by, now)
			}
		}
		out = append(out, told)
	}
	return strings.Join(out, " ")
}

func TestAnswers(t *testing.T) {
	for said, want := range map[string]string{
		"a? a a a. b? b":           "alone - - - alone -",                   // stopped, and started again
		"a? a A? 5A? 5A? A":        "alone - begun none alone -",            // killed, and started again
		"a? a 70A?":                "alone - begun",                         // long after; nobody knows of what was not heard
		"a? a b? 5b? 55b?":         "alone - begun none alone",              // its journal was lost, or its disk copied without it
		"a? a b? a?b b?a":          "alone - begun begun twins",             // a copied disk: each was told of the other
		"a? a b? a?b b?a a?b. 9b?": "alone - begun begun twins - alone",     // the first one ends
		"a? a b? a 5b? 5b? 55b?":   "alone - begun - none none alone",       // the other does not hear, and is silent at last
		"a? a b? 3a 5b? 5b? a 5b?": "alone - begun - none none twins twins", // … or not: they take turns
		"a? a a. b? A?":            "alone - - alone begun",                 // two copies of a disk that was at rest
		"a? a b? a?b. 5b? 5b?":     "alone - begun - none alone",            // the first one ends as it is told
		"a? b? a?b b? a?b":         "alone begun begun none twins",          // b was never told: that they take turns says it, too
		"a? a b? b?. a?b 5a?":      "alone - begun - alone alone",           // b is gone again
		"a. b? | b?":               "- - alone",                             // what came between would be left if the older is
		"a. | b?":                  "- alone",                               // the watch has just begun
		"a | b? 9b? 55b?":          "- begun none alone",                    //
		"a | A? 9A?":               "- begun alone",                         //
		"b? | b? 9b?":              "- begun alone",                         // it has not seen which agent was there before b
		"a?. | b? 9b?":             "- begun alone",                         // a did not know whether it was alone
		"a? a. b? b b. A?":         "alone - alone - - alone",               //
		"a? 9A? 5A? 5A? a?A A?a":   "alone begun none alone begun twins",    // a was not heard for too long
	} {
		if got := answers(t, said); got != want {
			t.Errorf("%s:\n got %s\nwant %s", said, got, want)
		}
	}
}

// An agent that goes on asking is told of again: an agent that began meanwhile has not heard of it.
func TestCalledAgain(t *testing.T) {
	want := "alone - begun begun none begun twins twins"
	if got := answers(t, "a? a b? a?b 10b? 10b? a?b 10b?"); got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}

func TestAnswerToWhomNobodyKnows(t *testing.T) {
	var w Watch
	w.Called("h", voiceOf("a"), epoch)
	if op := w.Answer("h", voiceOf("a"), epoch); op != compute.CommandNone {
		t.Error(op)
	}
	w.Observe(beaconOf("h", voiceOf("b")), false, epoch)
	if w.Called("h", voiceOf("a"), epoch); w.Answer("h", voiceOf("a"), epoch) != compute.CommandNone {
		t.Error("answered to a voice that was never heard")
	}
}
