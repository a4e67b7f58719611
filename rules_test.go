// SPDX-License-Identifier: Apache-2.0

package berth

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
)

const module = "github.com/berth-project/berth"

// cores decide and do nothing else: no clock, no I/O, no lock, no goroutine,
// no log.
var cores = []string{
	"pkg/compute", "flavors/catalog", "queues/plan", "queues/advise", "queues/ring", "queues/save",
	"conductor/admit", "conductor/quota", "compute-agent/task", "compute-agent/offer", "pkg/lab/size", "pkg/twins",
	"pkg/explain", "pkg/cover",
}

// arrows says, for each folder, which folders of ours it may import besides
// itself; the longest matching folder holds. "…/" at the end means "and below".
var arrows = map[string][]string{
	"pkg/compute":    {},
	"pkg/wire":       {"pkg/compute", "pkg/wire/"},
	"pkg/hostkey":    {"pkg/compute", "pkg/wire", "pkg/secretfile"},
	"pkg/publishkey": {"pkg/compute", "pkg/wire", "pkg/secretfile", "pkg/hostkey"},
	"pkg/sealed":     {"pkg/compute", "pkg/hostkey"},
	"pkg/explain":    {"pkg/compute"},
	"pkg/cover":      {"pkg/compute"},

	"flavors/catalog":     {"pkg/compute"},
	"queues/plan":         {"pkg/compute"},
	"queues/advise":       {"pkg/compute"},
	"queues/ring":         {"pkg/compute", "pkg/sorted"},
	"queues/save":         {"pkg/compute", "pkg/sorted"},
	"conductor/admit":     {"pkg/compute", "pkg/cover", "conductor/quota"},
	"conductor/quota":     {"pkg/compute"},
	"compute-agent/task":  {"pkg/compute"},
	"compute-agent/offer": {"pkg/compute", "pkg/sorted"},

	"flavors": {"flavors/", "pkg/compute", "pkg/wire", "pkg/service", "pkg/telemetry"},
	"queues": {
		"queues/", "pkg/compute", "pkg/wire", "pkg/service", "pkg/telemetry", "pkg/sorted", "pkg/twins", "pkg/hostkey",
	},
	"conductor": {
		"conductor/", "pkg/compute", "pkg/wire", "pkg/service", "pkg/telemetry", "pkg/twins", "pkg/hostkey",
		"pkg/publishkey", "pkg/tracing",
	},
	"compute-agent/agent": {
		"compute-agent/", "pkg/compute", "pkg/wire", "pkg/service", "pkg/telemetry", "pkg/sealed", "pkg/tracing",
	},
	"compute-agent/fetch":           {"compute-agent/offer", "pkg/compute", "pkg/wire", "pkg/sorted"},
	"compute-agent/journal":         {"pkg/compute", "pkg/wire"},
	"compute-agent/home":            {"pkg/compute"},
	"compute-agent/hypervisor":      {"pkg/compute", "pkg/subprocess", "compute-agent/hypervisor/"},
	"compute-agent/hypervisor/fake": {"pkg/compute", "compute-agent/hypervisor"},
	"pkg/service":                   {},
	"pkg/sorted":                    {},
	"pkg/twins":                     {"pkg/compute"},
	"pkg/telemetry":                 {"pkg/compute"},
	"pkg/tracing":                   {"pkg/compute"},
	"pkg/config":                    {"pkg/compute"},
	"pkg/kafka": {
		"pkg/compute", "pkg/wire", "pkg/service", "pkg/telemetry", "pkg/kafka/access", "pkg/kafka/internal/pace",
	},
	"pkg/kafka/internal/pace":  {"pkg/service"},
	"pkg/kafka/internal/retry": {"pkg/kafka", "pkg/kafka/internal/pace"},
	"pkg/kafka/internal/batch": {"pkg/wire"},
	"pkg/kafka/internal/fetch": {
		"pkg/compute", "pkg/wire", "pkg/service", "pkg/unpack", "pkg/kafka", "pkg/kafka/access",
		"pkg/kafka/internal/pace", "pkg/kafka/internal/retry",
	},
	"pkg/kafka/internal/brokertest": {"*"},
	"pkg/kafka/internal/clienttest": {"*"},
	"pkg/kafka/internal/readtest":   {"*"},
	"pkg/kafka/write": {
		"pkg/compute", "pkg/wire", "pkg/service", "pkg/telemetry", "pkg/kafka", "pkg/kafka/access",
		"pkg/kafka/internal/",
	},
	"pkg/kafka/read": {
		"pkg/compute", "pkg/wire", "pkg/telemetry", "pkg/kafka", "pkg/kafka/access", "pkg/kafka/internal/",
	},
	"pkg/kafka/share": {
		"pkg/compute", "pkg/wire", "pkg/telemetry", "pkg/unpack", "pkg/kafka", "pkg/kafka/access",
		"pkg/kafka/internal/",
	},
	"pkg/kafka/admin": {"pkg/compute", "pkg/wire", "pkg/kafka", "pkg/kafka/access", "pkg/kafka/internal/"},
	"pkg/kafka/loop": {
		"pkg/compute", "pkg/wire", "pkg/telemetry", "pkg/kafka", "pkg/kafka/access", "pkg/kafka/internal/",
		"pkg/kafka/read", "pkg/kafka/write",
	},
	"pkg/kafka/elect":     {"pkg/kafka"},
	"pkg/kafka/access":    {"pkg/compute", "pkg/wire"},
	"pkg/unpack":          {"pkg/compute", "pkg/wire"},
	"pkg/embedded":        {},
	"pkg/localkafka":      {},
	"pkg/auth":            {"pkg/compute"},
	"pkg/auth/grant":      {"pkg/compute", "pkg/auth", "pkg/config"},
	"pkg/auth/oidc":       {"pkg/compute", "pkg/auth", "pkg/auth/grant", "pkg/clienttls", "pkg/loopback"},
	"pkg/auth/clientcert": {"pkg/compute", "pkg/auth", "pkg/auth/grant"},
	"pkg/api": {
		"pkg/compute", "pkg/auth", "pkg/wire", "pkg/wire/rest", "pkg/telemetry", "pkg/sorted", "pkg/ratelimit",
		"pkg/audit", "pkg/loopback", "pkg/sealed", "pkg/cover", "pkg/explain", "pkg/events", "pkg/ui", "pkg/sse", "pkg/tracing",
		"pkg/rejected", "pkg/tlsfiles",
	},
	"pkg/events":           {"pkg/compute"},
	"pkg/ui":               {},
	"pkg/sse":              {},
	"pkg/rejected":         {"pkg/compute", "pkg/wire", "pkg/wire/rest"},
	"pkg/audit":            {"pkg/compute", "pkg/auth", "pkg/wire", "pkg/telemetry", "pkg/ratelimit"},
	"pkg/fencecommand":     {"pkg/compute", "pkg/subprocess"},
	"pkg/subprocess":       {},
	"pkg/ratelimit":        {},
	"pkg/loopback":         {},
	"pkg/secretfile":       {"pkg/compute"},
	"pkg/clienttls":        {"pkg/compute"},
	"pkg/tlsfiles":         {"pkg/compute", "pkg/secretfile"},
	"pkg/tlsfiles/tlstest": {},
	"pkg/statusserver": {
		"pkg/compute", "pkg/wire/rest", "pkg/telemetry", "pkg/ratelimit", "pkg/tlsfiles", "pkg/loopback",
	},
	"pkg/doctor":              {"pkg/compute", "pkg/wire", "pkg/kafka", "pkg/kafka/access", "pkg/kafka/admin"},
	"pkg/verify":              {"pkg/compute", "pkg/sealed"},
	"pkg/client":              {"pkg/compute", "pkg/wire", "pkg/wire/rest", "pkg/secretfile", "pkg/clienttls", "pkg/sse"},
	"pkg/publish":             {"pkg/compute", "pkg/wire", "pkg/wire/", "pkg/publish", "pkg/publishkey"},
	"pkg/publish/publishtest": {"*"},
	"pkg/follow":              {"pkg/compute", "pkg/wire", "pkg/follow", "pkg/unpack"},
	"pkg/follow/followtest":   {"*"},
	"pkg/cell": {
		"flavors", "flavors/", "queues", "queues/", "conductor", "conductor/", "compute-agent/",
		"pkg/compute", "pkg/wire", "pkg/service", "pkg/telemetry", "pkg/config", "pkg/kafka", "pkg/kafka/",
		"pkg/embedded",
		"pkg/api", "pkg/audit", "pkg/auth", "pkg/auth/", "pkg/statusserver", "pkg/doctor", "pkg/verify", "pkg/hostkey",
		"pkg/publishkey", "pkg/sealed", "pkg/events",
		"pkg/secretfile", "pkg/clienttls", "pkg/loopback", "pkg/tracing",
	},
	"pkg/forward":          {"pkg/client", "pkg/compute", "pkg/service"},
	"pkg/cli":              {"pkg/client", "pkg/compute", "pkg/forward", "pkg/service", "pkg/signin", "pkg/secretfile", "pkg/loopback", "pkg/terminal"},
	"pkg/signin":           {"pkg/compute", "pkg/clienttls"},
	"pkg/lab/bench":        {"*"},
	"pkg/lab/sim":          {"*"},
	"pkg/lab/sim/schedule": {"pkg/compute", "pkg/wire", "pkg/cell", "queues/save"},
	"pkg/lab/sim/network":  {"pkg/embedded", "pkg/lab/sim/schedule"},
	"pkg/lab/sim/judge": {
		"pkg/compute", "pkg/wire", "pkg/wire/", "pkg/client", "compute-agent/hypervisor", "compute-agent/hypervisor/fake",
		"compute-agent/journal", "pkg/lab/sim/schedule", "pkg/lab/sim/network",
	},
	"pkg/lab":         {"*"},
	"pkg/lab/house":   {}, // what is played with Berth's code, and is no part of it
	"pkg/lab/mutate":  {},
	"pkg/lab/testrun": {},
	"pkg/lab/fleet": {
		"pkg/compute", "pkg/wire", "compute-agent/offer", "compute-agent/fetch", "queues/advise", "queues/ring",
		"queues/save",
	},
	"pkg/lab/size":  {"pkg/compute", "compute-agent/offer", "queues/advise", "queues/save", "pkg/sorted"},
	"pkg/kafkatest": {"*"},
	"cmd":           {"*"},
	"docs/examples": {
		"pkg/client", "pkg/compute", "pkg/wire", "pkg/publish", "pkg/publish/", "pkg/follow", "pkg/follow/",
	},
	"docs/graphs": {}, // a module of its own: what draws is no dependency of Berth
	"":            {"*"},
}

