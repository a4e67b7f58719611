// SPDX-License-Identifier: Apache-2.0

// Package client talks to an API node over HTTP. Every method takes a context,
// checks nothing the server checks, and answers a *compute.Error whose kind is
// the server's own.
//
// What is harmless to repeat is repeated when the server asks for it: everything
// that only reads, deletes of instances, quotas, and boots with an id of the
// caller's own.
package client

import (
	"bytes"
	"cmp"
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptrace"
	"net/url"
	"strings"
	"sync/atomic"
	"time"

	"github.com/berth-project/berth/pkg/compute"
	"github.com/berth-project/berth/pkg/wire/rest"
)

// The bodies, so that callers need one import.
type (
	Instance        = rest.Instance
	PowerAsked      = rest.PowerAsked
	Console         = rest.Console
	Flavor          = rest.FlavorView
	Capability      = rest.Capability
	Capabilities    = rest.Capabilities
	Limit           = rest.Limit
	NameRule        = rest.NameRule
	Meaning         = rest.Meaning
	Change          = rest.Change
	Quota           = rest.QuotaView
	QuotaChange     = rest.QuotaChange
	GroupChange     = rest.GroupChange
	Group           = rest.GroupView
	Reservation     = rest.ReservationView
	ReservationWish = rest.Reservation
	QuotaResource   = rest.QuotaResource
	Queue           = rest.QueueView
	Host            = rest.HostView
	HostAsked       = rest.HostAsked
	DeadHost        = rest.DeadHost
	HostDead        = rest.HostDead
	HostFate        = rest.HostFate
	HostCounts      = rest.HostCounts
	Reason          = rest.Reason
	State           = rest.State
	Caller          = rest.Caller
	Token           = rest.Token
	NewToken        = rest.NewToken
	TokenWish       = rest.TokenWish
	AuditEntry      = rest.AuditEntry
	Explanation     = rest.Explanation
	Failure         = rest.Failure
	Placement       = rest.Placement
	Placements      = rest.Placements
	Mix             = rest.Mix
	MixKind         = rest.MixKind
	QuotaStep       = rest.QuotaStep
	ToGo            = rest.ToGo
	GoingInstance   = rest.GoingInstance
	Capacity        = rest.Capacity
	CapacityBy      = rest.CapacityBy
	ValueCapacity   = rest.ValueCapacity
	Standings       = rest.Standings
	HostStanding    = rest.HostStanding
	Duration        = rest.Duration
	Event           = rest.Event
	Story           = rest.Story
	StoryStep       = rest.StoryStep
	Rejected        = rest.Rejected
	EventsGap       = rest.EventsGap
	PowerCommand    = rest.PowerCommand
	PowerAnswer     = rest.PowerAnswer
	Notice          = rest.Notice
)

// Config says where the API is and for which project to ask.
type Config struct {
	Address string          // "https://host:port" or "http://host:port", without a user; "host:port" means http
	TLS     TLS             // of https
	Project compute.Project // of every request about instances; empty: the server's default
	Token   string          // shown with every request; empty: none
	// TokenNow answers what is shown with a request instead of Token, each time one is sent, for tokens that are renewed
	// while the client is in use; nil: Token is shown. It may be called by many goroutines at once, and what it takes is
	// not part of Timeout.
	TokenNow func() string
	// Timeout is of one request with its answer; 0: only the context's. Of Events, which may be silent for long, it is of
	// the beginning of each answer, after a lost connection too; 0: 45 s.
	Timeout time.Duration
	// Patience is how long after its beginning a harmless call may be repeated,
	// when the server says when to come again (429, 503, 504 with Retry-After) or
	// the connection broke. 0: 10 s; negative: nothing is repeated.
	Patience time.Duration
	// Dial opens connections; nil dials the network, for 10 s at most.
	Dial func(ctx context.Context, network, address string) (net.Conn, error)
}

// Client talks to one API node. It may be used by many goroutines at once.
type Client struct {
	base     *url.URL
	project  compute.Project
	token    func() string
	shows    bool // a certificate of its own
	patience time.Duration
	http     *http.Client
}

// Pings find a connection over HTTP/2 whose path has gone silent. Without them it would be used again and again, until
// the kernel gives it up after a quarter of an hour: a request that is given up leaves its connection open.
func Pings() *http.HTTP2Config {
	return &http.HTTP2Config{SendPingTimeout: 15 * time.Second, PingTimeout: 15 * time.Second}
}

