// SPDX-License-Identifier: Apache-2.0

// Package cli is the command line that talks to an API node: a file for each noun or
// verb that a user types, which are many, and what they share: how results are printed, how long a
// command waits, which instance a word means, and what a process exits with. It knows
// Berth by its HTTP API alone. NewRoot is the command with all of these; cmd/berth adds
// the daemons and what needs Kafka.
package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/url"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/berth-project/berth/pkg/client"
	"github.com/berth-project/berth/pkg/compute"
	"github.com/berth-project/berth/pkg/loopback"
)

// The variables a user's shell may set.
const (
	EnvAPI     = "BERTH_API"
	EnvProject = "BERTH_PROJECT"

	EnvToken     = "BERTH_TOKEN"      // a token
	EnvTokenFile = "BERTH_TOKEN_FILE" // #nosec G101 -- a file with one; this is only its variable

	EnvCA   = "BERTH_CA_FILE"       // PEM files
	EnvCert = "BERTH_CERT_FILE"     //
	EnvKey  = "BERTH_CERT_KEY_FILE" //
)

const (
	defaultAPI     = "http://127.0.0.1:7070"
	defaultProject = "default"
)

// settings are the flags every command has.
type settings struct {
	api     string
	project string
	output  string
	timeout time.Duration // of one request to the API
	tls     client.TLS
	token   string // that is shown; empty: what findToken finds
	errs    func() io.Writer
	dial    func(ctx context.Context, network, address string) (net.Conn, error) // of the API; nil: the network's
}

// isCommand refuses a word that is no command, with those that are like it.
func isCommand(cmd *cobra.Command, args []string) error {
	if len(args) == 0 {
		return nil
	}
	text := fmt.Sprintf("unknown command %q for %q", args[0], cmd.CommandPath())
	if like := cmd.SuggestionsFor(args[0]); len(like) > 0 {
		text += "; did you mean " + strings.Join(like, " or ") + "?"
	}
	return errors.New(text)
}

