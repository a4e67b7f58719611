// SPDX-License-Identifier: Apache-2.0

package audit

import (
	"context"
	"net"
	"net/http"
	"regexp"
	"strings"
	"sync"
	"time"

	"github.com/google/uuid"

	"github.com/berth-project/berth/pkg/auth"
	"github.com/berth-project/berth/pkg/compute"
)

// call is one call of the API, from before its caller is known until it is answered:
//
//	begun ─▶ sent (beside its change, or before a yes without one) ─▶ ended
//	  └───────────────────────── refused: an entry of its own ─────────┘
type call struct {
	mu      sync.Mutex
	entry   compute.AuditEntry
	changes bool // a yes is written down; of reads only refusals are
	denied  bool // the caller may not, or is not known
	sent    bool // an entry that says yes was handed to Kafka
	lost    bool // and is not known to be there
	acted   bool // something was done that no record of Kafka tells of
}

type contextKey struct{}

// of is the call of a context; nil outside of one. note and due do nothing then.
func of(ctx context.Context) *call {
	c, _ := ctx.Value(contextKey{}).(*call)
	return c
}

// Caller notes the caller.
func Caller(ctx context.Context, p auth.Principal) {
	of(ctx).note(func(c *call) {
		c.entry.Who, c.entry.WhoID = p.Name, p.ID
		if how, _, ok := strings.Cut(p.Name, ":"); ok {
			c.entry.How = how
		}
	})
}

// Project notes whose the thing is that the call is about.
func Project(ctx context.Context, p compute.Project) {
	if p.Check() == nil && !secret(string(p)) {
		of(ctx).note(func(c *call) { c.entry.Project = p })
	}
}

// Target notes what the call is about, as in "host", "h1". What has not the shape of its kind is left out: it may be
// anything, a token too.
func Target(ctx context.Context, kind string, name interface{ Check() error }, text string) {
	if text == "" || name.Check() != nil || secret(text) {
		return
	}
	of(ctx).note(func(c *call) { c.entry.Target = kind + "/" + text })
}

// Kind notes the kind of the problem that is answered.
func Kind(ctx context.Context, kind string) {
	of(ctx).note(func(c *call) { c.entry.Kind = kind })
}

// Denied notes that the caller may not, whatever the answer's status says: an instance of another project is not found.
func Denied(ctx context.Context) { of(ctx).note(func(c *call) { c.denied = true }) }

// Acted notes that something was done already, outside of Kafka: an entry tells of the call however it is answered.
func Acted(ctx context.Context) { of(ctx).note(func(c *call) { c.acted = true }) }

func (c *call) note(change func(*call)) {
	if c == nil {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	change(c)
}

// due is the entry of a change that goes well; false if it went out before, or none is written.
func (c *call) due(now time.Time) (compute.AuditEntry, bool) {
	if c == nil {
		return compute.AuditEntry{}, false
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.changes || c.sent {
		return compute.AuditEntry{}, false
	}
	c.sent = true
	e := c.entry
	e.At, e.Kind = now, ""
	return e, true
}

// refused is the entry of a call that was answered with this status; false if there is none to write. One that must be
// written is left out for no bound: it corrects one that said yes, where the change failed beside it, or tells of what
// was done before the call failed.
func (c *call) refused(status int, now time.Time) (e compute.AuditEntry, must, ok bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	e = c.entry
	e.At, e.Status = now, int32(status)
	switch {
	case status < 400 || c.lost:
		return e, false, false
	case c.sent, c.acted:
		return e, true, true
	case c.changes:
		return e, false, status < 500
	}
	return e, false, c.denied || status == http.StatusUnauthorized || status == http.StatusForbidden
}

// secret says that a text begins as a secret does that somebody put in the wrong place.
func secret(text string) bool {
	return strings.HasPrefix(text, auth.TokenPrefix) || strings.HasPrefix(text, "eyJ")
}

// RequestHeader carries a request's id, in both directions.
const RequestHeader = "X-Request-Id"

var requestPattern = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._:-]{0,63}$`)

// RequestID is the id that a caller gave its request, or a new one if that is none.
func RequestID(given string) string {
	if requestPattern.MatchString(given) && !secret(given) {
		return given
	}
	return uuid.NewString()
}

// remote is the address without its port.
func remote(address string) string {
	if host, _, err := net.SplitHostPort(address); err == nil {
		return host
	}
	return address
}