// clients says which folders may use a Kafka client, and which client.
var clients = map[string][]string{
	"github.com/twmb/franz-go": {
		"pkg/kafka", "pkg/unpack", "pkg/embedded", "pkg/lab/bench", "pkg/lab/sim", "pkg/kafkatest",
		"pkg/publish/franz", "pkg/publish/publishtest", "pkg/follow/franz", "pkg/follow/followtest",
		"docs/examples/franz",
	},
	"github.com/IBM/sarama": {
		"pkg/publish/sarama", "pkg/publish/publishtest", "pkg/follow/sarama", "pkg/follow/followtest",
		"docs/examples/sarama",
	},
	"github.com/segmentio/kafka-go": {
		"pkg/publish/kafkago", "pkg/publish/publishtest", "pkg/follow/kafkago", "pkg/follow/followtest",
		"docs/examples/kafkago",
	},
}

// mains are the programs, which may exit.
var mains = []string{
	"cmd/berth", "docs/graphs", "pkg/lab/house", "pkg/lab/testrun", "pkg/lab/mutate",
	"docs/examples/api", "docs/examples/franz", "docs/examples/sarama", "docs/examples/kafkago",
}

// impure are the packages no core may import; time is allowed for its types.
var impure = []string{
	"os", "io", "net", "sync", "log", "context", "math/rand", "math/rand/v2", "crypto/rand",
	"bufio", "net/http", "os/exec", "sync/atomic", "go.uber.org/zap",
}