// New checks the address; it connects to nothing yet.
func New(c Config) (*Client, error) {
	address := c.Address
	if at := strings.LastIndex(address, "@"); at >= 0 { // also where it cannot be parsed: errors show the address
		return nil, compute.Invalid("api", address[at+1:],
			"leave out what is before the @: a token or a certificate says who calls")
	}
	if !strings.Contains(address, "://") {
		address = "http://" + address
	}
	base, err := url.Parse(address)
	if err != nil || base.Host == "" || base.Scheme != "http" && base.Scheme != "https" {
		return nil, compute.Invalid("api", c.Address, "give an address as in http://127.0.0.1:7070")
	}
	if c.Dial == nil {
		c.Dial = (&net.Dialer{Timeout: 10 * time.Second}).DialContext
	}
	secure, err := c.TLS.load()
	if err != nil {
		return nil, err
	}
	transport := &http.Transport{
		Proxy:               http.ProxyFromEnvironment,
		TLSClientConfig:     secure,
		ForceAttemptHTTP2:   true,
		DialContext:         c.Dial,
		MaxIdleConnsPerHost: 16,
		IdleConnTimeout:     90 * time.Second,
		HTTP2:               Pings(),
	}
	if c.Patience == 0 {
		c.Patience = defaultRetryFor
	}
	if c.TokenNow == nil {
		c.TokenNow = func() string { return c.Token }
	}
	return &Client{
		base:     base,
		project:  c.Project,
		token:    c.TokenNow,
		shows:    c.TLS.Cert != "",
		patience: c.Patience,
		http:     &http.Client{Transport: transport, Timeout: c.Timeout, CheckRedirect: noRedirect},
	}, nil
}

// noRedirect follows none: net/http makes a GET of what is redirected, so that a boot or a delete would read something
// and look as if it had been done.
func noRedirect(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }

// Close drops idle connections.
func (c *Client) Close() { c.http.CloseIdleConnections() }

// Project is the project that the client asks for.
func (c *Client) Project() compute.Project { return c.project }

// maxAnswer bounds what is read of an answer; a page of instances is far below.
const maxAnswer = 64 << 20

// call sends body as JSON, if there is one, and reads the answer into out. What
// is not a POST is repeated if that may help.
func (c *Client) call(ctx context.Context, method string, query url.Values, body, out any, path ...string) error {
	if method == http.MethodPost {
		return c.single(ctx, method, query, body, out, path...)
	}
	return c.harmless(ctx, method, query, body, out, path...)
}

// single is call for what must not be repeated.
func (c *Client) single(ctx context.Context, method string, query url.Values, body, out any, path ...string) error {
	return c.once(ctx, method, query, body, out, path).err
}

// harmless is call for what may be repeated.
func (c *Client) harmless(ctx context.Context, method string, query url.Values, body, out any, path ...string) error {
	return repeat(ctx, c.patience, func() attempt { return c.once(ctx, method, query, body, out, path) })
}

func (c *Client) once(ctx context.Context, method string, query url.Values, body, out any, path []string) attempt {
	op := strings.ToLower(method) + " " + strings.Join(path, "/")
	elements, err := escape(path)
	if err != nil {
		return attempt{err: err}
	}
	u := c.base.JoinPath(elements...) // #nosec G125 -- escape made them
	u.RawQuery = query.Encode()
	req, err := newRequest(ctx, method, u, body)
	if err != nil {
		return attempt{err: &compute.Error{Op: op, Kind: compute.KindInternal, Cause: err}}
	}
	c.signIn(req)
	var sent atomic.Bool // something that changes what there is
	changes := method != http.MethodGet && path[0] != "placements" && query.Get(dryParam) == ""
	if changes {
		heard := &httptrace.ClientTrace{WroteHeaders: func() { sent.Store(true) }}
		req = req.WithContext(httptrace.WithClientTrace(ctx, heard))
	}
	resp, err := c.http.Do(req)
	if err != nil {
		return attempt{err: c.unreachable(op, err, sent.Load()), again: brokeOff(err)}
	}
	defer func() { _ = resp.Body.Close() }() // reading is over: nothing can be lost
	data, err := io.ReadAll(io.LimitReader(resp.Body, maxAnswer))
	if err != nil {
		return attempt{err: c.unreachable(op, err, sent.Load()), again: brokeOff(err)}
	}
	if resp.StatusCode >= 300 {
		after, again := asksToRepeat(resp)
		err := problem(resp, data)
		if changes && resp.StatusCode == http.StatusBadGateway && rest.IsForeign(err) {
			err = brokenBehind(op, err)
		}
		return attempt{err: err, again: again, after: after}
	}
	if out == nil {
		return attempt{}
	}
	if err := json.Unmarshal(data, out); err != nil {
		return attempt{err: rest.Foreign(resp.StatusCode)}
	}
	return attempt{}
}

