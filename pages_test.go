// SPDX-License-Identifier: Apache-2.0

package berth

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"
)

// pages are all documents that people read, decisions too.
func pages(t *testing.T) (all []string) {
	t.Helper()
	walk(t, func(file string) {
		if strings.HasSuffix(file, ".md") {
			all = append(all, file)
		}
	})
	if len(all) < 20 {
		t.Fatalf("%d pages found", len(all))
	}
	return all
}

var (
	linked   = regexp.MustCompile(`\]\(([^)\s]+)\)`)
	heading  = regexp.MustCompile(`(?m)^#+ +(.+)$`)
	noAnchor = regexp.MustCompile(`[^\p{L}\p{N} _-]`)
)

// anchor is where a heading is found, as GitHub makes it.
func anchor(heading string) string {
	return strings.ReplaceAll(noAnchor.ReplaceAllString(strings.ToLower(heading), ""), " ", "-")
}

// TestLinks: each link between pages leads to a file, and to a heading where it names one.
func TestLinks(t *testing.T) {
	seen := 0
	for _, page := range pages(t) {
		for _, m := range linked.FindAllStringSubmatch(read(t, page), -1) {
			to, at, _ := strings.Cut(m[1], "#")
			if strings.Contains(to, "://") || strings.HasPrefix(to, "mailto:") {
				continue
			}
			seen++
			file := page
			if to != "" {
				file = filepath.Join(filepath.Dir(page), to)
			}
			if _, err := os.Stat(file); err != nil {
				t.Errorf("%s links to %s: there is no such file", page, m[1])
				continue
			}
			if at != "" && !hasAnchor(t, file, at) {
				t.Errorf("%s links to %s: the page has no such heading", page, m[1])
			}
		}
	}
	if seen < 50 {
		t.Errorf("only %d links found", seen)
	}
}

// TestEveryPageIsReached: following links from docs/index.md a reader finds every page of docs. A link to a folder
// reaches the pages in it.
func TestEveryPageIsReached(t *testing.T) {
	reached, next := map[string]bool{}, []string{"docs/index.md"}
	for len(next) > 0 {
		page := next[0]
		next = next[1:]
		if reached[page] {
			continue
		}
		reached[page] = true
		if info, err := os.Stat(page); err == nil && info.IsDir() {
			next = append(next, glob(t, page+"/*.md")...)
			continue
		}
		for _, m := range linked.FindAllStringSubmatch(read(t, page), -1) {
			to, _, _ := strings.Cut(m[1], "#")
			file, kind := filepath.Join(filepath.Dir(page), to), filepath.Ext(to)
			if !strings.Contains(to, "://") && strings.HasPrefix(file, "docs/") && (kind == ".md" || kind == "") {
				next = append(next, file)
			}
		}
	}
	for _, page := range pages(t) {
		if strings.HasPrefix(page, "docs/") && !reached[page] {
			t.Errorf("no link leads from docs/index.md to %s", page)
		}
	}
}

// TestIndexHasEachPageOnce: docs/index.md itself links to each page of docs, those in its folders aside, in one place.
func TestIndexHasEachPageOnce(t *testing.T) {
	links := map[string]int{}
	for _, m := range linked.FindAllStringSubmatch(read(t, "docs/index.md"), -1) {
		links[m[1]]++
	}
	for _, page := range glob(t, "docs/*.md") {
		if name := filepath.Base(page); name != "index.md" && links[name] != 1 {
			t.Errorf("docs/index.md links to %s in %d places, not in one", name, links[name])
		}
	}
}

// TestConceptsAreNames: what docs/concepts.md explains is a word of docs/NAMES.md.
func TestConceptsAreNames(t *testing.T) {
	item, bold := regexp.MustCompile(`(?m)^\* (\*\*.+?\*\*): `), regexp.MustCompile(`\*\*[^*]+\*\*`)
	names, seen := read(t, "docs/NAMES.md"), 0
	for _, m := range item.FindAllStringSubmatch(read(t, "docs/concepts.md"), -1) {
		for _, word := range bold.FindAllString(m[1], -1) {
			if seen++; !strings.Contains(names, word) {
				t.Errorf("docs/concepts.md explains %s, and docs/NAMES.md has no such word", word)
			}
		}
	}
	if seen < 15 {
		t.Errorf("only %d words found", seen)
	}
}

