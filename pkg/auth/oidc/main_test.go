// SPDX-License-Identifier: Apache-2.0

package oidc

import (
	"os"
	"testing"
	"time"
)

func TestMain(m *testing.M) {
	askTimeout = time.Minute
	os.Exit(m.Run())
}
