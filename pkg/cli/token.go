// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/berth-project/berth/pkg/client"
	"github.com/berth-project/berth/pkg/compute"
)

func newToken(s *settings) *cobra.Command {
	cmd := Group("token", "Tokens that callers of the API sign in with")
	cmd.AddCommand(newTokenCreate(s), newTokenList(s), newTokenRevoke(s))
	return cmd
}

// neverExpires is what --expires says of a token that counts until it is revoked.
const neverExpires = "never"

func newTokenCreate(s *settings) *cobra.Command {
	var role, expires, name string
	cmd := &cobra.Command{
		Use:   "create --role reader|member|operator|admin",
		Short: "Create a token and print it, this once",
		Long: `Create a token and print it. It is shown this once: only a hash of it is kept.

reader and member are roles of the project --project: a reader sees what it has, a member boots and deletes
too. operator and admin are roles of the cell: an operator sees all projects and drains hosts, an admin may
do everything. docs/ACCESS.md has the whole table.`,
		Example: "  berth token create --project web --role member --name ci-bot --expires 30d > ci-bot.token\n" +
			"  berth token create --role operator --name alice",
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			c, out, err := s.open()
			if err != nil {
				return err
			}
			defer c.Close()
			wish := client.TokenWish{Name: name, Role: compute.Role(role), Never: expires == neverExpires}
			if err := wish.Role.Check(); err != nil {
				return err
			}
			switch given := cmd.Flag("project"); {
			case !wish.Role.OfCell():
				wish.Project = c.Project()
			case given != nil && given.Changed: // what the environment says is for all commands, and is meant for others
				return compute.Invalid("project", s.project, "an "+role+
					" is of the whole cell: leave out --project, or give reader or member")
			}
			life, err := ParseLife("expires", expires)
			if err != nil {
				return err
			}
			wish.ExpiresIn = client.Duration(life)
			token, err := c.CreateToken(cmd.Context(), wish)
			if err != nil {
				return err
			}
			return PrintNewToken(cmd.OutOrStdout(), cmd.ErrOrStderr(), out, token)
		},
	}
	flags := cmd.Flags()
	flags.StringVar(&role, "role", "", "reader or member of --project, operator or admin of the cell")
	flags.StringVar(&name, "name", "", "what it is called in lists and logs, as in ci-bot")
	flags.StringVar(&expires, "expires", "90d",
		"how long it counts, as in 90d or 12h; "+neverExpires+": until it is revoked")
	return cmd
}

// PrintNewToken prints to out the token alone, so that it can be written into a file, and to notes what a person should
// know of it; as data, all of it to out.
func PrintNewToken(out, notes io.Writer, f Format, t client.NewToken) error {
	if f == FormatJSON || f == FormatYAML {
		return PrintData(out, f, t)
	}
	until := "until it is revoked"
	if !t.ExpiresAt.IsZero() {
		until = "until " + ShownTime(t.ExpiresAt)
	}
	of := "the cell"
	if t.Project != "" {
		of = "project " + string(t.Project)
	}
	const note = "Token %s, %s of %s, counts %s. It is shown this once:\n"
	if _, err := fmt.Fprintf(notes, note, t.ID, t.Role, of, until); err != nil {
		return err
	}
	_, err := fmt.Fprintln(out, t.Secret)
	return err
}

// ParseLife reads how long a token counts: in days, or as Go writes durations; 0 for never.
func ParseLife(field, text string) (time.Duration, error) {
	if text == neverExpires {
		return 0, nil
	}
	remedy := compute.Invalid(field, text, "give a time, as in 90d or 12h, or "+neverExpires)
	if digits, days := strings.CutSuffix(text, "d"); days {
		n, err := strconv.ParseUint(digits, 10, 16)
		if err != nil || n == 0 {
			return 0, remedy
		}
		return time.Duration(n) * 24 * time.Hour, nil
	}
	life, err := time.ParseDuration(text)
	if err != nil || life <= 0 {
		return 0, remedy
	}
	return life, nil
}

func newTokenList(s *settings) *cobra.Command {
	return newListing(s, "List tokens that are not revoked",
		func() Sheet[client.Token] { return tokenSheet(time.Now()) },
		func(ctx context.Context, c *client.Client) ([]client.Token, error) { return c.Tokens(ctx) })
}

func tokenSheet(now time.Time) Sheet[client.Token] {
	return Sheet[client.Token]{
		Name: func(t client.Token) string { return string(t.ID) },
		none: "No tokens.",
		Columns: []Column[client.Token]{
			{Title: "ID", Cell: func(t client.Token) string { return string(t.ID) }},
			{Title: "NAME", Cell: func(t client.Token) string { return t.Name }},
			{Title: "ROLE", Cell: func(t client.Token) string { return string(t.Role) }},
			{Title: "PROJECT", Cell: func(t client.Token) string { return string(t.Project) }},
			{Title: "EXPIRES", Right: true, Cell: func(t client.Token) string {
				switch {
				case t.Expired:
					return "expired"
				case t.ExpiresAt.IsZero():
					return neverExpires
				}
				return "in " + Short(t.ExpiresAt.Sub(now))
			}},
			{Title: "AGE", Right: true, Cell: func(t client.Token) string { return age(t.CreatedAt, now) }},
			{Title: "BY", Cell: func(t client.Token) string { return t.CreatedBy }, wide: true},
		},
	}
}

func newTokenRevoke(s *settings) *cobra.Command {
	return &cobra.Command{
		Use: "revoke ID...", Short: "End tokens at once, on every node", Args: cobra.MinimumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			c, out, err := s.open()
			if err != nil {
				return err
			}
			defer c.Close()
			return revokeTokens(cmd, c, out, args)
		},
	}
}

// revokedToken is a token that counts no more, as data.
type revokedToken struct {
	ID compute.TokenID `json:"id"`
}

// revokeTokens ends tokens up to the first that cannot be, and prints those that it ended.
func revokeTokens(cmd *cobra.Command, c *client.Client, f Format, ids []string) error {
	var revoked []revokedToken
	var failed error
	for _, id := range ids {
		gone := revokedToken{compute.TokenID(id)}
		if failed = c.RevokeToken(cmd.Context(), gone.ID); failed != nil {
			break
		}
		revoked = append(revoked, gone)
	}
	sheet := Sheet[revokedToken]{Name: func(t revokedToken) string { return string(t.ID) }}
	if data := f == FormatJSON || f == FormatYAML; data && len(ids) > 1 && len(revoked) > 0 {
		return cmp.Or(failed, sheet.List(cmd.OutOrStdout(), f, revoked))
	}
	for _, gone := range revoked {
		if err := sheet.did(cmd.OutOrStdout(), f, gone, string(gone.ID)+" counts no more"); err != nil {
			return cmp.Or(failed, err)
		}
	}
	return failed
}
