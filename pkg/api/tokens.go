// SPDX-License-Identifier: Apache-2.0

package api

import (
	"context"
	"fmt"
	"net/http"
	"strconv"
	"time"

	"github.com/danielgtaylor/huma/v2"
	"go.uber.org/zap"

	"github.com/berth-project/berth/pkg/audit"
	"github.com/berth-project/berth/pkg/auth"
	"github.com/berth-project/berth/pkg/compute"
	"github.com/berth-project/berth/pkg/wire"
	"github.com/berth-project/berth/pkg/wire/rest"
)

func (s *Server) routeTokens(api huma.API) {
	tags := []string{"access"}
	route(s, api, huma.Operation{
		OperationID: "whoami", Method: http.MethodGet, Path: "/v1/whoami", Tags: tags,
		Summary: "Say who calls, and what it may do",
	}, s.whoami)
	route(s, api, huma.Operation{
		OperationID: "create-token", Method: http.MethodPost, Path: "/v1/tokens", Tags: tags,
		DefaultStatus: http.StatusCreated, Summary: "Create a token",
		Description: "The answer has the whole token, this once: only a hash of it is kept. It counts on this " +
			"node when the answer comes, and on the others within a second.",
	}, s.createToken)
	route(s, api, huma.Operation{
		OperationID: "list-tokens", Method: http.MethodGet, Path: "/v1/tokens", Tags: tags,
		Summary: "List tokens that are not revoked, expired ones too",
	}, s.listTokens)
	route(s, api, huma.Operation{
		OperationID: "revoke-token", Method: http.MethodDelete, Path: "/v1/tokens/{token}", Tags: tags,
		DefaultStatus: http.StatusNoContent, Summary: "Revoke a token, by its id",
		Description: "It counts no more on this node when the answer comes, and on the others within a second.",
	}, s.revokeToken)
}

// The life of tokens, in which they count.
const (
	defaultTokenLife = 90 * 24 * time.Hour
	maxTokenLife     = 10 * 365 * 24 * time.Hour
)

// maxTokens bounds what each node keeps in memory.
const maxTokens = 10_000

// TokenRecords takes records of the tokens topic, in order. One that cannot be read revokes what its key
// names: a token that nobody can look at must not count.
func (s *Server) TokenRecords(recs []wire.Record, end bool) {
	if s.door.tokens == nil {
		return
	}
	for _, rec := range recs {
		entry, err := wire.DecodeToken(rec)
		switch {
		case err != nil:
			s.views.logUnreadable("tokens", rec, err)
			s.door.tokens.Remove(compute.TokenID(rec.Key))
		case entry.Revoked:
			s.door.tokens.Remove(entry.ID)
		default:
			s.door.tokens.Put(*entry.Token)
		}
	}
	if end {
		s.views.tokensRead.Store(true)
	}
}

type whoamiOutput struct{ Body rest.Caller }

func (s *Server) whoami(ctx context.Context, _ *noInput) (*whoamiOutput, error) {
	p := callerOf(ctx)
	return &whoamiOutput{Body: rest.Caller{
		Name: p.Name, ID: p.ID, Cell: p.Cell, Projects: p.Projects, Expires: p.Expires, Open: s.door.open(),
	}}, nil
}

type createTokenInput struct{ Body rest.TokenWish }

type newTokenOutput struct{ Body rest.NewToken }

