// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/berth-project/berth/pkg/client"
	"github.com/berth-project/berth/pkg/compute"
	"github.com/berth-project/berth/pkg/forward"
	"github.com/berth-project/berth/pkg/loopback"
	"github.com/berth-project/berth/pkg/secretfile"
)

// forwarding is the command line of forward.
type forwarding struct {
	to, toFile, secretFile, positionFile, source, host string
	states, reasons                                    []string
	wanted                                             client.Follow
}

func newForward(s *settings) *cobra.Command {
	var f forwarding
	cmd := &cobra.Command{
		Use:   "forward --to URL|--to-file FILE --secret-file FILE --position-file FILE",
		Short: "Post what changes to an HTTPS address: a web hook",
		Long: `Post what changes of the project's instances to an address, until it is stopped: first how they are now, then
each change, in batches of up to 100 CloudEvents, signed as Standard Webhooks are. What the receiver does not answer
with 2xx is posted again, for ever, and nothing behind it before: it gets all, in order, some of it twice, with the
same id.

How far the receiver has it is kept in the position file. Started again, with any API node, it goes on there. Where
changes may be missing, because a node does not have them any more, it says so (berth.gap) and tells anew how all are
now. Each receiver needs one forwarder and a position file of its own: a second forwarder with the same file is refused.

An address with a secret in it, as many services give out, is for --to-file: what is on the command line shows in the
list of processes.`,
		Example: "  (umask 077; echo whsec_$(head -c 32 /dev/urandom | base64) > hook.secret)\n" +
			"  berth forward --to https://cmdb.example.com/berth --secret-file hook.secret --position-file cmdb.position\n" +
			"  berth forward -A --state active,deleted --to https://bills.example.com --secret-file hook.secret " +
			"--position-file bills",
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return f.run(cmd, s) },
	}
	flags := cmd.Flags()
	flags.StringVar(&f.to, "to", "", "the receiver's address")
	flags.StringVar(&f.toFile, "to-file", "", "file with it, which nobody but this user may read")
	flags.StringVar(&f.secretFile, "secret-file", "", "file with what batches are signed with, at least 24 bytes")
	flags.StringVar(&f.positionFile, "position-file", "", "where to keep how far the receiver has it")
	flags.StringVar(&f.source, "source", "urn:berth",
		"source of the CloudEvents: whose they are, where there are several cells")
	flags.BoolVarP(&f.wanted.AllProjects, "all-projects", "A", false, "of all projects; for operators")
	flags.StringVar(&f.host, "host", "", "only of what this host has, or had before the change")
	flags.StringSliceVar(&f.states, "state", nil,
		"only changes to these states: queued, starting, active, deleting, deleted, error")
	flags.StringSliceVar(&f.reasons, "reason", nil, "only changes for these reasons, as in BuildFailed")
	selectorFlag(cmd, &f.wanted.Labels, "only of instances that have such labels, or had before the change")
	return cmd
}

func (f forwarding) run(cmd *cobra.Command, s *settings) error {
	to, err := f.receiver()
	if err != nil {
		return err
	}
	for _, needed := range []struct{ flag, value string }{
		{"secret-file", f.secretFile}, {"position-file", f.positionFile},
	} {
		if needed.value == "" {
			return compute.Invalid(needed.flag, "", "give --"+needed.flag)
		}
	}
	text, err := secretfile.Read("secret-file", f.secretFile)
	if err != nil {
		return err
	}
	secret, err := forward.ParseSecret("secret-file", text)
	if err != nil {
		return err
	}
	if f.wanted.States, err = eventStates(f.states); err != nil {
		return err
	}
	for _, r := range f.reasons {
		f.wanted.Reasons = append(f.wanted.Reasons, compute.ReasonCode(r))
	}
	f.wanted.Host = compute.HostID(f.host)
	c, _, err := s.open()
	if err != nil {
		return err
	}
	defer c.Close()
	say := func(format string, args ...any) {
		fmt.Fprintln(cmd.ErrOrStderr(), ShownTime(time.Now())+" "+Printable(fmt.Sprintf(format, args...)))
	}
	posts := poster()
	defer posts.CloseIdleConnections()
	return forward.Run(cmd.Context(), c.Events, forward.Options{
		To: to, Secret: secret, HTTP: posts, Wanted: f.wanted,
		Source: f.source, Say: say,
		Position: forward.Position{File: f.positionFile, Of: forward.Of(to, c.Project(), f.wanted)},
	})
}

// poster is what posts to the receiver.
func poster() *http.Client {
	transport := http.DefaultTransport.(*http.Transport).Clone()
	transport.HTTP2 = client.Pings()
	return &http.Client{CheckRedirect: noRedirect, Transport: transport}
}

// receiver is the address that is given, or is in the file.
func (f forwarding) receiver() (string, error) {
	switch {
	case f.to == "" && f.toFile == "":
		return "", compute.Invalid("to", "", "give --to or --to-file")
	case f.to != "" && f.toFile != "":
		return "", compute.Invalid("to-file", f.toFile, "give it or --to, not both")
	case f.to != "":
		return f.to, checkReceiver("to", f.to, f.to)
	}
	text, err := secretfile.Read("to-file", f.toFile)
	if err != nil {
		return "", err
	}
	to := strings.TrimSpace(string(text))
	return to, checkReceiver("to-file", f.toFile, to)
}

// checkReceiver refuses an address to which what changes would cross a network in the clear. shown is what errors show
// of it.
func checkReceiver(field, shown, address string) error {
	u, err := url.Parse(address)
	switch {
	case err != nil || u.Host == "" || u.Scheme != "https" && u.Scheme != "http":
		return compute.Invalid(field, shown, "give an address as in https://cmdb.example.com/berth")
	case u.User != nil && shown == address:
		return compute.Invalid(field, u.Redacted(), "leave the password out: batches are signed")
	case u.User != nil:
		return compute.Invalid(field, shown, "leave the password out: batches are signed")
	case u.Scheme == "http" && !loopback.Host(u.Hostname()):
		return compute.Invalid(field, shown, "give an https address: http is for this machine alone")
	}
	return nil
}

// noRedirect has a redirection count as a refusal: what is signed goes to no address but the one that was given.
func noRedirect(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