func TestArrows(t *testing.T) {
	eachFile(t, func(t *testing.T, f source) {
		for _, imp := range f.imports() {
			ours, ok := strings.CutPrefix(imp, module+"/")
			if ok && !f.test && !mayImport(f.folder, ours) {
				t.Errorf("%s imports %s: no such arrow", f.path, ours)
			}
			for _, top := range []string{"pkg/cli", "pkg/lab"} {
				if within(ours, []string{top}) && !f.test && !within(f.folder, []string{"cmd", top}) {
					t.Errorf("%s imports %s: only cmd/berth may", f.path, ours)
				}
			}
			for client, allowed := range clients {
				if strings.HasPrefix(imp, client) && !within(f.folder, allowed) {
					t.Errorf("%s imports %s: only %v may", f.path, imp, allowed)
				}
			}
			if f.folder != "cmd/berth" && strings.HasPrefix(imp, module+"/cmd") {
				t.Errorf("%s imports the wiring", f.path)
			}
		}
	})
}

func TestCoresArePure(t *testing.T) {
	eachFile(t, func(t *testing.T, f source) {
		if f.test || !slices.Contains(cores, f.folder) {
			return
		}
		for _, imp := range f.imports() {
			if slices.Contains(impure, imp) {
				t.Errorf("%s imports %s: a core decides, it does nothing", f.path, imp)
			}
			if f.folder == "pkg/compute" && strings.Contains(imp, ".") {
				t.Errorf("%s imports %s: the words stand on the standard library alone", f.path, imp)
			}
		}
		ast.Inspect(f.ast, func(n ast.Node) bool {
			switch n := n.(type) {
			case *ast.GoStmt:
				t.Errorf("%s: a goroutine in a core", f.at(n))
			case *ast.SelectorExpr:
				if x, ok := n.X.(*ast.Ident); ok && x.Name == "time" &&
					slices.Contains(
						[]string{
							"Now", "Since", "Until", "After", "AfterFunc", "Sleep", "NewTimer", "NewTicker",
							"Tick",
						},
						n.Sel.Name,
					) {
					t.Errorf("%s: time.%s in a core: time is an argument", f.at(n), n.Sel.Name)
				}
			}
			return true
		})
	})
}