func hasAnchor(t *testing.T, file, at string) bool {
	t.Helper()
	for _, h := range heading.FindAllStringSubmatch(read(t, file), -1) {
		if anchor(h[1]) == at {
			return true
		}
	}
	return false
}

// TestNamedPages: what code, tests and scripts call docs/….md is there.
func TestNamedPages(t *testing.T) {
	named := regexp.MustCompile(`docs/[A-Za-z0-9/_-]+\.md`)
	seen := 0
	walk(t, func(file string) {
		if !strings.HasSuffix(file, ".go") && filepath.Base(file) != "Makefile" {
			return
		}
		for _, page := range named.FindAllString(read(t, file), -1) {
			seen++
			if _, err := os.Stat(page); err != nil {
				t.Errorf("%s names %s, which is not there", file, page)
			}
		}
	})
	if seen < 10 {
		t.Fatalf("%d pages named", seen)
	}
}

// TestPagesSayWhatTheyAreFor: each page begins with the readers it is for.
func TestPagesSayWhatTheyAreFor(t *testing.T) {
	for _, page := range slices.Concat(glob(t, "docs/*.md"), glob(t, "docs/non-obvious/*.md")) {
		_, text, _ := strings.Cut(read(t, page), "\n")
		if !strings.HasPrefix(strings.TrimSpace(text), "For ") {
			t.Errorf("%s does not begin with the readers it is for (\"For operators who …\")", page)
		}
	}
}

// TestNonObviousItems: each item is a sentence in bold that names the trap, and short.
func TestNonObviousItems(t *testing.T) {
	const most, columns = 4, 120
	pages := glob(t, "docs/non-obvious/*.md")
	if len(pages) < 5 {
		t.Fatalf("only %d pages", len(pages))
	}
	for _, page := range pages {
		lines := 0 // of the item
		for i, line := range strings.Split(read(t, page), "\n") {
			switch {
			case strings.HasPrefix(line, "* "):
				if lines = 1; !strings.HasPrefix(line, "* **") {
					t.Errorf("%s:%d: the item does not begin with its trap in bold", page, i+1)
				}
			case strings.HasPrefix(line, "  "):
				if lines++; lines == most+1 {
					t.Errorf("%s:%d: the item has more than %d lines", page, i+1, most)
				}
			}
			if n := utf8.RuneCountInString(line); n > columns {
				t.Errorf("%s:%d: %d columns, at most %d", page, i+1, n, columns)
			}
		}
	}
}

// TestNamedTests: a test, a story or a schedule that a page names is there. Decisions
// are not changed afterwards, so they may name what is gone.
func TestNamedTests(t *testing.T) {
	there := map[string]bool{}
	made := regexp.MustCompile(`(?m)^func (Test[A-Za-z0-9]+)\(`)
	walk(t, func(file string) {
		switch {
		case strings.HasSuffix(file, "_test.go"):
			for _, m := range made.FindAllStringSubmatch(read(t, file), -1) {
				there[m[1]] = true
			}
		case strings.Contains(file, "testdata"):
			there[filepath.Base(file)] = true
		}
	})
	named := regexp.MustCompile("`(?:(Test[A-Z][A-Za-z0-9]+)|([a-z0-9_]+_[a-z0-9_]+\\.(?:txt|json)))[`/]")
	seen := 0
	for _, page := range slices.Concat(glob(t, "docs/*.md"), glob(t, "docs/non-obvious/*.md")) {
		for _, m := range named.FindAllStringSubmatch(read(t, page), -1) {
			if seen++; !there[m[1]+m[2]] {
				t.Errorf("%s names %s, which is not there", page, m[1]+m[2])
			}
		}
	}
	if seen < 200 {
		t.Errorf("only %d names found", seen)
	}
}

