// SPDX-License-Identifier: Apache-2.0

package doctor

import (
	"fmt"
	"time"
)

// CertificateFacts are of the certificate that kafka.tls.cert of the doctor's own file names.
type CertificateFacts struct {
	File    string // empty: there is none
	Expires time.Time
}

// certificateReserve is how long a certificate should be good for yet: long enough to see this, and to renew it.
const certificateReserve = 7 * 24 * time.Hour

// certificate judges for how long brokers will know the processes that have this file.
func certificate(f Facts) []Finding {
	c := f.Certificate
	if c.File == "" {
		return nil
	}
	out := Finding{
		About: "kafka.tls.cert", Check: "expires", Is: c.Expires.UTC().Format(time.RFC3339),
		Wanted: "in more than 7 days",
		Why: "brokers take no new connection from whatever shows " + c.File + " after that: it stops at the next loss " +
			"of one",
		Fix: fmt.Sprintf("put a new certificate and its key in the place of %s: they are read for every connection", c.File),
	}
	return []Finding{out.with(when(c.Expires.Sub(f.Now) < certificateReserve, Warn, OK))}
}
