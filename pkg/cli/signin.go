// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
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
// environment names, or the one that berth login keeps. Empty: nothing.
func findToken() (string, error) {
	if text := os.Getenv(EnvToken); text != "" {
		return strings.TrimSpace(text), nil
	}
	if file := os.Getenv(EnvTokenFile); file != "" {
		return readToken(EnvTokenFile, file)
	}
	file, err := keptToken()
	if err != nil {
		return "", nil // without a home nothing is kept
	}
	text, err := readToken("token", file)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return "", nil
	case err != nil:
		return "", err
	}
	return renewed(file, text), nil
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

// keep writes the token where findToken looks for it, for this user alone. The file that was there is
// replaced as a whole, so that its mode does not matter.
func keep(text string) (string, error) {
	file, err := keptToken()
	if err != nil {
		return "", err
	}
	return file, replace(file, text+"\n")
}

// replace writes a file of this user alone.
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
where the issuer allows it.

$` + EnvToken + ` goes over it, and so does the file that $` + EnvTokenFile + ` names.`,
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
	text, err := io.ReadAll(io.LimitReader(cmd.InOrStdin(), maxTokenFile))
	if err != nil {
		return err
	}
	s.token = strings.TrimSpace(string(text))
	if s.token == "" || strings.ContainsAny(s.token, " \r\n\t") {
		return compute.Invalid("token", "", "give one token on standard input, and nothing else")
	}
	if err := s.login(cmd); err != nil {
		return err
	}
	if file, err := keptToken(); err == nil {
		_ = os.Remove(sessionFile(file)) // of another token; mostly there is none
	}
	return nil
}

// login keeps a token that counts.
func (s *settings) login(cmd *cobra.Command) error {
	c, _, err := s.open()
	if err != nil {
		return err
	}
	defer c.Close()
	caller, err := c.Whoami(cmd.Context())
	if err != nil {
		return err
	}
	file, err := keep(s.token)
	if err != nil {
		return err
	}
	if caller.Open {
		_, err = fmt.Fprintf(cmd.OutOrStdout(),
			"Kept in %s. Nobody signs in at %s yet, so it was not checked.\n", file, s.api)
		return err
	}
	_, err = fmt.Fprintf(cmd.OutOrStdout(),
		"Kept in %s: you are %s, %s.\n", file, printable(caller.Name), rolesOf(caller))
	return err
}

func newLogout() *cobra.Command {
	return &cobra.Command{
		Use: "logout", Short: "Forget the token that berth login kept", Args: cobra.NoArgs,
		Long: "Forget the token that berth login kept. It still counts; berth token revoke ends it.",
		RunE: func(cmd *cobra.Command, _ []string) error {
			file, err := keptToken()
			if err == nil {
				_ = os.Remove(sessionFile(file)) // there is none of a token that was given
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
		expires = c.Expires.Local().Format(time.DateTime)
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
