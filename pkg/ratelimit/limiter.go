// SPDX-License-Identifier: Apache-2.0

// Package ratelimit bounds how often each of many callers may do something, in bounded memory.
package ratelimit

import (
	"container/list"
	"net"
	"net/netip"
	"strconv"
	"sync"
	"time"

	"golang.org/x/time/rate"
)

// Keys is how many callers a Limiter remembers when New is told nothing else. Each takes about
// 300 bytes.
const Keys = 10_000

// Limiter has a token bucket for each key. It remembers the keys that were used last; one that
// comes back after it was forgotten begins with a full bucket. So a caller with more keys than are
// remembered is not held back: what bounds all callers together has to be somewhere else.
// A nil Limiter allows everything. It may be used by many goroutines at once.
type Limiter struct {
	perSecond int
	most      int
	now       func() time.Time

	mu      sync.Mutex
	buckets map[string]*list.Element
	recent  *list.List // of *bucket; the one used last is in front
}

type bucket struct {
	key    string
	tokens *rate.Limiter
}

// Options of a Limiter.
type Options struct {
	PerSecond int              // of each key, with twice as many at once after a pause; 0: no limit
	Keys      int              // most keys that are remembered; 0: Keys
	Now       func() time.Time // default time.Now
}

// New makes a Limiter; nil, which allows everything, where there is no limit.
func New(o Options) *Limiter {
	if o.PerSecond <= 0 {
		return nil
	}
	if o.Keys <= 0 {
		o.Keys = Keys
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	return &Limiter{
		perSecond: o.PerSecond, most: o.Keys, now: o.Now, buckets: map[string]*list.Element{}, recent: list.New(),
	}
}

// Allow takes one token of the key's, or says after how long there is one.
func (l *Limiter) Allow(key string) (wait time.Duration, ok bool) {
	if l == nil {
		return 0, true
	}
	now := l.now()
	taken := l.bucket(key).ReserveN(now, 1)
	if wait = taken.DelayFrom(now); wait == 0 {
		return 0, true
	}
	taken.CancelAt(now)
	return wait, false
}

// PerSecond is the limit of each key; 0: none.
func (l *Limiter) PerSecond() int {
	if l == nil {
		return 0
	}
	return l.perSecond
}

// Len is how many keys are remembered.
func (l *Limiter) Len() int {
	if l == nil {
		return 0
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.recent.Len()
}

func (l *Limiter) bucket(key string) *rate.Limiter {
	l.mu.Lock()
	defer l.mu.Unlock()
	if e, ok := l.buckets[key]; ok {
		l.recent.MoveToFront(e)
		return e.Value.(*bucket).tokens
	}
	for l.recent.Len() >= l.most {
		oldest := l.recent.Back()
		delete(l.buckets, oldest.Value.(*bucket).key)
		l.recent.Remove(oldest)
	}
	b := &bucket{key, rate.NewLimiter(rate.Limit(l.perSecond), 2*l.perSecond)}
	l.buckets[key] = l.recent.PushFront(b)
	return b.tokens
}

// Seconds is a wait for the header Retry-After: whole seconds, and enough of them.
func Seconds(wait time.Duration) string {
	return strconv.Itoa(int((wait + time.Second - 1) / time.Second))
}

// Address is the key of a caller's address, host:port: an IPv4 address, or the first 64 bits of an
// IPv6 address, since one machine has all that begin with them.
func Address(remote string) string {
	host, _, err := net.SplitHostPort(remote)
	if err != nil {
		host = remote
	}
	ip, err := netip.ParseAddr(host)
	if err != nil {
		return host
	}
	if ip = ip.Unmap(); ip.Is4() {
		return ip.String()
	}
	network, err := ip.WithZone("").Prefix(64)
	if err != nil {
		return host
	}
	return network.String()
}
