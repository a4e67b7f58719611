// SPDX-License-Identifier: Apache-2.0

package explain

import (
	"strings"
	"testing"
	"time"

	"github.com/berth-project/berth/pkg/compute"
)

func TestAmounts(t *testing.T) {
	for want, r := range map[string]compute.Resources{
		"":                                {},
		"1 processor":                     {compute.VCPU: 1},
		"2 GiB of memory":                 {compute.MemoryMB: 2048},
		"1025 MiB of memory":              {compute.MemoryMB: 1025},
		"10 GiB of disk and 2 processors": {compute.VCPU: 2, compute.DiskGB: 10},
		"1 CUSTOM_GPU, 10 GiB of disk and 2 processors": {compute.VCPU: 2, compute.DiskGB: 10, "CUSTOM_GPU": 1},
	} {
		if got := Amounts(r); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}

func TestSpan(t *testing.T) {
	for d, want := range map[time.Duration]string{
		-time.Second: "0s", 0: "0s", 12400 * time.Millisecond: "12s", time.Minute: "1m", 89 * time.Second: "1m",
		time.Hour: "1h0m", 3*time.Hour + 9*time.Minute + 40*time.Second: "3h10m",
	} {
		if got := span(d); got != want {
			t.Errorf("%s is %q, want %q", time.Duration(d), got, want)
		}
	}
}

// TestVerdictsInWords: how much is short on a host is said to those alone who may know.
func TestVerdictsInWords(t *testing.T) {
	for s, want := range map[Standing][2]string{
		TooSmall: {"is too small even when empty", ", by 1 processor"},
		Full:     {"has too little room", ": 1 processor short"},
	} {
		v := Verdict{Standing: s, Short: compute.Resources{compute.VCPU: 1}}
		if v.Says() != want[0] || v.says(true) != want[0]+want[1] {
			t.Errorf("%q and %q", v.Says(), v.says(true))
		}
	}
}

// TestWhyNotInWords: each standing has words of its own.
func TestWhyNotInWords(t *testing.T) {
	var c Counts
	for s := range standings {
		c[s] = uint32(s) + 1
	}
	a := Answer{Counts: c, Traits: []Unfit{{Trait: "CUSTOM_A"}, {Trait: "CUSTOM_B"}}}
	if got, want := strings.Join(a.laters(false), ", "),
		"12 full, 11 quarantined, 10 draining, 9 disabled, 8 with two agents of one name, 7 silent, "+
			"6 without the key of its user data, 5 that the rule of its group keeps it from"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
	if got, want := strings.Join(a.nevers(), ", "),
		"1 not the one that it is for, 2 that it avoids, 3 with the wrong traits "+
			"(CUSTOM_A, CUSTOM_B), 4 too small even when empty"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
	for want, c := range map[string]Counts{
		"": {Fits: 1, FailedThere: 1, Mistrusts: 1},
		"; attempts of it failed there, so it is left to others at first":       {FailedThere: 1},
		"; its image has failed there lately, so it is left to others at first": {Mistrusts: 1},
		"; attempts of it, or others with its image, failed there, so it is left to others at first": {
			FailedThere: 1, Mistrusts: 1},
	} {
		if got := (Answer{Counts: c}).reluctant(); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}