// NewRoot is the command line with everything that talks to the API. The
// commands that run daemons are added by main.
func NewRoot() *cobra.Command {
	var s settings
	var root *cobra.Command
	s.errs = func() io.Writer { return root.ErrOrStderr() }
	root = &cobra.Command{
		Use:   "berth",
		Short: "Boot machines: hosts pull the work they can start right now",
		Long: `berth boots machines on hosts that pull their work from queues.

It talks to the API node at --api (or $` + EnvAPI + `) for the project --project
(or $` + EnvProject + `). Where callers sign in, it shows the token of $` + EnvToken + `, of the file
$` + EnvTokenFile + `, or the one that berth login keeps.

Exit codes: 0 ok, 1 error, 2 usage, 3 not found, 4 quota, 5 no capacity or
deadline, 6 not allowed, 7 wait timed out, 8 conflict or ambiguous name, 9 a host
not empty by its deadline.`,
		SilenceErrors: true,
		SilenceUsage:  true,
		Args:          isCommand,

		PersistentPreRunE: refuseEmpty,

		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	root.SuggestionsMinimumDistance = 2
	flags := root.PersistentFlags()
	flags.StringVar(&s.api, "api", env(EnvAPI, defaultAPI), "address of an API node ($"+EnvAPI+")")
	flags.Lookup("api").DefValue = defaultAPI // the help shows it, and the variable may have a password
	flags.StringVar(
		&s.project,
		"project",
		env(EnvProject, defaultProject),
		"whose instances and quota ($"+EnvProject+")",
	)
	flags.StringVarP(&s.output, "output", "o", string(FormatTable), "table, wide, json, yaml or name")
	flags.DurationVar(&s.timeout, "request-timeout", 30*time.Second, "how long one answer of the API may take")
	flags.StringVar(&s.tls.CA, "ca", os.Getenv(EnvCA),
		"file of the authorities of API nodes on https; without it this machine's ($"+EnvCA+")")
	flags.StringVar(&s.tls.Cert, "cert", os.Getenv(EnvCert),
		"file of your own certificate, where nodes want one ($"+EnvCert+")")
	flags.StringVar(&s.tls.Key, "cert-key", os.Getenv(EnvKey), "file of its key ($"+EnvKey+")")
	mayBeEmpty(flags, "ca", "cert", "cert-key") // to do without what a variable names
	root.AddCommand(
		newFlavor(&s), newCapability(&s), newValid(&s), newQuota(&s), newGroup(&s), newReservation(&s),
		newBoot(&s), newReserve(&s), newList(&s), newShow(&s), newExplain(&s), newWhy(&s), newDelete(&s),
		newEvents(&s), newForward(&s), newHistory(&s),
		newPower(&s, compute.OpStop), newPower(&s, compute.OpStart), newPower(&s, compute.OpReboot),
		newLabel(&s), newRename(&s), newConsole(&s),
		newQueue(&s), newCapacity(&s), newHost(&s),
		newToken(&s), newLogin(&s), newLogout(), newWhoami(&s),
	)
	completions{&s}.add(root)
	addScripts(root)
	return root
}

// HideGlobalFlags leaves the flags that every command has out of a command's help and out of that of those below it:
// they are about the API, and it does not talk to it.
func HideGlobalFlags(cmd *cobra.Command) {
	help := cmd.HelpFunc()
	cmd.SetHelpFunc(func(c *cobra.Command, args []string) {
		c.InheritedFlags().VisitAll(func(f *pflag.Flag) { f.Hidden = true })
		help(c, args)
	})
}

// open makes the client and checks what all commands share.
func (s *settings) open() (*client.Client, Format, error) {
	f, err := ParseFormat(s.output)
	if err != nil {
		return nil, "", err
	}
	if err := compute.Project(s.project).Check(); err != nil {
		return nil, "", err
	}
	if s.timeout < 0 {
		return nil, "", compute.Invalid("request-timeout", s.timeout.String(), "give a duration above 0, as in 30s")
	}
	token := &shownToken{token: s.token}
	if s.token == "" {
		if err := token.look(); err != nil {
			return nil, "", err
		}
	}
	c, err := client.New(client.Config{
		Address:  s.api,
		TLS:      s.tls,
		TokenNow: token.now,
		Project:  compute.Project(s.project),
		Timeout:  s.timeout,
		Dial:     s.dial,
		Patience: min(s.timeout, 10*time.Second), // a person waits for it
	})
	if err == nil && token.token != "" && inTheClear(s.api) {
		fmt.Fprintf(s.errs(), "berth: the token crosses the network in the clear, and whoever reads it can use it: "+
			"give an https address instead of %s\n", s.api)
	}
	return c, f, err
}

// Dial makes the client that the root's flags on a command ask for, for commands that are added by main.
func Dial(cmd *cobra.Command) (*client.Client, error) {
	flag := func(name string) string { return cmd.Flag(name).Value.String() }
	timeout, err := cmd.Flags().GetDuration("request-timeout")
	if err != nil {
		return nil, err
	}
	s := settings{
		api: flag("api"), project: flag("project"), output: flag("output"), timeout: timeout,
		tls: client.TLS{CA: flag("ca"), Cert: flag("cert"), Key: flag("cert-key")}, errs: cmd.ErrOrStderr,
	}
	c, _, err := s.open()
	return c, err
}

// NamesAPI says whether a caller of a command has named an API node, instead of leaving it to the default.
func NamesAPI(cmd *cobra.Command) bool { return cmd.Flag("api").Changed || os.Getenv(EnvAPI) != "" }

// inTheClear says whether what is sent to an address can be read on its way.
func inTheClear(address string) bool {
	if !strings.Contains(address, "://") {
		address = "http://" + address
	}
	u, err := url.Parse(address)
	if err != nil || u.Scheme != "http" {
		return false
	}
	return !loopback.Host(u.Hostname())
}

func env(name, otherwise string) string {
	if v := os.Getenv(name); v != "" {
		return v
	}
	return otherwise
}

// Variables are the names of all variables that the command line reads.
func Variables() []string {
	return []string{EnvAPI, EnvProject, EnvToken, EnvTokenFile, EnvCA, EnvCert, EnvKey}
}
