// SPDX-License-Identifier: Apache-2.0

package share

import (
	"encoding/hex"
	"strings"
	"testing"

	"github.com/berth-project/berth/pkg/compute"
)

// FuzzTopicID reads topic ids as queue lists name them.
func FuzzTopicID(f *testing.F) {
	f.Add("00112233445566778899aabbccddeeff")
	f.Add("0011223344556677-899aabbccddeeff")
	f.Fuzz(func(t *testing.T, name string) {
		if id, err := parseTopicID(compute.TopicID(name)); err == nil && !strings.EqualFold(
			hex.EncodeToString(id[:]), name,
		) {
			t.Errorf("topic id %q is %x", name, id)
		}
	})
}
