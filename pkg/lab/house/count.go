// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"maps"
	"path"
	"regexp"
	"slices"
	"strings"
	"unicode/utf8"
)

// row is one thing that is counted.
type row struct{ what, counted string }

const (
	mostFiles    = 25  // of a package
	longFunction = 60  // lines
	longLine     = 120 // columns
)

// census is what was found in files.
type census struct {
	files, lines      map[string]int // by package, tests left out
	methods           map[string]int // by package and type
	functions         []int          // lines of each
	all, long, widest int            // lines of Go, of them longer than longLine, the longest
	persons           int            // comment lines
	words             int
}

var persons = regexp.MustCompile(`(?i)\bwho(ever|m|se)?\b`)

// count counts all there is below a folder.
func count(root fs.FS) ([]row, error) {
	c := census{files: map[string]int{}, lines: map[string]int{}, methods: map[string]int{}}
	err := fs.WalkDir(root, ".", func(file string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && (strings.HasPrefix(d.Name(), ".") && file != "." || d.Name() == "testdata"):
			return fs.SkipDir
		case strings.HasSuffix(file, ".go") && !strings.HasSuffix(file, ".pb.go"):
			return c.source(root, file)
		case strings.HasPrefix(file, "docs/") && strings.HasSuffix(file, ".md") &&
			!strings.HasPrefix(file, "docs/decisions/"):
			text, err := fs.ReadFile(root, file)
			c.words += len(bytes.Fields(text))
			return err
		}
		return nil
	})
	return c.rows(), err
}

func (c *census) source(root fs.FS, file string) error {
	text, err := fs.ReadFile(root, file)
	if err != nil {
		return err
	}
	for line := range bytes.Lines(text) {
		n := utf8.RuneCount(bytes.TrimRight(line, "\n"))
		c.all++
		c.widest = max(c.widest, n)
		if n > longLine {
			c.long++
		}
	}
	set := token.NewFileSet()
	f, err := parser.ParseFile(set, file, text, parser.ParseComments|parser.SkipObjectResolution)
	if err != nil {
		return err
	}
	for _, g := range f.Comments {
		for _, line := range g.List {
			for text := range strings.Lines(line.Text) {
				if persons.MatchString(text) {
					c.persons++
				}
			}
		}
	}
	if strings.HasSuffix(file, "_test.go") {
		return nil
	}
	dir := path.Dir(file)
	c.files[dir]++
	c.lines[dir] += set.File(f.Pos()).LineCount()
	for _, d := range f.Decls {
		fn, ok := d.(*ast.FuncDecl)
		if !ok {
			continue
		}
		c.functions = append(c.functions, set.Position(fn.End()).Line-set.Position(fn.Pos()).Line+1)
		if fn.Recv != nil && len(fn.Recv.List) == 1 {
			c.methods[dir+" "+typeOf(fn.Recv.List[0].Type)]++
		}
	}
	return nil
}

// typeOf is the name of a receiver's type.
func typeOf(x ast.Expr) string {
	switch x := x.(type) {
	case *ast.StarExpr:
		return typeOf(x.X)
	case *ast.IndexExpr:
		return typeOf(x.X)
	case *ast.Ident:
		return x.Name
	}
	return "?"
}

func (c *census) rows() []row {
	var large []string
	for _, dir := range slices.Sorted(maps.Keys(c.files)) {
		if c.files[dir] > mostFiles {
			large = append(large, fmt.Sprintf("%s %d", dir, c.files[dir]))
		}
	}
	slices.Sort(c.functions)
	p90, above := 0, 0
	if n := len(c.functions); n > 0 {
		p90 = c.functions[n*9/10]
	}
	for _, n := range c.functions {
		if n > longFunction {
			above++
		}
	}
	lines, most := largest(c.lines), largest(c.methods)
	return []row{
		{
			fmt.Sprintf("packages of more than %d files, tests left out", mostFiles),
			fmt.Sprintf("%d: %s", len(large), strings.Join(large, ", ")),
		},
		{"the package of most lines, tests left out", fmt.Sprintf("%s, %d", lines, c.lines[lines])},
		{"the type of most methods", fmt.Sprintf("%s, %d", most, c.methods[most])},
		{
			"functions: how many, lines of the 90th of a hundred, longer than " + fmt.Sprint(longFunction),
			fmt.Sprintf("%d, %d, %d", len(c.functions), p90, above),
		},
		{
			fmt.Sprintf("lines longer than %d columns, the longest", longLine),
			fmt.Sprintf("%d of %d (%.1f %%), %d", c.long, c.all, 100*float64(c.long)/float64(max(1, c.all)), c.widest),
		},
		{"comment lines with who, whom, whose or whoever", fmt.Sprint(c.persons)},
		{"words in docs, decisions left out", fmt.Sprint(c.words)},
	}
}

// largest is the key of the largest number, the first of equals.
func largest(of map[string]int) (key string) {
	for _, k := range slices.Sorted(maps.Keys(of)) {
		if key == "" || of[k] > of[key] {
			key = k
		}
	}
	return key
}
