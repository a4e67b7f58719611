// SPDX-License-Identifier: Apache-2.0

package twins

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/berth-project/berth/pkg/compute"
)

var epoch = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)

// voiceOf is a process by its letter: a and A have one journal, and A began later.
func voiceOf(letter string) compute.Voice {
	v := compute.Voice{Journal: compute.JournalID(strings.ToLower(letter)), Started: epoch}
	if letter != strings.ToLower(letter) {
		v.Started = epoch.Add(time.Hour)
	}
	return v
}

func beaconOf(id compute.HostID, by compute.Voice) compute.Beacon {
	return compute.Beacon{Host: id, Journal: by.Journal, Started: by.Started}
}

// heard is which processes speak for a host after beacons, one every five seconds; a dot is
// five seconds without any.
func heard(beacons string) string {
	var w Watch
	now := epoch
	for _, b := range beacons {
		now = now.Add(5 * time.Second)
		if b != '.' && b != ' ' {
			w.Observe(beaconOf("h", voiceOf(string(b))), false, now)
		}
	}
	var out string
	for _, v := range w.Of("h", now) {
		letter := string(v.Journal)
		if !v.Started.Equal(epoch) {
			letter = strings.ToUpper(letter)
		}
		out += letter
	}
	if all := w.All(now); (len(all) > 0) != (out != "") {
		return "All says something else"
	}
	return out
}

func TestTwins(t *testing.T) {
	for beacons, want := range map[string]string{
		"aaaaaa":                   "",
		"aaabbb":                   "", // a journal was lost
		"aaaAAA":                   "", // the agent was started again
		"aaababbbb":                "", // and a beacon of before came late
		"aaabaabbbb":               "", // or two
		"aabababa":                 "ab",
		"aaBaBaB":                  "aB",
		"BBaBaBa":                  "aB", // what began last is last, whichever was heard first
		"aAaAaA":                   "aA", // the journal was copied as well
		"aabababbbbbbbbb":          "ab", // a has just gone
		"aabababbbbbbbbbbbbbb":     "",   // and now it is certain
		"aababa..............":     "",
		"aababa..............baba": "", // each began anew
		"abcabcabc":                "abc",
		"aaabBbBb":                 "bB", // a journal was lost, and the disk copied soon after
		"aaababBbBb":               "bB", // and a beacon of before came late
		"aababa...........":        "",   // b is silent, a not yet
		"ab..........aba":          "",   // each was silent for a minute, to the second
		"abca":                     "",   // late, and b and c may be one, started again
		"ababac":                   "ab", // c may be what a has become
		"abacabcbbbbbbbbbb":        "",   // of a nobody knows any more, and b was heard beside c once
		"aaba bbbbbbbbbbbbba":      "",
		"abaca..bc.....bc..":       "", // what tells of b and c is silent itself
		"abaaaaaaaaaaaaaaca":       "", // b has gone for long, and a beacon came late
		// One of two has gone for long: the other is started again, and nobody else is there.
		"aabababaaaaaaaaaaaaaac": "",
		"aabababbbbbbbbbbbbbbbc": "",
	} {
		if got := heard(beacons); got != want {
			t.Errorf("%s: %q, want %q", beacons, got, want)
		}
	}
	var w Watch
	if w.Of("h", epoch) != nil || w.All(epoch) != nil {
		t.Error("a host that was never heard has twins")
	}
	for i := range 6 {
		w.Observe(beaconOf("h", voiceOf([]string{"a", "b"}[i%2])), false, epoch)
	}
	if w.Of("h", epoch) == nil {
		t.Fatal("twins are not seen")
	}
	if w.Of("h", epoch.Add(compute.SilentAfter)) != nil {
		t.Error("twins that are silent are twins")
	}
	if w.Forget("h"); w.Of("h", epoch) != nil {
		t.Error("a host that was forgotten has twins")
	}
}

// TestClocksOfHostsDoNotCount: which agent began last is known by the log's clock, whichever is heard first. Of an agent
// of an older version there is only what its host's clock said.
func TestClocksOfHostsDoNotCount(t *testing.T) {
	const long = 24 * time.Hour
	for _, c := range []struct {
		what       string
		a, b       time.Duration // for how long they have run when they are heard first; 0: of an older version
		aSays      time.Duration // how long before epoch a has begun, as its host's clock has it; b says epoch
		first, end string
	}{
		{"a's clock is ahead", 3 * time.Hour, time.Second, -long, "a", "ab"},
		{"and b is heard first", 3 * time.Hour, time.Second, -long, "b", "ab"},
		{"a's clock is behind", time.Second, 3 * time.Hour, long, "a", "ba"},
		{"and b is heard first", time.Second, 3 * time.Hour, long, "b", "ba"},
		{"a is older, its clock is right", 0, time.Second, long, "a", "ab"},
		{"a is older, its clock is ahead", 0, time.Second, -long, "a", "ba"},
	} {
		var w Watch
		a, b := voiceOf("a"), voiceOf("b")
		a.Started = epoch.Add(-c.aSays)
		now := epoch
		var of []compute.Voice
		for i := range 8 {
			is, age := a, c.a
			if (i%2 == 0) != (c.first == "a") {
				is, age = b, c.b
			}
			x := beaconOf("h", is)
			if now = now.Add(time.Second); age > 0 {
				x.Age = age + now.Sub(epoch)
			}
			x.At = now
			of = w.Observe(x, false, now)
		}
		var order string
		for _, v := range of {
			order += string(v.Journal)
		}
		if order != c.end {
			t.Errorf("%s: %q, want %q", c.what, order, c.end)
		}
	}
}

func TestAllAreSorted(t *testing.T) {
	var w Watch
	for _, id := range "fbadceg" {
		for _, letter := range "ababab" {
			w.Observe(beaconOf(compute.HostID(id), voiceOf(string(letter))), false, epoch)
		}
	}
	if all := w.All(epoch); len(all) != 7 || !slices.IsSorted(all) {
		t.Error(all)
	}
}
