// SPDX-License-Identifier: Apache-2.0

package compute

import (
	"fmt"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"
)

// TokenID is the public half of a token that calls the API: it is shown in lists and logs.
type TokenID string

// tokenIDShape is what package auth makes: base32 without padding.
var tokenIDShape = shape{first: lower | digit, inner: lower | digit, last: lower | digit, most: 32}

// Check refuses what is no id of a token.
func (id TokenID) Check() error {
	if tokenIDShape.fits(string(id)) {
		return nil
	}
	return Invalid("token", string(id), "give the id of a token; berth token list shows them")
}

// SecretHash is the SHA-256 of the secret half of a token.
type SecretHash [32]byte

// MaxTokenName is the longest name of a token, in bytes.
const MaxTokenName = 64

// Token is what is kept of a token that calls the API. A reader of it cannot call with it.
type Token struct {
	ID        TokenID
	Hash      SecretHash
	Name      string  // for people, in logs; may be empty, need not be unique
	Role      Role    //
	Project   Project // of a reader or member; empty for the roles of the cell
	CreatedAt time.Time
	CreatedBy string    // the name of the caller that had it made
	ExpiresAt time.Time // zero: never
}

// Check refuses a token that makes no sense.
func (t Token) Check() error {
	if err := t.ID.Check(); err != nil {
		return err
	}
	if err := t.Role.Check(); err != nil {
		return err
	}
	if t.Role.OfCell() && t.Project != "" {
		return Invalid("project", string(t.Project), "leave it out: "+string(t.Role)+" is a role of the whole cell")
	}
	if !t.Role.OfCell() {
		if err := t.Project.Check(); err != nil {
			return err
		}
	}
	if len(t.Name) > MaxTokenName || !utf8.ValidString(t.Name) || strings.ContainsFunc(t.Name, unicode.IsControl) {
		return Invalid("name", t.Name, fmt.Sprintf("give at most %d bytes of printable text", MaxTokenName))
	}
	return nil
}

// Caller is how a token is called in logs.
func (t Token) Caller() string {
	if t.Name == "" {
		return "token:" + string(t.ID)
	}
	return "token:" + t.Name
}