// signIn shows the token with a request, if there is one.
func (c *Client) signIn(req *http.Request) {
	if token := c.token(); token != "" {
		req.Header.Set("Authorization", "Bearer "+token)
	}
}

func newRequest(ctx context.Context, method string, u *url.URL, body any) (*http.Request, error) {
	var r io.Reader
	if body != nil {
		data, err := json.Marshal(body)
		if err != nil {
			return nil, err
		}
		r = bytes.NewReader(data)
	}
	req, err := http.NewRequestWithContext(ctx, method, u.String(), r)
	if err != nil {
		return nil, err
	}
	if k, ok := body.(keyed); ok {
		req.Header.Set("Idempotency-Key", k.key)
	}
	req.Header.Set("Accept", "application/json")
	if body != nil {
		req.Header.Set("Content-Type", "application/json")
	}
	return req, nil
}

// problem is the error in an answer.
func problem(resp *http.Response, data []byte) error {
	if speaksTLS(resp, data) {
		return &compute.Error{
			Kind: compute.KindInvalid, Field: "api", Value: resp.Request.URL.Host, Message: "it speaks TLS only",
			Remedy: "use https:// in --api or BERTH_API",
		}
	}
	if to, err := resp.Location(); err == nil && resp.StatusCode < 400 {
		e := rest.Foreign(resp.StatusCode)
		e.Kind, e.Field, e.Value = compute.KindInvalid, "api", resp.Request.URL.Host
		e.Message = "it redirects to " + to.Scheme + "://" + to.Host + ", and nothing was done"
		e.Remedy = "give the address of the API itself in --api or BERTH_API"
		return e
	}
	var p rest.Problem
	if err := json.Unmarshal(data, &p); err != nil || p.Kind == "" && p.Detail == "" {
		return rest.Foreign(resp.StatusCode)
	}
	if p.Status == 0 {
		p.Status = resp.StatusCode
	}
	return p.Compute()
}

// unreachable classifies what kept an answer from coming. What was sent and changes something may have arrived: then
// nobody knows whether it was done, as after a time-out.
func (c *Client) unreachable(op string, err error, sent bool) error {
	e := &compute.Error{Op: op, Kind: compute.KindUnavailable, Cause: err}
	var timeout net.Error
	var alert tls.AlertError
	sent = sent && !errors.As(err, &alert) // the other end has refused the connection
	trust := ""
	if c.shows && c.base.Scheme == "https" { // HTTP/2 hides what the other end said of it
		trust = "; does it trust the certificate of --cert?"
	}
	switch {
	case errors.Is(err, context.Canceled) && !sent:
		e.Message = "was called off"
	case errors.Is(err, context.Canceled):
		e.Message, e.Remedy = "was called off, and may be done all the same", lookFirst
	case errors.Is(err, context.DeadlineExceeded) || errors.As(err, &timeout) && timeout.Timeout():
		e.Kind, e.Message = compute.KindTimeout, "the API at "+c.base.String()+" did not answer in time"
	case sent:
		e.Kind, e.Message = compute.KindTimeout, "the API at "+c.base.String()+" went away before it answered"
		e.Remedy = lookFirst + trust
	default:
		e.Message = "cannot reach the API at " + c.base.String()
		e.Remedy = cmp.Or(distrust(err), "is an API node running there? Set --api or BERTH_API") + trust
	}
	return e
}

// brokenBehind is the error of a change to which a proxy answers that its connection to a node broke: the request may
// have been sent on it.
func brokenBehind(op string, said error) error {
	const message = "the API went away before it answered"
	return &compute.Error{Op: op, Kind: compute.KindTimeout, Message: message, Remedy: lookFirst, Cause: said}
}

const lookFirst = "it is not known whether the request arrived: look before you repeat it"

// escape keeps what a person typed from becoming another path: a name with a
// slash is one element, and a name that would vanish names nothing.
func escape(path []string) ([]string, error) {
	out := make([]string, 0, len(path)+1)
	out = append(out, "v1")
	for _, p := range path {
		if p == "" || p == "." || p == ".." {
			return nil, compute.NotFound(strings.TrimSuffix(path[0], "s"), p, "give its name")
		}
		out = append(out, url.PathEscape(p))
	}
	return out, nil
}

// scoped is a query that names the project.
func (c *Client) scoped() url.Values {
	q := url.Values{}
	if c.project != "" {
		q.Set("project", string(c.project))
	}
	return q
}
