// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/spf13/cobra"

	"github.com/berth-project/berth/pkg/compute"
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
		fmt.Fprintf(cmd.ErrOrStderr(), "Open %s and give the code %s\n", printable(page), printable(code))
		if direct != "" {
			fmt.Fprintf(cmd.ErrOrStderr(), "or open %s\n", printable(direct))
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
	if err := s.login(cmd); err != nil {
		return err
	}
	return keepSession(session)
}

func keepSession(session signin.Session) error {
	file, err := keptToken()
	if err != nil {
		return err
	}
	data, err := json.Marshal(session)
	if err != nil {
		return err
	}
	return replace(sessionFile(file), string(data)+"\n")
}

// renewed is the token kept in a file, or a new one if it is time. If there is none to be had the kept one is
// shown all the same: the node says what is wrong with it.
func renewed(file, token string) string {
	data, err := os.ReadFile(sessionFile(file))
	var session signin.Session
	if err != nil || json.Unmarshal(data, &session) != nil || session.Token != token || !session.Due(time.Now()) {
		return token // the kept one may have been given on standard input since
	}
	ctx, cancel := context.WithTimeout(context.Background(), renewTimeout)
	defer cancel()
	session, err = session.Renew(ctx)
	if err != nil {
		return token
	}
	if _, err := keep(session.Token); err == nil {
		_ = keepSession(session) // what cannot be kept is good for this command, and berth login for the next
	}
	return session.Token
}
