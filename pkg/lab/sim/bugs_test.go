// SPDX-License-Identifier: Apache-2.0

package sim

import (
	"bytes"
	"encoding/json"
	"errors"
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
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// The bugs that make sim-teeth plants can be planted in the code as it is: a change of lines that a
// patch changes needs the patch written anew.
func TestPlantedBugsApply(t *testing.T) {
	root := repository(t)
	for _, patch := range plantedBugs(t) {
		cmd := exec.Command("git", "apply", "--check", patch)
		cmd.Dir = root
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Errorf("%s: %s", filepath.Base(patch), out)
		}
	}
}

var (
	bugRow     = regexp.MustCompile(`(?m)^\| (\w+) \| .* \| (.*) \|$`)
	namedTests = regexp.MustCompile("((?:`Test[^`]+`[^`]*)+) of `([^`]+)`")
	namedTest  = regexp.MustCompile("`(Test\\w+)[^`]*`")
)

// TestPlantedBugsAreListed: the table has each bug once, in order, and the tests that make bugs-named runs are there.
func TestPlantedBugsAreListed(t *testing.T) {
	table, err := os.ReadFile("testdata/bugs/README.md")
	if err != nil {
		t.Fatal(err)
	}
	var bugs, listed []string
	for _, patch := range plantedBugs(t) {
		bugs = append(bugs, strings.TrimSuffix(filepath.Base(patch), ".patch"))
	}
	for _, row := range bugRow.FindAllStringSubmatch(string(table), -1)[1:] {
		listed = append(listed, row[1])
		known := 0
		for _, tests := range namedTests.FindAllStringSubmatch(row[2], -1) {
			for _, test := range namedTest.FindAllStringSubmatch(tests[1], -1) {
				if known++; !hasTest(t, filepath.Join("..", "..", "..", tests[2]), test[1]) {
					t.Errorf("%s: %s has no %s", row[1], tests[2], test[1])
				}
			}
		}
		if known != len(namedTest.FindAllString(row[0], -1)) {
			t.Errorf("%s: say `TestName` of `folder`, in the third column", row[1])
		}
	}
	if diff := cmp.Diff(bugs, listed); diff != "" {
		t.Errorf("patches (-) and rows (+): %s", diff)
	}
}

func hasTest(t *testing.T, folder, name string) bool {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(folder, "*_test.go"))
	if err != nil {
		t.Fatal(err)
	}
	return slices.ContainsFunc(files, func(file string) bool {
		text, err := os.ReadFile(file)
		return err == nil && bytes.Contains(text, []byte("\nfunc "+name+"("))
	})
}

// TestPlantedBugsCompile: git applies a patch whose lines have moved wherever lines are like those around them, be it
// into a comment, and what does not compile breaks no rule. Each patch is applied to copies of the files that it
// changes, and their packages are type-checked in memory: to build them for each patch would take many minutes.
func TestPlantedBugsCompile(t *testing.T) {
	root := repository(t)
	c := newTypeChecker(t, root)
	for _, patch := range plantedBugs(t) {
		t.Run(strings.TrimSuffix(filepath.Base(patch), ".patch"), func(t *testing.T) {
			if err := c.checkChanged(plant(t, root, patch)); err != nil {
				t.Error(err)
			}
		})
	}
}

// repository is the root of the repository; without git, or outside a repository, the test is skipped.
func repository(t *testing.T) string {
	t.Helper()
	if err := exec.Command("git", "rev-parse", "HEAD").Run(); err != nil {
		t.Skipf("skipped: needs git and its repository: %v", err)
	}
	root, err := filepath.Abs(filepath.Join("..", "..", ".."))
	if err != nil {
		t.Fatal(err)
	}
	return root
}

func plantedBugs(t *testing.T) []string {
	t.Helper()
	dir, err := filepath.Abs("testdata/bugs")
	if err != nil {
		t.Fatal(err)
	}
	patches, err := filepath.Glob(filepath.Join(dir, "*.patch"))
	if err != nil || len(patches) < 16 {
		t.Fatalf("%d patches (%v)", len(patches), err)
	}
	return patches
}

var changedFile = regexp.MustCompile(`(?m)^\+\+\+ b/(.+)$`)

// plant returns what a patch makes of the files that it changes, by their absolute names. The files stay as they are.
func plant(t *testing.T, root, patch string) map[string][]byte {
	t.Helper()
	text, err := os.ReadFile(patch)
	if err != nil {
		t.Fatal(err)
	}
	dir, planted := t.TempDir(), map[string][]byte{}
	for _, m := range changedFile.FindAllStringSubmatch(string(text), -1) {
		name, to := filepath.Join(root, m[1]), filepath.Join(dir, m[1])
		if planted[name], err = os.ReadFile(name); err == nil {
			err = errors.Join(os.MkdirAll(filepath.Dir(to), 0o700), os.WriteFile(to, planted[name], 0o600))
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	cmd := exec.Command("git", "apply", patch)
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), "GIT_CEILING_DIRECTORIES="+filepath.Dir(dir)) // no repository around dir counts
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%s", out)
	}
	for name := range planted {
		if planted[name], err = os.ReadFile(filepath.Join(dir, strings.TrimPrefix(name, root))); err != nil {
			t.Fatal(err)
		}
	}
	return planted
}

