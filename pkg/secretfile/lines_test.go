// SPDX-License-Identifier: Apache-2.0

package secretfile

import (
	"encoding/hex"
	"slices"
	"strings"
	"testing"

	"github.com/berth-project/berth/pkg/compute"
)

// pair is a line of these tests: a word, and a secret.
func pair(words []string) (string, bool) {
	if len(words) != 2 {
		return "", false
	}
	_, ok := DecodeSecret(words[1])
	return words[0], ok
}

func TestParse(t *testing.T) {
	secret := strings.Repeat("0a", 32)
	all, err := Parse("f", "file", "do", []byte("# a "+secret+"\r\n\n \t\r\n b  "+secret+" \nc "+secret), pair)
	if err != nil || !slices.Equal(all, []string{"b", "c"}) {
		t.Errorf("%q, %v", all, err)
	}
	for _, bad := range []string{
		"planted", "a planted", "a " + secret[2:], "a " + secret + "0a", "a " + strings.Repeat("00", 32), "a b " + secret,
		"a " + strings.Repeat("0g", 32),
	} {
		all, err := Parse("f", "file", "do", []byte("b "+secret+"\n#\n"+bad), pair)
		if compute.KindOf(err) != compute.KindInvalid || !strings.Contains(err.Error(), "file:3") || all != nil ||
			strings.Contains(err.Error(), "planted") || strings.Contains(err.Error(), "0a0a") {
			t.Errorf("%q: %q, %v", bad, all, err)
		}
	}
}

// FuzzParse: what is read of a file is read again of what it says, and nothing does harm.
func FuzzParse(f *testing.F) {
	f.Add([]byte("a " + strings.Repeat("0a", 32)))
	f.Add([]byte("# x\n*"))
	f.Fuzz(func(t *testing.T, text []byte) {
		type line struct {
			name   string
			secret [32]byte
		}
		parse := func(words []string) (l line, ok bool) {
			if len(words) != 2 {
				return l, false
			}
			l.name = words[0]
			l.secret, ok = DecodeSecret(words[1])
			return l, ok
		}
		all, err := Parse("f", "file", "do", text, parse)
		if err != nil {
			return
		}
		var again []string
		for _, l := range all {
			again = append(again, l.name+" "+hex.EncodeToString(l.secret[:]))
		}
		same, err := Parse("f", "file", "do", []byte(strings.Join(again, "\n")), parse)
		if err != nil || !slices.Equal(all, same) {
			t.Errorf("%q is read as %v, %v", text, same, err)
		}
	})
}
