package main

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// What a daemon waits for is in its log once in a minute, however often it looks.
func TestReminder(t *testing.T) {
	var r reminder
	var said []int
	start := time.Date(2026, 11, 21, 0, 0, 0, 0, time.UTC)
	for second := 0; second <= 130; second += 2 {
		if r.due(start.Add(time.Duration(second) * time.Second)) {
			said = append(said, second)
		}
	}
	if diff := cmp.Diff([]int{0, 60, 120}, said); diff != "" {
		t.Error(diff)
	}
}