// goPackage is a package as `go list` prints it.
type goPackage struct {
	ImportPath, Dir, Export string
	GoFiles, Imports        []string
	Module                  *struct{ Main bool }
}

func (p goPackage) files() []string {
	var names []string
	for _, name := range p.GoFiles {
		names = append(names, filepath.Join(p.Dir, name))
	}
	return names
}

// typeChecker checks packages of this module from source, and reads what they import as the go command has compiled it.
type typeChecker struct {
	packages []goPackage // of this module, each after those that it imports
	files    *token.FileSet
	compiled types.Importer
	exported map[string]string // what others may use of a package as it is, by its path
}

func newTypeChecker(t *testing.T, root string) *typeChecker {
	t.Helper()
	list := exec.Command("go", "list", "-export", "-deps", "-json=ImportPath,Dir,Export,GoFiles,Imports,Module", "./...")
	list.Dir = root
	var stderr bytes.Buffer
	list.Stderr = &stderr
	out, err := list.Output()
	if errors.Is(err, exec.ErrNotFound) {
		t.Skipf("skipped: needs the go command: %v", err)
	}
	if err != nil {
		t.Fatalf("%v: %s", err, &stderr)
	}
	c := &typeChecker{files: token.NewFileSet(), exported: map[string]string{}}
	exports := map[string]string{}
	for d := json.NewDecoder(bytes.NewReader(out)); ; {
		var p goPackage
		if err := d.Decode(&p); err == io.EOF {
			break
		} else if err != nil {
			t.Fatal(err)
		}
		if exports[p.ImportPath] = p.Export; p.Module != nil && p.Module.Main {
			c.packages = append(c.packages, p)
		}
	}
	open := func(path string) (io.ReadCloser, error) { return os.Open(exports[path]) }
	c.compiled = importer.ForCompiler(c.files, "gc", open)
	return c
}

// checkChanged checks the packages of changed files. What a package imports is taken as it was compiled, unless what
// others may use of it has changed: then those that import it are checked with the change, and in turn those that
// import them, so that no package is in memory twice.
func (c *typeChecker) checkChanged(changed map[string][]byte) error {
	anew, found := map[string]*types.Package{}, 0
	for _, p := range c.packages {
		has := 0
		for _, name := range p.files() {
			if _, ok := changed[name]; ok {
				has++
			}
		}
		found += has
		imports := slices.ContainsFunc(p.Imports, func(path string) bool { return anew[path] != nil })
		if has == 0 && !imports {
			continue
		}
		pkg, exported, err := c.check(p, changed, anew)
		if err != nil {
			return err
		}
		if _, ok := c.exported[p.ImportPath]; !ok {
			if _, c.exported[p.ImportPath], err = c.check(p, nil, nil); err != nil {
				return err
			}
		}
		if imports || exported != c.exported[p.ImportPath] {
			anew[p.ImportPath] = pkg
		}
	}
	if found < len(changed) {
		return errors.New("it changes a file that no package of this module is built of")
	}
	return nil
}

// check checks one package, and says what others may use of it.
func (c *typeChecker) check(
	p goPackage, changed map[string][]byte, anew map[string]*types.Package,
) (pkg *types.Package, exported string, err error) {
	var files []*ast.File
	for _, name := range p.files() {
		var src any // nil: it is read
		if text, ok := changed[name]; ok {
			src = text
		}
		f, err := parser.ParseFile(c.files, name, src, parser.SkipObjectResolution)
		if err != nil {
			return nil, "", err
		}
		files = append(files, f)
	}
	info := &types.Info{Defs: map[*ast.Ident]types.Object{}}
	config := types.Config{Importer: importing(func(path string) (*types.Package, error) {
		if pkg := anew[path]; pkg != nil {
			return pkg, nil
		}
		return c.compiled.Import(path)
	}), Sizes: types.SizesFor("gc", runtime.GOARCH)}
	if pkg, err = config.Check(p.ImportPath, c.files, files, info); err != nil {
		return nil, "", err
	}
	var all []string
	for _, o := range info.Defs {
		if o != nil && o.Exported() {
			all = append(all, types.ObjectString(o, nil))
		}
	}
	slices.Sort(all)
	return pkg, strings.Join(all, "\n"), nil
}

type importing func(path string) (*types.Package, error)

func (f importing) Import(path string) (*types.Package, error) { return f(path) }
