// SPDX-License-Identifier: Apache-2.0

package audit

import (
	"context"
	"fmt"
	"net/http"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/zap"

	"github.com/berth-project/berth/pkg/compute"
	"github.com/berth-project/berth/pkg/ratelimit"
	"github.com/berth-project/berth/pkg/wire"
)

// Publisher makes records safe, as api.Publisher does.
type Publisher interface {
	Send(ctx context.Context, recs ...wire.Record) error
	Append(ctx context.Context, rec wire.Record) (offset int64, err error)
}

// How many entries of refusals a node writes a second; twice as many at once after a pause. What strangers send is
// bounded apart from what callers send that are known, so that the first cannot hide the second. A node under attack
// for 90 days writes about 20 GB.
const (
	strangerRate  = 2 // of one address
	strangersRate = 10
	callerRate    = 20 // of one principal
	callersRate   = 100
	// openRefusals is how many refusals may wait for Kafka at once, each for refusalTime.
	openRefusals = 64
	refusalTime  = 2 * time.Second
)

// Options of a Log.
type Options struct {
	To      Publisher // required
	Topics  wire.Topics
	Node    string           // what this node is called
	Timeout time.Duration    // of the entry of a change; 0: 20 s
	Now     func() time.Time // what entries are dated by; nil: the machine's clock
	Pace    func() time.Time // the clock of the bounds; nil: the machine's
	Log     *zap.Logger      // nil: none
	Metrics prometheus.Registerer
}

// Log is the audit of one node. A nil *Log writes nothing. It may be used by many goroutines at once.
type Log struct {
	o                    Options
	strangers, callers   *ratelimit.Limiter // by address, by principal
	allStrangers, allOur *ratelimit.Limiter // all of them together
	open                 chan struct{}      // holds one for each refusal that waits for Kafka
	leftOut              atomic.Uint64      // since the last entry of a refusal
	metrics              *metrics
}

// New makes the audit of a node.
func New(o Options) *Log {
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.Log == nil {
		o.Log = zap.NewNop()
	}
	if o.Timeout == 0 {
		o.Timeout = 20 * time.Second
	}
	limit := func(n int) *ratelimit.Limiter { return ratelimit.New(ratelimit.Options{PerSecond: n, Now: o.Pace}) }
	return &Log{
		o: o, strangers: limit(strangerRate), allStrangers: limit(strangersRate), callers: limit(callerRate),
		allOur: limit(callersRate), open: make(chan struct{}, openRefusals), metrics: newMetrics(o.Metrics),
	}
}

// Begin begins a call. changes says that a yes, answered with status, is to be written down too.
func (l *Log) Begin(
	ctx context.Context, r *http.Request, id, operation string, changes bool, status int,
) context.Context {
	if l == nil {
		return ctx
	}
	return context.WithValue(ctx, contextKey{}, &call{changes: changes, entry: compute.AuditEntry{
		Node: l.o.Node, Request: id, Operation: operation, Remote: remote(r.RemoteAddr), Status: int32(status),
	}})
}

// Settle returns once the entry of a change that went well is safe: at once if it went out beside the change.
func (l *Log) Settle(ctx context.Context) error {
	if l == nil {
		return nil
	}
	c := of(ctx)
	e, ok := c.due(l.o.Now())
	if !ok {
		return nil
	}
	return l.keep(context.WithoutCancel(ctx), c, e)
}

// keep writes the entry of a change.
func (l *Log) keep(ctx context.Context, c *call, e compute.AuditEntry) error {
	ctx, cancel := context.WithTimeout(ctx, l.o.Timeout)
	defer cancel()
	err := l.o.To.Send(ctx, l.record(e))
	if err == nil {
		l.metrics.count("written")
		return nil
	}
	l.metrics.count("failed")
	c.note(func(c *call) { c.lost = true })
	l.o.Log.Error("the audit entry of a change may be missing", zap.String("operation", e.Operation),
		zap.String("request", e.Request), zap.String("who", e.Who), zap.Error(err))
	// The cause stays text: a caller that asks with errors.As what became of the change must not find this one.
	return &compute.Error{
		Op: "publish", Kind: compute.KindTimeout,
		Message: "it is not known whether the request and its audit entry were kept",
		Remedy:  "look whether it was, or repeat it", Cause: fmt.Errorf("write the audit: %v", err),
	}
}

// End writes the entry of a call that was answered with this status, if it was refused. It returns within two seconds.
func (l *Log) End(ctx context.Context, status int) {
	c := of(ctx)
	if l == nil || c == nil {
		return
	}
	e, must, ok := c.refused(status, l.o.Now())
	if !ok {
		return
	}
	if !must && !l.allowed(e) {
		l.omit()
		return
	}
	select {
	case l.open <- struct{}{}:
		defer func() { <-l.open }()
	default:
		l.omit()
		return
	}
	e.LeftOut = l.leftOut.Swap(0)
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), refusalTime)
	defer cancel()
	if err := l.o.To.Send(ctx, l.record(e)); err != nil {
		l.leftOut.Add(e.LeftOut)
		l.omit()
		l.o.Log.Warn("no audit entry was written of a refusal", zap.String("operation", e.Operation), zap.Error(err))
		return
	}
	l.metrics.count("written")
}

// allowed says whether one more refusal of this caller may be written.
func (l *Log) allowed(e compute.AuditEntry) bool {
	one, all, key := l.callers, l.allOur, e.WhoID
	if key == "" {
		one, all, key = l.strangers, l.allStrangers, ratelimit.Address(e.Remote)
	}
	if _, ok := one.Allow(key); !ok {
		return false
	}
	_, ok := all.Allow("all")
	return ok
}

func (l *Log) omit() {
	l.leftOut.Add(1)
	l.metrics.count("left_out")
}

func (l *Log) record(e compute.AuditEntry) wire.Record {
	return wire.EncodeAudit(e).To(l.o.Topics.Audit(), 0)
}
