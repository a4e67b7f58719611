// SPDX-License-Identifier: Apache-2.0

package ratelimit

import (
	"fmt"
	"testing"
	"time"
)

func TestEachKeyHasItsOwnBucket(t *testing.T) {
	now := time.Unix(0, 0)
	l := New(Options{PerSecond: 10, Now: func() time.Time { return now }})
	allowed := func(key string, times int) (n int) {
		for range times {
			if _, ok := l.Allow(key); ok {
				n++
			}
		}
		return n
	}
	if n := allowed("a", 1000); n != 20 {
		t.Errorf("a: %d at once, want twice the rate", n)
	}
	if n := allowed("b", 5); n != 5 {
		t.Errorf("b is held back by what a does: %d", n)
	}
	if wait, ok := l.Allow("a"); ok || wait != 100*time.Millisecond {
		t.Errorf("a waits %v, %t", wait, ok)
	}
	now = now.Add(500 * time.Millisecond)
	if n := allowed("a", 1000); n != 5 { // those that were refused have cost nothing
		t.Errorf("a after half a second: %d", n)
	}
}

// However many keys come, only so many are remembered: those used last.
func TestKeysAreBounded(t *testing.T) {
	l := New(Options{PerSecond: 1, Keys: 100, Now: func() time.Time { return time.Unix(0, 0) }})
	for range 2 {
		l.Allow("good")
	}
	for i := range 100_000 {
		l.Allow(fmt.Sprint(i))
		if _, ok := l.Allow("good"); ok {
			t.Fatalf("good was forgotten after %d others, though it comes all the time", i)
		}
		if l.Len() > 100 {
			t.Fatalf("%d keys after %d", l.Len(), i)
		}
	}
	if len(l.buckets) != l.Len() {
		t.Errorf("%d buckets for %d keys", len(l.buckets), l.Len())
	}
}

func TestNoLimit(t *testing.T) {
	l := New(Options{})
	for range 10_000 {
		if _, ok := l.Allow("a"); !ok {
			t.Fatal("refused")
		}
	}
	if l != nil || l.Len() != 0 || l.PerSecond() != 0 {
		t.Error("no limit remembers somebody")
	}
}

func TestAddress(t *testing.T) {
	for remote, want := range map[string]string{
		"192.0.2.1:1234": "192.0.2.1", "[::ffff:192.0.2.1]:1234": "192.0.2.1",
		"[2001:db8:1:2:3:4:5:6]:1": "2001:db8:1:2::/64", "[2001:db8:1:2:ffff::1]:2": "2001:db8:1:2::/64",
		"[fe80::1%eth0]:1": "fe80::/64", "192.0.2.1": "192.0.2.1", "pipe": "pipe", "": "",
	} {
		if got := Address(remote); got != want {
			t.Errorf("%q is %q, want %q", remote, got, want)
		}
	}
}
