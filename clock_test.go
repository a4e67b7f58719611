// SPDX-License-Identifier: Apache-2.0

package berth

import (
	"go/ast"
	"go/parser"
	"go/token"
	"maps"
	"slices"
	"testing"
)

// timed are the places where a test may look at the real clock, and why no machine is too slow for it there.
var timed = map[string]string{
	"compute-agent/hypervisor/libvirt/guest_test.go": "within Await: what has not come is brought about again",
	"queues/clock_test.go":                           "called in a bubble that is opened elsewhere",
}

// Tests wait for events. What a machine that stands still for a while may fail by is found if it is one of these:
//
//	time.Sleep(…)
//	time.After(20 * time.Millisecond)   and NewTimer: what is told in seconds or less is no guard against a hang
//	if took := time.Since(began); took > … { t.Error(…) }
//
// In a bubble (testing/synctest) the clock stands still while anything is done, and all of it is fine. A function is in
// one if it opens one, or calls a function of its folder that does; and so is all of a file that imports
// testing/synctest. A wait whose length has a name, and what a switch or a loop compares, is not found.
func TestTestsDoNotAskTheClock(t *testing.T) {
	tests := map[string][]source{} // by folder
	eachFile(t, func(_ *testing.T, f source) {
		if f.test {
			tests[f.folder] = append(tests[f.folder], f)
		}
	})
	found := map[string]bool{}
	for _, files := range tests {
		opens := opensBubble(files)
		for _, f := range files {
			if slices.Contains(f.imports(), "testing/synctest") {
				continue
			}
			for _, d := range f.ast.Decls {
				if fn, ok := d.(*ast.FuncDecl); ok && !calls(fn, opens) {
					for at, what := range asksClock(fn) {
						if found[f.path] = true; timed[f.path] == "" {
							t.Errorf("%s: %s: await an event, or count", f.at(at), what)
						}
					}
				}
			}
		}
	}
	for _, file := range slices.Sorted(maps.Keys(timed)) {
		if !found[file] {
			t.Errorf("%s does not ask the clock: take it from the list", file)
		}
	}
}

func TestAskingTheClockIsFound(t *testing.T) {
	for code, want := range map[string]int{
		`time.Sleep(d)`:                                           1,
		`<-time.After(20 * time.Millisecond)`:                     1,
		`time.NewTimer(n * time.Second)`:                          1,
		`<-time.After(2 * time.Minute)`:                           0,
		`<-time.After(patience)`:                                  0,
		`if time.Since(began) > d { t.Fatal(1) }`:                 1,
		`if d := time.Since(began); d >= 9 { t.Errorf("") }`:      1,
		`d := time.Since(began); if x || d < 9 { t.Error(1) }`:    1,
		`d := time.Since(began); if 9 > d { for { t.Error(1) } }`: 1,
		`if time.Since(began) > d { return }`:                     0,
		`d := time.Since(began); t.Error(d)`:                      0,
		`if d > 9 { t.Error(1) }`:                                 0,
		`if time.Since(began) > d { t.Log(err.Error()) }`:         0,
	} {
		file, err := parser.ParseFile(token.NewFileSet(), "", "package p\nfunc f() {"+code+"}", 0)
		if err != nil {
			t.Fatal(err)
		}
		if got := len(asksClock(file.Decls[0])); got != want {
			t.Errorf("%s: found %d, want %d", code, got, want)
		}
	}
}

// opensBubble are the functions of a folder that open a bubble, and those that call them.
func opensBubble(files []source) map[string]bool {
	opens := map[string]bool{"synctest.Test": true, "brokertest.WithRefusing": true}
	for before := 0; before < len(opens); {
		before = len(opens)
		for _, f := range files {
			for _, d := range f.ast.Decls {
				if fn, ok := d.(*ast.FuncDecl); ok && fn.Recv == nil && calls(fn, opens) {
					opens[fn.Name.Name] = true
				}
			}
		}
	}
	return opens
}

// calls says whether a function calls one of these, for itself.
func calls(fn *ast.FuncDecl, these map[string]bool) bool {
	return anyOf(fn, func(n ast.Node) bool {
		c, ok := n.(*ast.CallExpr)
		if !ok {
			return false
		}
		local, _ := c.Fun.(*ast.Ident)
		return these[callName(c)] || local != nil && these[local.Name]
	})
}

// asksClock is what a function asks of the clock, and where.
func asksClock(fn ast.Node) map[ast.Node]string {
	asked, measured := map[ast.Node]string{}, map[string]bool{}
	since := func(n ast.Node) bool { return isCall(n, "time.Since") }
	isMeasured := func(n ast.Node) bool {
		id, ok := n.(*ast.Ident)
		return ok && measured[id.Name] || since(n)
	}
	ast.Inspect(fn, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.AssignStmt:
			for i, x := range n.Rhs {
				if id, ok := n.Lhs[i].(*ast.Ident); ok && anyOf(x, since) {
					measured[id.Name] = true
				}
			}
		case *ast.CallExpr:
			if isCall(n, "time.Sleep") {
				asked[n] = "time.Sleep"
			}
			if isCall(n, "time.After", "time.NewTimer") && anyOf(n.Args[0], inSeconds) {
				asked[n] = "a wait of seconds"
			}
		}
		return true
	})
	ast.Inspect(fn, func(n ast.Node) bool {
		if branch, ok := n.(*ast.IfStmt); ok && anyOf(branch.Body, fails) && anyOf(branch.Cond, func(n ast.Node) bool {
			b, ok := n.(*ast.BinaryExpr)
			return ok && compares(b.Op) && (anyOf(b.X, isMeasured) || anyOf(b.Y, isMeasured))
		}) {
			asked[branch] = "a duration decides"
		}
		return true
	})
	return asked
}

// anyOf says whether something is so of a node or of one within it.
func anyOf(n ast.Node, so func(ast.Node) bool) (is bool) {
	ast.Inspect(n, func(n ast.Node) bool {
		is = is || n != nil && so(n)
		return !is
	})
	return is
}

func isCall(n ast.Node, names ...string) bool {
	c, ok := n.(*ast.CallExpr)
	return ok && slices.Contains(names, callName(c))
}

// fails says whether a call fails a test: t.Error(…), and not err.Error().
func fails(n ast.Node) bool {
	c, ok := n.(*ast.CallExpr)
	if !ok || len(c.Args) == 0 {
		return false
	}
	s, ok := c.Fun.(*ast.SelectorExpr)
	return ok && slices.Contains([]string{"Error", "Errorf", "Fatal", "Fatalf"}, s.Sel.Name)
}

// inSeconds says whether an expression is a unit of time below a minute.
func inSeconds(n ast.Node) bool {
	s, ok := n.(*ast.SelectorExpr)
	return ok && slices.Contains([]string{"Nanosecond", "Microsecond", "Millisecond", "Second"}, s.Sel.Name)
}

func compares(op token.Token) bool {
	return op == token.LSS || op == token.LEQ || op == token.GTR || op == token.GEQ
}