func (s *Server) createToken(ctx context.Context, in *createTokenInput) (*newTokenOutput, error) {
	if err := s.checkTokens(); err != nil {
		return nil, err
	}
	if s.door.tokens.Len() >= maxTokens {
		return nil, compute.Conflict("tokens", strconv.Itoa(maxTokens), "so many are there already",
			"revoke those that have expired or are not needed; berth token list shows them")
	}
	wish := in.Body
	text, id, hash := auth.NewToken()
	token := compute.Token{
		ID: id, Hash: hash, Name: wish.Name, Role: wish.Role, Project: wish.Project,
		CreatedAt: s.config.Now().UTC(), CreatedBy: callerOf(ctx).Name,
	}
	life := time.Duration(wish.ExpiresIn)
	if life == 0 && !wish.Never {
		life = defaultTokenLife
	}
	switch {
	case life < 0 || life > maxTokenLife || wish.Never && life != 0:
		return nil, compute.Invalid("expires_in", life.String(),
			fmt.Sprintf("give a time up to %s, or never_expires: true without it", maxTokenLife))
	case life > 0:
		token.ExpiresAt = token.CreatedAt.Add(life)
	}
	if err := token.Check(); err != nil {
		return nil, err
	}
	audit.Target(ctx, "token", token.ID, string(token.ID))
	audit.Project(ctx, token.Project)
	if err := s.writeToken(ctx, wire.EncodeToken(token)); err != nil {
		return nil, err
	}
	s.log.Info("token created", zap.String("token", string(id)), zap.String("name", token.Name),
		zap.String("role", string(token.Role)), zap.String("project", string(token.Project)),
		zap.Time("expires", token.ExpiresAt), zap.String("by", token.CreatedBy))
	return &newTokenOutput{Body: rest.NewToken{Token: rest.FromToken(token, s.config.Now()), Secret: text}}, nil
}

type tokensOutput struct{ Body rest.Tokens }

func (s *Server) listTokens(_ context.Context, in *pageInput) (*tokensOutput, error) {
	if err := s.checkTokens(); err != nil {
		return nil, err
	}
	page, next := pageOfNames(in.Paging, s.door.tokens.All(), func(t compute.Token) compute.TokenID { return t.ID })
	out := &tokensOutput{Body: rest.Tokens{Items: []rest.Token{}, Next: next}}
	for _, t := range page {
		out.Body.Items = append(out.Body.Items, rest.FromToken(t, s.config.Now()))
	}
	return out, nil
}

type revokeTokenInput struct {
	Token compute.TokenID `path:"token" doc:"Its id; not the whole token."`
}

func (s *Server) revokeToken(ctx context.Context, in *revokeTokenInput) (*struct{}, error) {
	if err := s.checkTokens(); err != nil {
		return nil, err
	}
	if err := in.Token.Check(); err != nil {
		e := *err.(*compute.Error)
		e.Value = "" // it may be a whole token, and answers are logged
		return nil, &e
	}
	if _, ok := s.door.tokens.Get(in.Token); !ok {
		if err := s.readTokens(ctx); err != nil { // another node may have made it just now
			return nil, compute.Unavailable("catch up with tokens", err)
		}
		if _, ok := s.door.tokens.Get(in.Token); !ok {
			return nil, compute.NotFound("token", string(in.Token), "berth token list shows those that there are")
		}
	}
	if err := s.writeToken(ctx, wire.Tombstone(wire.KeyToken(in.Token))); err != nil {
		return nil, err
	}
	s.log.Info("token revoked", zap.String("token", string(in.Token)), zap.String("by", callerOf(ctx).Name))
	return nil, nil
}

// checkTokens refuses where tokens do not count: they would be made, and nobody would look at them.
func (s *Server) checkTokens() error {
	if s.door.tokens != nil {
		return nil
	}
	return compute.Conflict("auth.tokens", "false", "tokens do not count on this node",
		"set auth.tokens: true on every API node; the first admin's token comes from berth token bootstrap")
}

// writeToken returns once this node has read what it wrote. It is not put into the view at once: a revocation
// that another node wrote meanwhile would be undone.
func (s *Server) writeToken(ctx context.Context, rec wire.Record) error {
	if err := s.send(ctx, rec.To(s.config.Topics.Tokens(), 0)); err != nil {
		return err
	}
	if err := s.readTokens(context.WithoutCancel(ctx)); err != nil {
		return &compute.Error{
			Op: "catch up with tokens", Kind: compute.KindTimeout,
			Message: "it is written, but this node has not read it back",
			Remedy:  "look at the list of tokens in a moment; what was created and not shown has to be revoked",
			Cause:   err,
		}
	}
	return nil
}

// readTokens returns once this node has read what any node had written when it was called.
func (s *Server) readTokens(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, s.config.SyncTimeout)
	defer cancel()
	return s.config.Tokens.Sync(ctx)
}