// TestReasonsAreExplained: each code of a reason, or of why a machine does not run, is in STATES.
func TestReasonsAreExplained(t *testing.T) {
	states := read(t, "docs/STATES.md")
	for _, code := range reasonCodes(t) {
		if !strings.Contains(states, "| `"+code+"`") && !strings.Contains(states, ", `"+code+"` |") {
			t.Errorf("docs/STATES.md has no line for %s", code)
		}
	}
}

func reasonCodes(t *testing.T) (codes []string) {
	t.Helper()
	for _, m := range regexp.MustCompile(`ReasonCode += "([A-Za-z]+)"`).FindAllStringSubmatch(
		read(t, "pkg/compute/reason.go"), -1,
	) {
		codes = append(codes, m[1])
	}
	if len(codes) < 20 {
		t.Fatalf("only %d codes found", len(codes))
	}
	return codes
}

// TestReasonsHaveRemedies: docs/troubleshoot.md has a section for each code and for nothing else, which says what the
// code means, and what a project and an operator can do.
func TestReasonsHaveRemedies(t *testing.T) {
	const page = "docs/troubleshoot.md"
	has := map[string]string{}
	for _, section := range strings.Split(read(t, page), "\n### ")[1:] {
		section, _, _ = strings.Cut(section, "\n## ")
		code, text, _ := strings.Cut(section, "\n")
		if has[code] != "" {
			t.Errorf("%s has two sections %s", page, code)
		}
		has[code] = strings.TrimSpace(text)
	}
	for _, code := range reasonCodes(t) {
		text, ok := has[code]
		delete(has, code)
		means, do, project := strings.Cut(text, "\n* Project: ")
		switch _, _, operator := strings.Cut(do, "\n* Operator: "); {
		case !ok:
			t.Errorf("%s has no section for %s", page, code)
		case strings.TrimSpace(means) == "" || !project || !operator:
			t.Errorf("%s: %s: want a sentence, then the items \"Project: \" and \"Operator: \"", page, code)
		}
	}
	for code := range has {
		t.Errorf("%s has a section %s, which is no code of a reason", page, code)
	}
}

// TestNamesAreUsed: a word of NAMES is in the code or on a page for users, or nobody
// needs to learn it.
func TestNamesAreUsed(t *testing.T) {
	var said strings.Builder
	for _, page := range []string{"README.md", "docs/OPERATIONS.md", "docs/HYPERVISORS.md"} {
		said.WriteString(strings.ToLower(read(t, page)))
	}
	walk(t, func(file string) {
		if strings.HasSuffix(file, ".go") {
			said.WriteString(strings.ToLower(read(t, file)))
		}
	})
	seen := 0
	for _, line := range strings.Split(read(t, "docs/NAMES.md"), "\n") {
		word, _, row := strings.Cut(line, " | ")
		if !row || !strings.HasPrefix(line, "| **") {
			continue
		}
		for _, m := range regexp.MustCompile(`\*\*(.+?)\*\*`).FindAllStringSubmatch(word, -1) {
			if seen++; !strings.Contains(said.String(), strings.ToLower(m[1])) {
				t.Errorf("docs/NAMES.md explains %q, which nothing says", m[1])
			}
		}
	}
	if seen < 60 {
		t.Errorf("only %d words found", seen)
	}
}

// TestGosecPage: what the Makefile keeps gosec from looking at has its reason in docs/GOSEC.md.
func TestGosecPage(t *testing.T) {
	page, seen := read(t, "docs/GOSEC.md"), 0
	left := regexp.MustCompile(`(?m)^GOSEC_(RULES|FOLDERS|WITHIN) *:= *(.+)$`)
	for _, m := range left.FindAllStringSubmatch(read(t, "Makefile"), -1) {
		for _, word := range regexp.MustCompile(`G\d{3}|(docs|pkg)/[a-z]+|testdata`).FindAllString(m[2], -1) {
			if seen++; !strings.Contains(page, word) {
				t.Errorf("GOSEC_%s has %s, and docs/GOSEC.md has no word of it", m[1], word)
			}
		}
	}
	if seen < 8 {
		t.Errorf("%d words found", seen)
	}
}
