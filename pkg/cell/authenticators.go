// SPDX-License-Identifier: Apache-2.0

package cell

import (
	"github.com/berth-project/berth/pkg/auth"
	"github.com/berth-project/berth/pkg/auth/clientcert"
	"github.com/berth-project/berth/pkg/auth/oidc"
)

// Authenticators are what callers of an API node may sign in with besides tokens. What a caller
// sends with a request counts before what its connection has: a certificate may be a machine's, which
// several people use.
func Authenticators(c Cell, issuers []oidc.Settings, certificates []clientcert.Rule) (auth.Chain, error) {
	var chain auth.Chain
	if len(issuers) > 0 {
		a, err := oidc.New(issuers, oidc.Options{Log: c.Log, Now: c.Clock.now()})
		if err != nil {
			return nil, err
		}
		chain = append(chain, a)
	}
	if len(certificates) > 0 {
		chain = append(chain, clientcert.New(certificates, c.Clock.now()))
	}
	return chain, nil
}