func TestEveryPackageSaysWhatItIs(t *testing.T) {
	documented := map[string]bool{}
	eachFile(t, func(_ *testing.T, f source) {
		if !f.test {
			documented[f.folder] = documented[f.folder] || f.ast.Doc != nil
		}
	})
	for folder, ok := range documented {
		if !ok {
			t.Errorf("%s: no file has a package comment", folder)
		}
	}
}

func TestOnlyCmdExitsAndNobodyInits(t *testing.T) {
	eachFile(t, func(t *testing.T, f source) {
		ast.Inspect(f.ast, func(n ast.Node) bool {
			switch n := n.(type) {
			case *ast.FuncDecl:
				if n.Name.Name == "init" && n.Recv == nil {
					t.Errorf("%s: init", f.at(n))
				}
			case *ast.CallExpr:
				if name := callName(n); exits(name) && !slices.Contains(mains, f.folder) && !isTestMain(f) {
					t.Errorf("%s: %s outside cmd", f.at(n), name)
				}
			}
			return true
		})
	})
}

// A host is the only authority about itself: neither the conductor nor the API
// may look at what a host says it has, not even by accident. pkg/explain does, to tell people why something waits: nothing
// that decides may import it.
func TestNobodyCentralReadsWhatAHostHas(t *testing.T) {
	eachFile(t, func(t *testing.T, f source) {
		if f.test || !within(f.folder, []string{"conductor", "pkg/api"}) {
			return
		}
		ast.Inspect(f.ast, func(n ast.Node) bool {
			if s, ok := n.(*ast.SelectorExpr); ok &&
				slices.Contains([]string{"Free", "Inventory", "Unmanaged", "Totals"}, s.Sel.Name) {
				t.Errorf("%s: reads a host's .%s: placement is the host's own affair", f.at(s), s.Sel.Name)
			}
			return true
		})
	})
}

