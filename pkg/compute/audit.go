// SPDX-License-Identifier: Apache-2.0

package compute

import "time"

// AuditEntry is what is kept of one call of the API that changed something or was refused. It never has
// user data, keys, tokens or bodies in it.
type AuditEntry struct {
	At        time.Time // by the clock of the node
	Node      string    // the API node
	Request   string    // X-Request-Id; a caller may have chosen it
	Who       string    // the caller's name; "anonymous" where nobody signs in; empty: not known
	WhoID     string    // a token's id, an issuer and subject
	How       string    // token, oidc, cert; empty: it did not sign in
	Operation string    // of the OpenAPI document
	Project   Project   // empty: the cell's, or not known
	Target    string    // as in "instance/<id>" or "host/h1"; empty: not known
	Remote    string    // address that the call came from
	Status    int32     // of HTTP
	Kind      string    // of the problem of a refusal
	LeftOut   uint64    // refusals before it that the node wrote no entry for
}
