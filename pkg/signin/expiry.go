// SPDX-License-Identifier: Apache-2.0

package signin

import (
	"encoding/base64"
	"encoding/json"
	"strings"
	"time"
)

// expiry is until when a token says that it counts. Nobody has checked it: it says when to renew, and
// nothing else.
func expiry(token string) (at time.Time, ok bool) {
	parts := strings.Split(token, ".")
	if len(parts) != 3 {
		return time.Time{}, false
	}
	data, err := base64.RawURLEncoding.DecodeString(parts[1])
	if err != nil {
		return time.Time{}, false
	}
	var claims struct {
		Expires float64 `json:"exp"`
	}
	if json.Unmarshal(data, &claims) != nil || claims.Expires <= 0 || claims.Expires > 1e11 {
		return time.Time{}, false
	}
	return time.Unix(int64(claims.Expires), 0), true
}
