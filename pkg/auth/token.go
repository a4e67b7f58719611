// SPDX-License-Identifier: Apache-2.0

package auth

import (
	"bytes"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base32"
	"encoding/binary"
	"hash/crc32"
	"strings"

	"github.com/berth-project/berth/pkg/compute"
)

// A token is berth_<id>_<secret>, all of it in lower-case base32 without padding:
//
//	id      10 random bytes, 16 letters: shown in lists and logs
//	secret  32 random bytes and 4 of a checksum, 58 letters
//
// The checksum (CRC-32C of id and secret) guards against slips only: a token that was cut off or
// mistyped is told from one that was forged or revoked, without asking anybody.
//
// What is kept is the SHA-256 of the 32 bytes. It is no password hash such as argon2id, and need not
// be: those make guessing slow where secrets are few, and 256 random bits cannot be guessed however
// fast one guess is. A check costs some microseconds, so rubbish cannot keep a node busy.
const (
	idBytes      = 10
	secretBytes  = 32
	idLetters    = 16
	secretLetter = 58
	tokenLength  = len(TokenPrefix) + idLetters + 1 + secretLetter
)

// TokenPrefix begins every token, and nothing else that a caller may send.
const TokenPrefix = "berth_"

// letters is never changed.
var letters = base32.NewEncoding("abcdefghijklmnopqrstuvwxyz234567").WithPadding(base32.NoPadding)

// NewToken makes a token of 256 random bits: what its owner gets to see, once, and what is kept.
func NewToken() (text string, id compute.TokenID, hash compute.SecretHash) {
	var random [idBytes + secretBytes]byte
	_, _ = rand.Read(random[:]) // it never fails
	id = compute.TokenID(letters.EncodeToString(random[:idBytes]))
	secret := random[idBytes:]
	sealed := append(bytes.Clone(secret), checksum(id, secret)...)
	return TokenPrefix + string(id) + "_" + letters.EncodeToString(sealed), id, sha256.Sum256(secret)
}

// ParseToken reads a token: its id, and the hash of its secret. It refuses what NewToken cannot have
// made, as KindUnauthenticated, and never repeats any of it: it may be half a secret.
func ParseToken(text string) (compute.TokenID, compute.SecretHash, error) {
	none := compute.SecretHash{}
	rest, ours := strings.CutPrefix(text, TokenPrefix)
	if !ours {
		return "", none, slip("it does not begin with " + TokenPrefix)
	}
	if len(text) != tokenLength || rest[idLetters] != '_' {
		return "", none, slip("it is cut off, or something was added")
	}
	id, sealed := rest[:idLetters], rest[idLetters+1:]
	secret, err := letters.DecodeString(sealed)
	if err != nil || letters.EncodeToString(secret) != sealed || compute.TokenID(id).Check() != nil {
		return "", none, slip("it has letters that no token has")
	}
	secret, sum := secret[:secretBytes], secret[secretBytes:]
	if !bytes.Equal(sum, checksum(compute.TokenID(id), secret)) {
		return "", none, slip("its checksum is wrong: it was mistyped, or mixed up with another")
	}
	return compute.TokenID(id), sha256.Sum256(secret), nil
}

func checksum(id compute.TokenID, secret []byte) []byte {
	sum := crc32.New(crc32.MakeTable(crc32.Castagnoli))
	_, _ = sum.Write([]byte(id)) // a hash never fails
	_, _ = sum.Write(secret)
	return binary.BigEndian.AppendUint32(nil, sum.Sum32())
}

func slip(what string) *compute.Error {
	return Unauthenticated("the token is not one that Berth makes: "+what,
		"copy it once more, whole; it looks like "+TokenPrefix+"…_…")
}

// Unauthenticated refuses what a caller shows, or that it shows nothing: 401.
func Unauthenticated(message, remedy string) *compute.Error {
	return &compute.Error{Kind: compute.KindUnauthenticated, Message: message, Remedy: remedy}
}
