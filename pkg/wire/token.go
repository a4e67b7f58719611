// SPDX-License-Identifier: Apache-2.0

package wire

import (
	"fmt"

	"github.com/berth-project/berth/pkg/compute"
	pb "github.com/berth-project/berth/pkg/wire/berthv1"
)

// TokenEntry is what one record of tokens says: of a token that counts from now on, or that this one
// was revoked.
type TokenEntry struct {
	ID      compute.TokenID
	Revoked bool
	Token   *compute.Token // nil if it is revoked
}

// KeyToken is the key of a token.
func KeyToken(id compute.TokenID) []byte { return []byte(id) }

// EncodeToken makes the record of a token; its key is KeyToken.
func EncodeToken(t compute.Token) Record {
	return seal(KeyToken(t.ID), &pb.Token{
		Id:           text(t.ID),
		SecretSha256: t.Hash[:],
		Name:         text(t.Name),
		Role:         text(t.Role),
		Project:      text(t.Project),
		CreatedAt:    stamp(t.CreatedAt),
		CreatedBy:    text(t.CreatedBy),
		ExpiresAt:    stamp(t.ExpiresAt),
	}, "")
}

// DecodeToken reads a record of tokens; a tombstone says that its token was revoked.
func DecodeToken(rec Record) (TokenEntry, error) {
	if rec.Unread == nil && rec.Value == nil {
		id := compute.TokenID(rec.Key)
		if err := id.Check(); err != nil {
			return TokenEntry{}, refused("token", err)
		}
		return TokenEntry{ID: id, Revoked: true}, nil
	}
	t, err := decode("token", rec, &pb.Token{}, tokenFrom)
	if err != nil {
		return TokenEntry{}, err
	}
	return TokenEntry{ID: t.ID, Token: &t}, nil
}

func tokenFrom(r *reader, m *pb.Token) compute.Token {
	t := compute.Token{
		ID:        compute.TokenID(m.GetId()),
		Name:      m.GetName(),
		Role:      compute.Role(m.GetRole()),
		Project:   compute.Project(m.GetProject()),
		CreatedAt: r.time("created_at", m.GetCreatedAt()),
		CreatedBy: m.GetCreatedBy(),
		ExpiresAt: r.time("expires_at", m.GetExpiresAt()),
	}
	if copy(t.Hash[:], m.GetSecretSha256()) != len(t.Hash) || len(m.GetSecretSha256()) != len(t.Hash) {
		r.refuse(compute.Invalid("secret_sha256", fmt.Sprintf("%d bytes", len(m.GetSecretSha256())), "give 32 bytes"))
	}
	r.check(t.Check())
	r.atMost("created_by", len(t.CreatedBy), MaxMessage)
	if string(r.rec.Key) != string(t.ID) { // without its key, it could not be revoked
		r.refuse(compute.Invalid("key", string(r.rec.Key), "give the id of the token"))
	}
	return t
}
