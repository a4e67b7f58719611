// SPDX-License-Identifier: Apache-2.0

package ui_test

import (
	"io/fs"
	"net/http"
	"net/http/httptest"
	"os"
	"path"
	"regexp"
	"strings"
	"testing"

	"github.com/berth-project/berth/pkg/ui"
)

func get(t *testing.T, target string, header ...string) *http.Response {
	t.Helper()
	r := httptest.NewRequest(http.MethodGet, target, nil)
	for i := 0; i < len(header); i += 2 {
		r.Header.Set(header[i], header[i+1])
	}
	w := httptest.NewRecorder()
	ui.Handler().ServeHTTP(w, r)
	return w.Result()
}

// TestFiles: each file is served as what it is, under the policy that keeps it to itself, and not again to a browser
// that has it.
func TestFiles(t *testing.T) {
	seen := 0
	err := fs.WalkDir(os.DirFS("static"), ".", func(name string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		seen++
		a := get(t, "/ui/"+name)
		policy := a.Header.Get("Content-Security-Policy")
		if a.StatusCode != http.StatusOK || a.Header.Get("Content-Type") == "" ||
			!strings.HasPrefix(policy, "default-src 'self';") || strings.Contains(policy, "unsafe") {
			t.Errorf("%s: %d %v", name, a.StatusCode, a.Header)
		}
		again := get(t, "/ui/"+name, "If-None-Match", a.Header.Get("ETag"))
		if again.StatusCode != http.StatusNotModified {
			t.Errorf("%s again: %d", name, again.StatusCode)
		}
		if old := get(t, "/ui/"+name, "If-None-Match", `"another"`); old.StatusCode != http.StatusOK {
			t.Errorf("%s to a browser that has another: %d", name, old.StatusCode)
		}
		return nil
	})
	if err != nil || seen < 20 {
		t.Fatalf("%d files, %v", seen, err)
	}
	if a := get(t, "/ui/"); a.Header.Get("Content-Type") != "text/html; charset=utf-8" {
		t.Errorf("/ui/ is %v", a.Header)
	}
	if a := get(t, "/ui/../../etc/passwd"); a.StatusCode != http.StatusFound || a.Header.Get("Location") != "/ui/" {
		t.Errorf("what is not there answers %d to %s", a.StatusCode, a.Header.Get("Location"))
	}
}

// TestModulesNameFilesThatAreThere: a page whose import is not there would show nothing, and only when it is opened.
// None sets markup, and none names another place than this node.
func TestModulesNameFilesThatAreThere(t *testing.T) {
	imported := regexp.MustCompile(`(?m)^(?:import|export) .*from "([^"]+)";$`)
	seen := 0
	for _, pattern := range []string{"static/*.js", "static/pages/*.js", "static/*.html", "static/*.css"} {
		for _, name := range globbed(t, pattern) {
			data, err := os.ReadFile(name)
			if err != nil {
				t.Fatal(err)
			}
			for _, m := range imported.FindAllStringSubmatch(string(data), -1) {
				seen++
				if _, err := os.Stat(path.Join(path.Dir(name), m[1])); err != nil {
					t.Errorf("%s imports %s, which is not there", name, m[1])
				}
			}
			for _, bad := range []string{"innerHTML", "://", "document.write", "eval("} {
				if strings.Contains(string(data), bad) {
					t.Errorf("%s has %s", name, bad)
				}
			}
		}
	}
	if seen < 50 {
		t.Errorf("only %d imports found", seen)
	}
}

func globbed(t *testing.T, pattern string) []string {
	t.Helper()
	names, err := fs.Glob(os.DirFS("."), pattern)
	if err != nil || len(names) == 0 {
		t.Fatalf("%s: %v", pattern, err)
	}
	return names
}
