// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"encoding/json"
	"fmt"
	"go/ast"
	"go/importer"
	"go/parser"
	"go/token"
	"go/types"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"time"
)

// built is a test binary with all mutants in it.
type built struct {
	dir, binary string
	mutants     []mutant
}

// chosen is the file that says which mutant is there.
const chosen = `package %s

import (
	"os"
	"strconv"
)

var mutant_, _ = strconv.Atoi(os.Getenv("MUTANT"))
`

// build builds the package in dir. What the compiler refuses is left out, and built again.
func build(dir, tmp string) (*built, error) {
	dir, err := filepath.Abs(dir)
	if err != nil {
		return nil, err
	}
	p, err := load(dir)
	if err != nil {
		return nil, err
	}
	refused := map[string]bool{} // lines
	for {
		b := &built{dir: dir, binary: filepath.Join(tmp, "tests")}
		overlay := map[string]string{filepath.Join(dir, "mutant_.go"): filepath.Join(tmp, "mutant_.go")}
		files := map[string][]byte{filepath.Join(tmp, "mutant_.go"): fmt.Appendf(nil, chosen, p.files[0].Name.Name)}
		for i, f := range p.files {
			name := p.fset.Position(f.Pos()).Filename
			m := &maker{src: p.sources[i], file: f, fset: p.fset, info: p.info, mutants: b.mutants,
				skip: func(x mutant) bool { return refused[line(x.at)] }}
			overlay[name] = filepath.Join(tmp, filepath.Base(name))
			files[overlay[name]] = m.mutate()
			b.mutants = m.mutants
		}
		files[filepath.Join(tmp, "overlay.json")], _ = json.Marshal(map[string]any{"Replace": overlay})
		for name, src := range files {
			if err := os.WriteFile(name, src, 0o600); err != nil {
				return nil, err
			}
		}
		out, err := command(dir, "test", "-c", "-vet=off", "-gcflags=-e", // all errors, not the first ten
			"-overlay", filepath.Join(tmp, "overlay.json"), "-o", b.binary, ".").CombinedOutput()
		if err == nil {
			return b, nil
		}
		more := false
		for _, at := range errorLine.FindAllStringSubmatch(string(out), -1) {
			n, _ := strconv.Atoi(at[2])
			l := line(token.Position{Filename: filepath.Join(dir, filepath.Base(at[1])), Line: n})
			more, refused[l] = more || !refused[l], true
		}
		if !more {
			return nil, fmt.Errorf("building %s: %w\n%s", dir, err, out)
		}
	}
}

var errorLine = regexp.MustCompile(`(?m)^(\S+\.go):(\d+):`)

func line(p token.Position) string { return fmt.Sprintf("%s:%d", p.Filename, p.Line) }

// loaded is a package, parsed and with its types.
type loaded struct {
	fset    *token.FileSet
	info    *types.Info
	files   []*ast.File
	sources [][]byte
}

func load(dir string) (*loaded, error) {
	list, err := command(dir, "list", "-f", `{{range .GoFiles}}{{$.Dir}}/{{.}} {{end}}`, ".").Output()
	if err != nil {
		return nil, fmt.Errorf("go list in %s: %w", dir, err)
	}
	deps, err := command(dir, "list", "-export", "-deps", "-f", "{{.ImportPath}} {{.Export}}", ".").Output()
	if err != nil {
		return nil, fmt.Errorf("go list -export in %s: %w", dir, err)
	}
	exports := map[string]string{}
	for l := range strings.Lines(string(deps)) {
		path, file, _ := strings.Cut(strings.TrimSpace(l), " ")
		exports[path] = file
	}
	p := &loaded{fset: token.NewFileSet(), info: &types.Info{Types: map[ast.Expr]types.TypeAndValue{}}}
	for _, name := range strings.Fields(string(list)) {
		src, err := os.ReadFile(name)
		if err != nil {
			return nil, err
		}
		f, err := parser.ParseFile(p.fset, name, src, parser.SkipObjectResolution)
		if err != nil {
			return nil, err
		}
		p.files, p.sources = append(p.files, f), append(p.sources, src)
	}
	c := types.Config{Importer: importer.ForCompiler(p.fset, "gc", func(path string) (io.ReadCloser, error) {
		return os.Open(exports[path])
	})}
	_, err = c.Check(dir, p.fset, p.files, p.info)
	return p, err
}

func command(dir string, args ...string) *exec.Cmd {
	c := exec.Command("go", args...)
	c.Dir = dir
	return c
}

// fate is what became of a mutant.
type fate string

const (
	killed   fate = "killed"
	timedOut fate = "timed out"
	survived fate = "survived"
)

// fate is that of one mutant.
func (b *built) fate(id int, slow string, timeout time.Duration) fate {
	if slow == "" {
		f, _ := b.judge(id, "", timeout)
		return f
	}
	f, _ := b.judge(id, "-test.skip="+slow, timeout)
	if f == survived {
		f, _ = b.judge(id, "-test.run="+slow, timeout)
	}
	return f
}

// endless is what a test prints that its own time-out ends, or a limit of the shell's (ulimit -t).
var endless = regexp.MustCompile("panic: test timed out after|SIGXCPU")

// judge runs tests with one mutant in place; 0 is none.
func (b *built) judge(id int, which string, timeout time.Duration) (fate, string) {
	ctx, cancel := context.WithTimeout(context.Background(),
		timeout+10*time.Second) // for one that cannot even stop itself
	defer cancel()
	c := exec.CommandContext(ctx, b.binary, "-test.failfast", "-test.timeout="+timeout.String(), "-test.paniconexit0")
	if which != "" {
		c.Args = append(c.Args, which)
	}
	c.Dir, c.WaitDelay = b.dir, time.Second
	c.Env = append(os.Environ(), fmt.Sprint("MUTANT=", id), "RAPID_NOFAILFILE=1",
		"RAPID_SHRINKTIME=0s") // the tree stays as it is
	out, err := c.CombinedOutput()
	switch {
	case err == nil:
		return survived, string(out)
	case ctx.Err() != nil || endless.Match(out):
		return timedOut, string(out)
	}
	return killed, string(out)
}
