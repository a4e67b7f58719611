// SPDX-License-Identifier: Apache-2.0

package auth

import (
	"cmp"
	"context"
	"crypto/subtle"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/berth-project/berth/pkg/compute"
)

// Tokens are those that count, as their topic says. It may be used by many goroutines at once.
type Tokens struct {
	now func() time.Time

	mu   sync.RWMutex
	byID map[compute.TokenID]compute.Token
}

// NewTokens has none yet. now is the clock that tokens expire by; nil: the machine's.
func NewTokens(now func() time.Time) *Tokens {
	if now == nil {
		now = time.Now
	}
	return &Tokens{now: now, byID: map[compute.TokenID]compute.Token{}}
}

// Put takes a token that counts from now on.
func (t *Tokens) Put(token compute.Token) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.byID[token.ID] = token
}

// Remove takes one that counts no more.
func (t *Tokens) Remove(id compute.TokenID) {
	t.mu.Lock()
	defer t.mu.Unlock()
	delete(t.byID, id)
}

// Get finds one by its id.
func (t *Tokens) Get(id compute.TokenID) (compute.Token, bool) {
	t.mu.RLock()
	defer t.mu.RUnlock()
	token, ok := t.byID[id]
	return token, ok
}

// Len is how many All are.
func (t *Tokens) Len() int {
	t.mu.RLock()
	defer t.mu.RUnlock()
	return len(t.byID)
}

// All are those that are not revoked, expired ones too, by their ids.
func (t *Tokens) All() []compute.Token {
	t.mu.RLock()
	defer t.mu.RUnlock()
	out := make([]compute.Token, 0, len(t.byID))
	for _, token := range t.byID {
		out = append(out, token)
	}
	slices.SortFunc(out, func(a, b compute.Token) int { return cmp.Compare(a.ID, b.ID) })
	return out
}

// Authenticate looks for "Authorization: Bearer berth_…". A bearer token of another kind is another
// authenticator's.
func (t *Tokens) Authenticate(_ context.Context, r *http.Request) (p Principal, ok bool, err error) {
	text, ok, err := Bearer(r)
	if err != nil || !ok || !strings.HasPrefix(text, TokenPrefix) {
		return Principal{}, false, err
	}
	id, hash, err := ParseToken(text)
	if err != nil {
		return Principal{}, false, err
	}
	token, known := t.Get(id)
	// Where the id is known, a wrong secret is answered as an unknown id is: a forger learns nothing.
	if subtle.ConstantTimeCompare(hash[:], token.Hash[:]) != 1 || !known {
		return Principal{}, false, Unauthenticated("the token does not count: it was revoked, or is another cell's",
			"ask an admin of this cell for a new one")
	}
	if !token.ExpiresAt.IsZero() && !t.now().Before(token.ExpiresAt) {
		return Principal{}, false, Unauthenticated(
			"the token has expired on "+token.ExpiresAt.UTC().Format(time.RFC3339),
			"ask an admin of this cell for a new one")
	}
	return principalOf(token), true, nil
}

// principalOf is the caller that has a token.
func principalOf(token compute.Token) Principal {
	p := Principal{Name: token.Caller(), Expires: token.ExpiresAt, ID: string(token.ID)}
	if token.Role.OfCell() {
		p.Cell = token.Role
	} else {
		p.Projects = map[compute.Project]Role{token.Project: token.Role}
	}
	return p
}

// Bearer is the bearer token of a request; ok is false without one. A request with two, of which each
// reader may take another, or with a scheme that nobody here knows, is refused.
func Bearer(r *http.Request) (text string, ok bool, err error) {
	headers := r.Header.Values("Authorization")
	if len(headers) == 0 {
		return "", false, nil
	}
	scheme, text, _ := strings.Cut(headers[0], " ")
	if len(headers) > 1 || !strings.EqualFold(scheme, "Bearer") || text == "" || strings.ContainsAny(text, " ,\t") {
		return "", false, Unauthenticated("the Authorization header cannot be used",
			"give it once, as in Authorization: Bearer berth_…")
	}
	return text, true, nil
}
