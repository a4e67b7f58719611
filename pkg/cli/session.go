// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"github.com/berth-project/berth/pkg/compute"
	"github.com/berth-project/berth/pkg/service"
	"github.com/berth-project/berth/pkg/signin"
)

// renewTimeout is how long a command may be held up by an issuer that does not answer.
const renewTimeout = 10 * time.Second

// sessionFile is where it is kept how to renew the token in a file.
func sessionFile(token string) string { return filepath.Join(filepath.Dir(token), "session.json") }

// loginAt signs in at an issuer.
func (s *settings) loginAt(cmd *cobra.Command, at signin.Options) error {
	if at.Issuer == "" || at.ClientID == "" {
		const remedy = "give --issuer and --client-id, or neither and a token on standard input"
		return compute.Invalid("issuer", at.Issuer, remedy)
	}
	at.Ask = func(page, code, direct string) {
		fmt.Fprintf(cmd.ErrOrStderr(), "Open %s and give the code %s\n", Printable(page), Printable(code))
		if direct != "" {
			fmt.Fprintf(cmd.ErrOrStderr(), "or open %s\n", Printable(direct))
		}
	}
	if at.CA != "" {
		file, err := filepath.Abs(at.CA) // later commands renew the token from whatever folder they run in
		if err != nil {
			return err
		}
		at.CA = file
	}
	session, err := signin.Device(cmd.Context(), at)
	if err != nil {
		return err
	}
	s.token = session.Token
	return s.login(cmd, &session)
}

// keepLogin keeps a token, and how to renew it if that is known, in the place of what was kept before. A command that
// renews that ends first: it would put its token over this one, which may be another user's.
func keepLogin(ctx context.Context, token string, session *signin.Session) (string, error) {
	file, err := keptToken()
	if err != nil {
		return "", err
	}
	if err := os.MkdirAll(filepath.Dir(file), 0o700); err != nil { // where the lock is
		return "", err
	}
	ctx, cancel := context.WithTimeout(ctx, 2*renewTimeout)
	defer cancel()
	letGo := holdSession(ctx, file)
	defer letGo()
	if err := keep(file, token); err != nil {
		return "", err
	}
	if session == nil {
		_ = os.Remove(sessionFile(file)) // of another token; mostly there is none
		return file, nil
	}
	return file, keepSession(file, *session)
}

// keepSession keeps the session of the token in a file.
func keepSession(file string, session signin.Session) error {
	data, err := json.Marshal(session)
	if err != nil {
		return err
	}
	return replace(sessionFile(file), string(data)+"\n")
}

// renewed is the session of the token kept in a file, or a new one if it is time. If there is none to be had the kept
// one is shown all the same: the node says what is wrong with it. Of commands that run at the same time one renews, and
// the others take what it has kept: an issuer may take a session for ended whose refresh token comes twice. Nothing
// breaks it off but its own time, for the same reason.
func renewed(file string) (signin.Session, error) {
	kept, err := keptSession(file)
	if err != nil || !kept.Due(time.Now()) {
		return kept, err
	}
	ctx, cancel := context.WithTimeout(context.Background(), renewTimeout)
	defer cancel()
	letGo := holdSession(ctx, file)
	defer letGo()
	kept, err = keptSession(file) // another command may have renewed it
	if err != nil || !kept.Due(time.Now()) || ctx.Err() != nil {
		return kept, err
	}
	fresh, err := kept.Renew(ctx)
	if err != nil {
		return kept, nil
	}
	if keep(file, fresh.Token) == nil {
		_ = keepSession(file, fresh) // what cannot be kept is good for this command, and berth login for the next
	}
	return fresh, nil
}

// keptSession is that of the token in a file. Of a token that was given on standard input nothing but itself is known.
// The session is read first, since it is written last: so a new one has its new token.
func keptSession(file string) (session signin.Session, err error) {
	data, failed := os.ReadFile(sessionFile(file))
	token, err := readToken("token", file)
	if err != nil {
		return session, err
	}
	if failed != nil || json.Unmarshal(data, &session) != nil {
		return signin.Session{Token: token}, nil
	}
	if session.Token != token { // that of the new token is being written
		return signin.Session{Token: token, Expires: time.Now()}, nil
	}
	return session, nil
}

// sessionLock is the file by which one command at a time renews the token in a file, or puts another in its place. It
// stays until berth logout: each renewal puts a new session in the place of the old one.
func sessionLock(token string) string { return sessionFile(token) + ".lock" }

// lockPause is how long a command waits before it looks again whether another one has renewed the token.
const lockPause = 20 * time.Millisecond

// holdSession keeps other commands from renewing the token in a file, until it is let go or the process ends. It waits
// for another one that has it until ctx ends. Where nothing can be locked, nothing is.
func holdSession(ctx context.Context, token string) (letGo func()) {
	f, err := os.OpenFile(sessionLock(token), os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return func() {}
	}
	for {
		err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
		if !errors.Is(err, syscall.EWOULDBLOCK) || !service.Sleep(ctx, lockPause) {
			return func() { _ = f.Close() } // which lets it go; nothing was written
		}
	}
}
