// SPDX-License-Identifier: Apache-2.0

package oidc

import (
	"context"
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/rsa"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"sync"
	"time"

	gooidc "github.com/coreos/go-oidc/v3/oidc"
	"github.com/go-jose/go-jose/v4"
	"go.uber.org/zap"

	"github.com/berth-project/berth/pkg/compute"
)

const (
	// fresh is how long keys are used before the issuer is asked whether they still count.
	fresh = 10 * time.Minute
	// askEvery is how often the issuer is asked at most, whatever callers send: keys that nobody
	// knows are invented easily.
	askEvery  = 10 * time.Second
	maxAnswer = 1 << 20
	maxKeys   = 100
)

// askTimeout is how long it may take to answer. It is well below askEvery, for a caller waits for it; tests bear with a
// machine that stands still.
var askTimeout = 5 * time.Second

// keys are an issuer's, as it last told them. Those that are known go on counting while it does not
// answer. Nothing is asked before the first token comes.
//
// go-oidc's own set keeps keys for ever as long as no unknown one comes, and asks for each
// unknown one: a withdrawn key would count on, and rubbish would be passed on to the issuer.
type keys struct {
	issuer string
	client *http.Client
	log    *zap.Logger
	now    func() time.Time

	mu       sync.Mutex
	set      []jose.JSONWebKey
	told     time.Time     // when the issuer told the set; zero: never
	asked    time.Time     // when it was last asked; zero: never
	failed   error         // what came of it
	answered chan struct{} // closed when the question under way has ended; nil: none is
}

// find answers the issuer's public keys that may have signed with this algorithm and key id; an
// empty id may be any. An error of KindUnavailable says that the issuer was not reached, and that
// nothing is known of the key.
func (k *keys) find(ctx context.Context, algorithm, id string) ([]crypto.PublicKey, error) {
	if k.stale() {
		k.ask(ctx, false)
	}
	if found := k.known(algorithm, id); len(found) > 0 {
		return found, nil
	}
	k.ask(ctx, true)
	if found := k.known(algorithm, id); len(found) > 0 {
		return found, nil
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.failed != nil || k.told.IsZero() {
		return nil, &compute.Error{
			Kind: compute.KindUnavailable, Field: "issuer", Value: k.issuer, Message: "cannot be asked for its keys",
			Remedy: "try again in a moment; the node's log says why",
		}
	}
	return nil, refused(fmt.Sprintf("its issuer has no key %q for %s", id, algorithm), "sign in anew")
}

func (k *keys) stale() bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	age := k.now().Sub(k.told)
	return !k.told.IsZero() && (age >= fresh || age < 0)
}

func (k *keys) known(algorithm, id string) (found []crypto.PublicKey) {
	k.mu.Lock()
	defer k.mu.Unlock()
	for _, key := range k.set {
		if (id == "" || key.KeyID == id) && (key.Algorithm == "" || key.Algorithm == algorithm) {
			found = append(found, key.Key)
		}
	}
	return found
}

// ask asks the issuer for its keys, unless that was just done. One question is under way at a time;
// wait says whether to wait for that of another caller.
func (k *keys) ask(ctx context.Context, wait bool) {
	k.mu.Lock()
	if under := k.answered; under != nil {
		k.mu.Unlock()
		if wait {
			select {
			case <-under:
			case <-ctx.Done():
			}
		}
		return
	}
	now := k.now()
	if since := now.Sub(k.asked); !k.asked.IsZero() && since >= 0 && since < askEvery {
		k.mu.Unlock()
		return
	}
	k.asked = now
	answered := make(chan struct{})
	k.answered = answered
	k.mu.Unlock()

	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), askTimeout) // others wait for it, too
	defer cancel()
	set, err := k.fetch(ctx)

	k.mu.Lock()
	defer k.mu.Unlock()
	defer close(answered)
	k.answered = nil
	if k.failed = err; err != nil {
		k.log.Warn("an issuer of tokens cannot be asked for its keys; those that are known go on counting",
			zap.String("issuer", k.issuer), zap.Int("known", len(k.set)), zap.Error(err))
		return
	}
	k.set, k.told = set, now
}

// fetch is what the issuer says: where its keys are, and the keys.
func (k *keys) fetch(ctx context.Context) ([]jose.JSONWebKey, error) {
	provider, err := gooidc.NewProvider(gooidc.ClientContext(ctx, k.client), k.issuer)
	if err != nil {
		return nil, err
	}
	var at struct {
		Keys string `json:"jwks_uri"`
	}
	if err := provider.Claims(&at); err != nil {
		return nil, err
	}
	if u, err := url.Parse(at.Keys); err != nil || checkIssuer(u.Scheme+"://"+u.Host) != nil {
		return nil, compute.Invalid("jwks_uri", at.Keys, "the issuer has to have its keys behind https")
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, at.Keys, nil)
	if err != nil {
		return nil, err
	}
	resp, err := k.client.Do(req)
	if err != nil {
		return nil, err
	}
	defer func() { _ = resp.Body.Close() }() // reading is over
	if resp.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("%s answers %s", at.Keys, resp.Status)
	}
	var set struct {
		Keys []json.RawMessage `json:"keys"`
	}
	if err := json.NewDecoder(resp.Body).Decode(&set); err != nil {
		return nil, err
	}
	all, unread := readable(set.Keys)
	out, err := usable(all)
	if err != nil {
		return nil, errors.Join(err, unread)
	}
	return out, nil
}

// readable are the keys that are understood; those of kinds and curves that nobody here knows are left out, as RFC 7517
// (5) wants it: one of them must not cost the others. The error is of the last that was left out.
func readable(all []json.RawMessage) (out []jose.JSONWebKey, unread error) {
	for i, data := range all {
		var key jose.JSONWebKey
		if err := json.Unmarshal(data, &key); err != nil {
			unread = fmt.Errorf("key %d cannot be read: %w", i+1, err)
			continue
		}
		out = append(out, key)
	}
	return out, unread
}

// usable leaves out what signs no tokens, and secret keys: each process that knows one could sign tokens.
func usable(all []jose.JSONWebKey) (out []jose.JSONWebKey, err error) {
	for _, key := range all {
		switch key.Key.(type) {
		case *rsa.PublicKey, *ecdsa.PublicKey, ed25519.PublicKey:
			if (key.Use == "" || key.Use == "sig") && key.Valid() {
				out = append(out, key)
			}
		}
	}
	if len(out) == 0 || len(out) > maxKeys {
		return nil, fmt.Errorf("the issuer tells %d keys that sign tokens, not 1 to %d", len(out), maxKeys)
	}
	return out, nil
}

// newClient asks an issuer.
func newClient(base *http.Transport) *http.Client {
	return &http.Client{Transport: short{base}, Timeout: askTimeout}
}

// short cuts answers that are too long.
type short struct{ base http.RoundTripper }

func (s short) RoundTrip(r *http.Request) (*http.Response, error) {
	resp, err := s.base.RoundTrip(r)
	if err == nil {
		resp.Body = struct {
			io.Reader
			io.Closer
		}{io.LimitReader(resp.Body, maxAnswer), resp.Body}
	}
	return resp, err
}
