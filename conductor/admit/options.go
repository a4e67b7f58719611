// SPDX-License-Identifier: Apache-2.0

package admit

import (
	"time"

	"github.com/berth-project/berth/pkg/compute"
)

// Options are the protocol's times and bounds. All must be positive.
type Options struct {
	RetryFirst      time.Duration // before the second attempt is published; doubles with each failure …
	RetryMax        time.Duration // … up to this
	NoCapacityAfter time.Duration // on_no_capacity fail: unclaimed this long is an error
	RepublishAfter  time.Duration // unclaimed this long, work may be lost; doubles with each publication …
	RepublishMax    time.Duration // … up to this …
	RepublishPassed time.Duration // … or this, if it is known to have left its queue
	AskEvery        time.Duration // how often at most one queue's start offset is asked
	RepeatEvery     time.Duration // how often an unanswered command is said again
	SilentAfter     time.Duration // a host not heard this long is silent
	// an agent not heard this long, which is two beacons, has perhaps been replaced by another process
	QuietAfter time.Duration
	// how long a member of a group with a soft policy waits for a host that keeps it
	SoftGroupFor time.Duration
	GroupNext    time.Duration // after how long without a claim another member of an affinity group is published
	GroupEvery   time.Duration // how often a group that waits for hosts looks whether there are more
	GroupWindow  int           // members of one slot that are offered to the host of an affinity group at a time
	// A set that has claims, and no new one for this long, gives them back, and leaves the room to others for about as
	// long; with each try it waits half as long again, up to SetTry, and pauses twice as long, up to SetPauseMax.
	SetPatience time.Duration
	SetTry      time.Duration // how long a try lasts at most
	SetAsk      time.Duration // a host that has not repeated a claim of a set for so long is asked whether it has it
	SetPauseMax time.Duration
	// Of each project so many builds are in one queue, and so many more for each host that would take one now; see share.
	ShareLeast    int
	SharePerHost  int
	ShareEvery    time.Duration // how often a project that has more is looked at
	SharePatience int           // after as many looks without a claim more are published; doubles each time
	ReserveLead   time.Duration // so long before a reservation begins hosts begin to hold room for it
	KeepEnded     time.Duration // a deleted or failed record stays this long; at least the retention of requests
	MaxEnded      int           // of a project as many that have ended stay, the newest
	MaxFences     int           // of as many hosts that have nothing here the epoch of a fence is kept, the newest
}

// Defaults are the times of the protocol.
func Defaults() Options {
	return Options{
		RetryFirst:      time.Second,
		RetryMax:        30 * time.Second,
		NoCapacityAfter: compute.NoCapacityAfter,
		RepublishAfter:  30 * time.Second,
		RepublishMax:    5 * time.Minute,
		RepublishPassed: time.Minute,
		QuietAfter:      compute.SilentAfter / 2,
		AskEvery:        10 * time.Second,
		RepeatEvery:     15 * time.Second,
		SilentAfter:     compute.SilentAfter,
		SoftGroupFor:    10 * time.Second,
		GroupNext:       5 * time.Second,
		GroupEvery:      2 * time.Second,
		GroupWindow:     16,
		SetPatience:     15 * time.Second,
		SetTry:          compute.SetTry,
		SetAsk:          25 * time.Second, // two repetitions, and half of one
		SetPauseMax:     5 * time.Minute,
		ShareLeast:      compute.UsualShare, SharePerHost: 4, ShareEvery: time.Second, SharePatience: 5,
		ReserveLead: 10 * time.Minute,
		KeepEnded:   15 * 24 * time.Hour,
		MaxEnded:    10_000,
		MaxFences:   10_000,
	}
}

// retry is how long the work waits after that many failures, from 1.
func (o Options) retry(failures int) time.Duration {
	return double(o.RetryFirst, failures-1, o.RetryMax)
}

// republish is how long a publication may go unclaimed after that many earlier ones.
func (o Options) republish(again int) time.Duration {
	return double(o.RepublishAfter, again, o.RepublishMax)
}

func double(d time.Duration, times int, most time.Duration) time.Duration {
	for ; times > 0 && d < most; times-- {
		d *= 2
	}
	return min(d, most)
}
