// SPDX-License-Identifier: Apache-2.0

package cli

import (
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
		return readToken(EnvTokenFile, file, 0o007)
	}
	file, err := keptToken()
	if err != nil {
		return "", nil // without a home nothing is kept
	}
	if _, err := os.Stat(file); os.IsNotExist(err) {
		return "", nil
	}
	return readToken("token", file, 0o077)
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
func readToken(field, file string, others fs.FileMode) (string, error) {
	refuse := func(message, remedy string, cause error) error {
		return &compute.Error{
			Kind: compute.KindInvalid, Field: field, Value: file, Message: message, Remedy: remedy, Cause: cause,
		}
	}
	f, err := os.Open(file)
	if err != nil {
		return "", refuse("cannot be read", "name a file with a token and nothing else", err)
	}
	defer func() { _ = f.Close() }() // it was only read
	info, err := f.Stat()
	if err != nil {
		return "", refuse("cannot be read", "name a file with a token and nothing else", err)
	}
	if mode := info.Mode().Perm(); mode&others != 0 {
		return "", refuse(fmt.Sprintf("others on this machine may read it (its mode is %#o)", mode),
			"chmod 600 "+file+", and revoke the token if others are there", nil)
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
	if err := os.MkdirAll(filepath.Dir(file), 0o700); err != nil {
		return "", err
	}
	fresh, err := os.CreateTemp(filepath.Dir(file), "token-") // its mode is 0600
	if err != nil {
		return "", err
	}
	defer func() { _ = os.Remove(fresh.Name()) }() // it has its name by then, or is of no use
	if _, err := fresh.WriteString(text + "\n"); err != nil {
		_ = fresh.Close() // the first error counts
		return "", err
	}
	if err := fresh.Close(); err != nil {
		return "", err
	}
	return file, os.Rename(fresh.Name(), file)
}

func newLogin(s *settings) *cobra.Command {
	return &cobra.Command{
		Use:   "login",
		Short: "Keep a token for the commands to come",
		Long: `Read a token from standard input, ask the API node whether it counts, and keep it for this user
in ~/.config/berth/token (mode 0600). Its arguments could be seen by others on this machine, so it takes none.

$` + EnvToken + ` goes over it, and so does the file that $` + EnvTokenFile + ` names.`,
		Example: "  pass show berth | berth login",
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
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
			return s.login(cmd)
		},
	}
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
	_, err = fmt.Fprintf(cmd.OutOrStdout(), "Kept in %s: you are %s, %s.\n", file, printable(caller.Name), rolesOf(caller))
	return err
}

func newLogout() *cobra.Command {
	return &cobra.Command{
		Use: "logout", Short: "Forget the token that berth login kept", Args: cobra.NoArgs,
		Long: "Forget the token that berth login kept. It still counts; berth token revoke ends it.",
		RunE: func(cmd *cobra.Command, _ []string) error {
			file, err := keptToken()
			if err == nil {
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
