// SPDX-License-Identifier: Apache-2.0

package forward

import (
	"bytes"
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/berth-project/berth/pkg/compute"
	"github.com/berth-project/berth/pkg/service"
)

// How batches are posted.
const (
	mostEvents   = 100              // of one batch
	patience     = 30 * time.Second // for one answer
	firstPause   = time.Second      // after the first failure; then twice as long each time
	longestPause = 5 * time.Minute
	leastSecret  = 24       // bytes
	mostSaid     = 200      // bytes of a refusal that are repeated
	secretMark   = "whsec_" // of a secret in Base64, as Standard Webhooks writes them
)

// The headers of a signed request, as Standard Webhooks names them.
const (
	headerID        = "Webhook-Id"
	headerTimestamp = "Webhook-Timestamp"
	headerMAC       = "Webhook-Signature"
)

// ParseSecret reads what batches are signed with: "whsec_" and Base64, as libraries for Standard Webhooks take it, or any
// other text, whose bytes are the key.
func ParseSecret(field string, text []byte) ([]byte, error) {
	secret := bytes.TrimSpace(text)
	if coded, is := bytes.CutPrefix(secret, []byte(secretMark)); is {
		plain, err := base64.StdEncoding.DecodeString(string(coded))
		if err != nil {
			return nil, compute.Invalid(field, secretMark+"…", "give Base64 behind "+secretMark)
		}
		secret = plain
	}
	if len(secret) < leastSecret {
		return nil, compute.Invalid(field, fmt.Sprintf("%d bytes", len(secret)),
			fmt.Sprintf("give at least %d bytes, as in whsec_ and what head -c 32 /dev/urandom | base64 prints", leastSecret))
	}
	return secret, nil
}

// endpoint is where batches go.
type endpoint struct {
	url    string
	name   string // what it is called in the log: an address may have a secret in its path
	secret []byte
	http   *http.Client
	say    func(format string, args ...any)
}

func newEndpoint(o Options) *endpoint {
	e := &endpoint{url: o.To, name: "the receiver", secret: o.Secret, http: o.HTTP, say: o.Say}
	if u, err := url.Parse(o.To); err == nil && u.Host != "" {
		e.name = u.Scheme + "://" + u.Host
	}
	return e
}

// errGone is that the receiver wants no more.
func (e *endpoint) errGone() error {
	return &compute.Error{
		Op: "forward", Kind: compute.KindConflict, Field: "to", Value: e.name,
		Message: "answers 410 Gone: it wants no more", Remedy: "give another address, or stop forwarding",
	}
}

// deliver posts a batch until the receiver has it. An error is that the caller ends, or that the receiver is gone for
// good. What is on its way when the caller ends is waited for, so that it need not come again.
func (e *endpoint) deliver(ctx context.Context, batch []Event) error {
	troubled := false
	for pause := firstPause; ; pause = min(2*pause, longestPause) {
		status, after, err := e.post(context.WithoutCancel(ctx), batch)
		switch {
		case err == nil:
			if troubled {
				e.say("%s takes events again", e.name)
			}
			return nil
		case status == http.StatusGone:
			return e.errGone()
		case status == http.StatusRequestEntityTooLarge && len(batch) > 1:
			return e.halve(ctx, batch)
		}
		next := max(pause, after)
		next += rand.N(next/4 + 1) // #nosec G404 -- jitter
		what := "events"
		if len(batch) == 1 {
			what = "the event " + batch[0].ID
		}
		troubled = true
		e.say("%s does not take %s: %v; trying again in %s", e.name, what, err, next.Round(time.Second))
		if !service.Sleep(ctx, next) {
			return ctx.Err()
		}
	}
}

// halve posts a batch that is too large in two parts.
func (e *endpoint) halve(ctx context.Context, batch []Event) error {
	for _, half := range [][]Event{batch[:len(batch)/2], batch[len(batch)/2:]} {
		if ctx.Err() != nil {
			return ctx.Err() // what was taken comes again
		}
		if err := e.deliver(ctx, half); err != nil {
			return err
		}
	}
	return nil
}

// post posts a batch once. after is how long the receiver wants to be left alone.
func (e *endpoint) post(ctx context.Context, batch []Event) (status int, after time.Duration, err error) {
	body, err := json.Marshal(batch)
	if err != nil {
		return 0, 0, err
	}
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, e.url, bytes.NewReader(body))
	if err != nil {
		return 0, 0, err
	}
	req.Header.Set("Content-Type", ContentType)
	req.Header.Set("User-Agent", "berth-forward")
	sign(req.Header, e.secret, idOf(batch), time.Now(), body)
	resp, err := e.http.Do(req) // #nosec G704 -- the address is the operator's own
	var failed *url.Error
	switch {
	case errors.As(err, &failed):
		return 0, 0, failed.Err // without the address
	case err != nil:
		return 0, 0, err
	}
	defer func() { _ = resp.Body.Close() }() // reading is over: nothing can be lost
	if resp.StatusCode/100 == 2 {
		_, _ = io.Copy(io.Discard, io.LimitReader(resp.Body, 64<<10)) // so that the connection can be used again
		return resp.StatusCode, 0, nil
	}
	said, _ := io.ReadAll(io.LimitReader(resp.Body, mostSaid)) // the status says enough
	if seconds, err := strconv.Atoi(resp.Header.Get("Retry-After")); err == nil && seconds > 0 {
		after = min(time.Duration(seconds)*time.Second, longestPause)
	}
	return resp.StatusCode, after, fmt.Errorf("it answers %s %q", resp.Status, strings.TrimSpace(string(said)))
}

// idOf is the same for a batch that is posted again, and no other's.
func idOf(batch []Event) string {
	sum := sha256.New()
	for _, e := range batch {
		_, _ = io.WriteString(sum, e.Type+"\n"+e.ID+"\n") // hashes take everything
	}
	return "msg_" + hex.EncodeToString(sum.Sum(nil)[:16])
}

// sign proves from which forwarder a batch is, and when it was posted: HMAC-SHA256 over id, time and body.
func sign(h http.Header, secret []byte, id string, at time.Time, body []byte) {
	seconds := strconv.FormatInt(at.Unix(), 10)
	mac := hmac.New(sha256.New, secret)
	_, _ = io.WriteString(mac, id+"."+seconds+".") // hashes take everything
	_, _ = mac.Write(body)
	h.Set(headerID, id)
	h.Set(headerTimestamp, seconds)
	h.Set(headerMAC, "v1,"+base64.StdEncoding.EncodeToString(mac.Sum(nil)))
}
