// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/spf13/cobra"

	"github.com/berth-project/berth/pkg/client"
	"github.com/berth-project/berth/pkg/compute"
	"github.com/berth-project/berth/pkg/secretfile"
	"github.com/berth-project/berth/pkg/signin"
)

// maxTokenFile is far more than any token has, in bytes.
const maxTokenFile = 16 << 10

// findToken is what the command line shows to the API: that of the environment, of a file that the
// environment names, or the one that berth login keeps. Empty: nothing. Another one is to be had before it expires, or
// at any time where that is now; zero: never.
func findToken() (text string, expires time.Time, err error) {
	if text := os.Getenv(EnvToken); text != "" {
		return strings.TrimSpace(text), time.Time{}, nil
	}
	if file := os.Getenv(EnvTokenFile); file != "" {
		text, err := readToken(EnvTokenFile, file)
		return text, time.Now(), err
	}
	file, err := keptToken()
	if err != nil {
		return "", time.Time{}, nil // without a home nothing is kept
	}
	session, err := renewed(file)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return "", time.Time{}, nil
	case err != nil:
		return "", time.Time{}, err
	}
	return session.Token, session.Expires, nil
}

// shownToken is the token that a command shows. While the command runs another may take its place.
type shownToken struct {
	mu    sync.Mutex
	token string    // empty: none, for as long as the command runs
	again time.Time // when to look for another one; zero: never

	expires time.Time // zero: it is not known when
}

// now is what to show with a request. If no other token is to be had, the one of before is shown all the same: the node
// says whether it counts.
func (s *shownToken) now() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.token != "" && !s.again.IsZero() && !time.Now().Before(s.again) {
		_ = s.look() // what it finds out is in s
	}
	return s.token
}

// expiredPause is how long an issuer that does not renew an expired token is left alone at most.
const expiredPause = 30 * time.Second

// look finds the token, and when to look again: when it is due, or, where it lives no longer than that or could not be
// renewed, after half of the time that it has left; then after a second, and less often the longer it has expired.
func (s *shownToken) look() error {
	text, expires, err := findToken()
	switch {
	case err != nil || text == "": // somebody may be writing it
		expires = time.Now()
	case expires.IsZero() || !expires.Before(s.expires): // else what was renewed could not be kept
		s.token, s.expires = text, expires
	}
	s.again = time.Time{}
	if !expires.IsZero() {
		left := time.Until(expires)
		wait := max(time.Second, left/2, left-signin.Ahead, min(-left, expiredPause))
		s.again = time.Now().Round(0).Add(wait) // by the wall's clock, which goes on while a machine is suspended
	}
	return err
}

// keptToken is where berth login keeps the token.
func keptToken() (string, error) {
	dir, err := os.UserConfigDir()
	if err != nil {
		return "", err
	}
	return filepath.Join(dir, "berth", "token"), nil
}

// readToken reads a token from a file that nobody of others may read or write.
func readToken(field, file string) (string, error) {
	refuse := func(message, remedy string, cause error) error {
		return &compute.Error{
			Kind: compute.KindInvalid, Field: field, Value: file, Message: message, Remedy: remedy, Cause: cause,
		}
	}
	f, err := os.Open(file) // #nosec G703 -- the user names it, and has only their own rights
	if err != nil {
		return "", refuse("cannot be read", "name a file with a token and nothing else", err)
	}
	defer func() { _ = f.Close() }() // it was only read
	if err := secretfile.Check(field, file); err != nil {
		return "", err
	}
	text, err := io.ReadAll(io.LimitReader(f, maxTokenFile))
	if err != nil || strings.TrimSpace(string(text)) == "" {
		return "", refuse("has no token", "write a token into it and nothing else; berth token create makes one", err)
	}
	return strings.TrimSpace(string(text)), nil
}

// keep writes the token where findToken looks for it (keptToken).
func keep(file, token string) error { return replace(file, token+"\n") }

// replace writes a file of this user alone. The one that was there is replaced as a whole, so that its mode does not
// matter.
func replace(file, text string) error {
	if err := os.MkdirAll(filepath.Dir(file), 0o700); err != nil {
		return err
	}
	fresh, err := os.CreateTemp(filepath.Dir(file), filepath.Base(file)+"-") // its mode is 0600
	if err != nil {
		return err
	}
	defer func() { _ = os.Remove(fresh.Name()) }() // it has its name by then, or is of no use
	if _, err := fresh.WriteString(text); err != nil {
		_ = fresh.Close() // the first error counts
		return err
	}
	if err := fresh.Close(); err != nil {
		return err
	}
	return os.Rename(fresh.Name(), file)
}