func TestTopLevelFolders(t *testing.T) {
	allowed := []string{"cmd", "pkg", "queues", "flavors", "compute-agent", "conductor", "deploy", "docs", "bin"}
	entries, err := filepath.Glob("*/")
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		if !slices.Contains(allowed, strings.TrimSuffix(e, "/")) {
			t.Errorf("%s: not one of the folders of this project %v", e, allowed)
		}
	}
}

// mayImport finds the rule of the longest folder around from.
func mayImport(from, what string) bool {
	if from == what || strings.HasPrefix(what, from+"/") && !slices.Contains(cores, from) {
		return true
	}
	for dir := from; ; dir = path.Dir(dir) {
		if dir == "." {
			dir = ""
		}
		allowed, ok := arrows[dir]
		if !ok {
			continue
		}
		for _, a := range allowed {
			if a == "*" || a == what || strings.HasSuffix(a, "/") && strings.HasPrefix(what+"/", a) {
				return true
			}
		}
		return false
	}
}

func within(folder string, allowed []string) bool {
	for _, a := range allowed {
		if folder == a || strings.HasPrefix(folder, a+"/") {
			return true
		}
	}
	return false
}

func exits(name string) bool {
	return name == "os.Exit" || strings.HasPrefix(name, "log.Fatal") || name == "log.Panic"
}

// isTestMain lets TestMain and testscript mains exit.
func isTestMain(f source) bool { return f.test }

func callName(c *ast.CallExpr) string {
	if s, ok := c.Fun.(*ast.SelectorExpr); ok {
		if x, ok := s.X.(*ast.Ident); ok {
			return x.Name + "." + s.Sel.Name
		}
	}
	return ""
}

// source is one Go file of ours that people write.
type source struct {
	path, folder string
	test         bool
	ast          *ast.File
	fset         *token.FileSet
}

func (f source) at(n ast.Node) token.Position { return f.fset.Position(n.Pos()) }

func (f source) imports() []string {
	var out []string
	for _, i := range f.ast.Imports {
		p, _ := strconv.Unquote(i.Path.Value)
		out = append(out, p)
	}
	return out
}

// walk visits each file of the repository; what tools keep in folders of their own, and what was
// built, is none.
func walk(t *testing.T, visit func(file string)) {
	t.Helper()
	err := filepath.WalkDir(".", func(file string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case !d.IsDir():
			visit(filepath.ToSlash(file))
		case file != "." && (strings.HasPrefix(d.Name(), ".") || d.Name() == "bin"):
			return filepath.SkipDir
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}

func eachFile(t *testing.T, check func(*testing.T, source)) {
	t.Helper()
	seen := 0
	walk(t, func(p string) {
		if !strings.HasSuffix(p, ".go") || strings.HasSuffix(p, ".pb.go") || strings.Contains(p, "testdata/") {
			return
		}
		fset := token.NewFileSet()
		file, err := parser.ParseFile(fset, p, nil, parser.ParseComments)
		if err != nil {
			t.Fatal(err)
		}
		folder := filepath.ToSlash(filepath.Dir(p))
		if folder == "." {
			folder = ""
		}
		seen++
		check(t, source{path: p, folder: folder, test: strings.HasSuffix(p, "_test.go"), ast: file, fset: fset})
	})
	if seen < 10 {
		t.Fatalf("only %d files were checked: the walk is broken", seen)
	}
}
