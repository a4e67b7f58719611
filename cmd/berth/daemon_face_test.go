// SPDX-License-Identifier: Apache-2.0

package main

import (
	"testing"

	"github.com/berth-project/berth/pkg/auth/clientcert"
	"github.com/berth-project/berth/pkg/auth/oidc"
	"github.com/berth-project/berth/pkg/statusserver"
)

// Where callers sign in, whichever way, nobody sees the metrics before the node can tell operators from others.
func TestMetricsAreGuardedFromTheStart(t *testing.T) {
	for name, auth := range map[string]authConfig{
		"nobody signs in": {},
		"tokens":          {Tokens: true},
		"OIDC":            {OIDC: []oidc.Settings{{}}},
		"certificates":    {Certificates: []clientcert.Rule{{}}},
	} {
		c := defaultAPIConfig()
		c.Auth = auth
		o, err := c.face().options(statusserver.Options{})
		if err != nil || o.Guarded != (name != "nobody signs in") {
			t.Errorf("%s: guarded: %t, %v", name, o.Guarded, err)
		}
	}
}