func newLogin(s *settings) *cobra.Command {
	var at signin.Options
	cmd := &cobra.Command{
		Use:   "login",
		Short: "Sign in, and keep the token for the commands to come",
		Long: `Without flags: read a token from standard input. With --issuer: sign in there in a browser, which may run
on another machine; the node has to take tokens of that issuer for that client id (auth.oidc). Then ask the
API node whether the token counts, and keep it for this user in ~/.config/berth/token (mode 0600). Arguments
could be seen by others on this machine, so none has a token. An issuer's token is renewed before it expires,
also while a command runs, where the issuer allows it.

$` + EnvToken + ` goes over it, and so does the file that $` + EnvTokenFile + ` names. That file is read
again while a command runs.`,
		Example: "  pass show berth | berth login\n" +
			"  berth login --issuer https://login.example.org --client-id berth",
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if at.Issuer != "" || at.ClientID != "" {
				return s.loginAt(cmd, at)
			}
			return s.loginWith(cmd)
		},
	}
	f := cmd.Flags()
	f.StringVar(&at.Issuer, "issuer", "", "URL of the OpenID Connect issuer to sign in at")
	f.StringVar(&at.ClientID, "client-id", "", "what the issuer knows this cell's command line as")
	f.StringSliceVar(&at.Scopes, "scope", []string{"offline_access", "profile", "email"},
		"what to ask the issuer for, besides openid")
	f.StringVar(&at.CA, "issuer-ca", "", "file of the issuer's authorities; without it this machine's")
	return cmd
}

// loginWith keeps the token that comes on standard input.
func (s *settings) loginWith(cmd *cobra.Command) error {
	if info, err := os.Stdin.Stat(); err == nil && info.Mode()&os.ModeCharDevice != 0 {
		fmt.Fprintln(cmd.ErrOrStderr(), "Paste the token, then Enter and Ctrl-D:")
	}
	text, err := readInput(cmd.Context(), io.LimitReader(cmd.InOrStdin(), maxTokenFile))
	if err != nil {
		return err
	}
	s.token = strings.TrimSpace(string(text))
	if s.token == "" || strings.ContainsAny(s.token, " \r\n\t") {
		return compute.Invalid("token", "", "give one token on standard input, and nothing else")
	}
	return s.login(cmd, nil)
}

// login keeps a token that counts, and how to renew it; nil: that is not known.
func (s *settings) login(cmd *cobra.Command, session *signin.Session) error {
	c, _, err := s.open()
	if err != nil {
		return err
	}
	defer c.Close()
	caller, err := c.Whoami(cmd.Context())
	if err != nil {
		return err
	}
	file, err := keepLogin(cmd.Context(), s.token, session)
	if err != nil {
		return err
	}
	if caller.Open {
		_, err = fmt.Fprintf(cmd.OutOrStdout(),
			"Kept in %s. Nobody signs in at %s yet, so it was not checked.\n", file, s.api)
		return err
	}
	_, err = fmt.Fprintf(cmd.OutOrStdout(),
		"Kept in %s: you are %s, %s.\n", file, Printable(caller.Name), rolesOf(caller))
	return err
}

func newLogout() *cobra.Command {
	return &cobra.Command{
		Use: "logout", Short: "Forget the token that berth login kept", Args: cobra.NoArgs,
		Long: "Forget the token that berth login kept. It still counts; berth token revoke ends it.",
		RunE: func(cmd *cobra.Command, _ []string) error {
			file, err := keptToken()
			if err == nil {
				ctx, cancel := context.WithTimeout(cmd.Context(), 2*renewTimeout)
				defer cancel()
				letGo := holdSession(ctx, file) // a command that renews the token would keep it again
				defer letGo()
				_ = os.Remove(sessionFile(file)) // there is none of a token that was given
				_ = os.Remove(sessionLock(file))
				err = os.Remove(file)
			}
			if os.IsNotExist(err) {
				_, err = fmt.Fprintln(cmd.OutOrStdout(), "No token was kept.")
				return err
			}
			if err != nil {
				return err
			}
			_, err = fmt.Fprintln(cmd.OutOrStdout(), file+" is gone.")
			return err
		},
	}
}

func newWhoami(s *settings) *cobra.Command {
	return &cobra.Command{
		Use: "whoami", Short: "Show as whom this command line calls, and what it may do", Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			c, out, err := s.open()
			if err != nil {
				return err
			}
			defer c.Close()
			caller, err := c.Whoami(cmd.Context())
			if err != nil {
				return err
			}
			sheet := Sheet[client.Caller]{Name: func(c client.Caller) string { return c.Name }}
			return sheet.one(cmd.OutOrStdout(), out, caller, callerDetails)
		},
	}
}

func callerDetails(c client.Caller) []detail {
	expires := "never"
	if !c.Expires.IsZero() {
		expires = ShownTime(c.Expires)
	}
	id := c.ID
	if c.Open {
		id, expires = "", ""
	}
	return []detail{{"Name", c.Name}, {"ID", id}, {"May", rolesOf(c)}, {"Expires", expires}}
}

// rolesOf says what a caller may do: "admin of the cell", "member of web, reader of db".
func rolesOf(c client.Caller) string {
	if c.Open {
		return "do everything: nobody signs in here"
	}
	var roles []string
	if c.Cell != "" {
		roles = append(roles, string(c.Cell)+" of the cell")
	}
	for project, role := range c.Projects {
		roles = append(roles, string(role)+" of "+string(project))
	}
	if len(roles) == 0 {
		return "nothing: no role of any project"
	}
	slices.Sort(roles)
	return strings.Join(roles, ", ")
}
