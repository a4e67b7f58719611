// SPDX-License-Identifier: Apache-2.0

package berth

import (
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

const spdx = "SPDX-License-Identifier: Apache-2.0"

// TestSPDX: each source file that people write says in its first line, a script behind the line
// that names its shell, under which license it is. In Go an empty line follows, so that the
// line is no part of the package's doc and a build tag stays one.
func TestSPDX(t *testing.T) {
	var (
		generated = regexp.MustCompile(`(?m)^// Code generated .* DO NOT EDIT\.$`)
		shell     = regexp.MustCompile(`^#!.*\b(sh|bash)\b`)
		seen      = 0
	)
	walk(t, func(file string) {
		ext, base := filepath.Ext(file), filepath.Base(file)
		text, want := "", ""
		switch {
		case ext == ".go" && !strings.Contains(file, "testdata/"):
			if text = read(t, file); generated.MatchString(strings.SplitN(text, "\npackage ", 2)[0]) {
				return
			}
			want = "// " + spdx + "\n\n"
		case ext == ".proto":
			text, want = read(t, file), "// "+spdx+"\n\n"
		case base == "Makefile" || ext == ".mk":
			text, want = read(t, file), "# "+spdx+"\n"
		case ext == "" || ext == ".sh":
			if text = read(t, file); !shell.MatchString(text) {
				return
			}
			_, text, _ = strings.Cut(text, "\n")
			want = "# " + spdx + "\n"
		default:
			return
		}
		if seen++; !strings.HasPrefix(text, want) {
			t.Errorf("%s does not begin with %q", file, want)
		}
	})
	if seen < 500 {
		t.Errorf("only %d source files were found", seen)
	}
}
