// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"go/ast"
	"go/token"
	"go/types"
	"path/filepath"
	"slices"
	"strings"
)

// mutant is one small fault. Code that has all of them in it has each where the variable mutant_ is its number.
type mutant struct {
	at   token.Position
	what string
}

func (m mutant) String() string {
	return fmt.Sprintf("%s:%d:%d: %s", filepath.Base(m.at.Filename), m.at.Line, m.at.Column, m.what)
}

// edit is text to be put into a file.
type edit struct {
	at   int // in bytes
	text string
}

// maker puts mutants into one file. All edits are put around what is there, so they nest.
type maker struct {
	src     []byte
	file    *ast.File
	fset    *token.FileSet
	info    *types.Info
	skip    func(mutant) bool // it is not to be made
	mutants []mutant          // of all files so far; the number of the first is 1
	before  []edit            // in the order of the syntax tree: at one place the outermost comes first
	after   []edit            // likewise, so at one place the outermost comes last
}

// mutate is the file with all its mutants in it.
func (m *maker) mutate() []byte {
	ast.Inspect(m.file, func(n ast.Node) bool {
		m.node(n)
		g, ok := n.(*ast.GenDecl)
		return !ok || g.Tok == token.VAR // what is constant cannot depend on anything
	})
	slices.Reverse(m.after)
	edits := append(m.after, m.before...)
	slices.SortStableFunc(edits, func(a, b edit) int { return a.at - b.at })
	var out []byte
	done := 0
	for _, e := range edits {
		out, done = append(append(out, m.src[done:e.at]...), e.text...), e.at
	}
	return append(out, m.src[done:]...)
}

// wrap adds a mutant of a node; § in what is put around it is the mutant's number.
func (m *maker) wrap(n ast.Node, what, before, after string) {
	x := mutant{m.fset.Position(n.Pos()), strings.Join(strings.Fields(what), " ")}
	if strings.Contains(before+after, "\n") ||
		m.skip(x) { // lines keep their numbers, or errors could not be told apart
		return
	}
	m.mutants = append(m.mutants, x)
	id := fmt.Sprint(len(m.mutants))
	m.before = append(m.before, edit{m.offset(n.Pos()), strings.ReplaceAll(before, "§", id)})
	m.after = append(m.after, edit{m.offset(n.End()), strings.ReplaceAll(after, "§", id)})
}

func (m *maker) node(n ast.Node) {
	switch n := n.(type) {
	case *ast.FuncDecl:
		m.early(n.Type, n.Body)
	case *ast.IfStmt:
		m.condition(n.Cond, true, false)
	case *ast.ForStmt:
		m.condition(n.Cond, false) // a loop without an end says only that it takes long
	case *ast.SwitchStmt:
		for _, c := range n.Body.List {
			if n.Tag == nil {
				for _, e := range c.(*ast.CaseClause).List {
					m.condition(e, true, false)
				}
			}
		}
	case *ast.BinaryExpr:
		m.binary(n)
	case *ast.BasicLit:
		m.literal(n)
	case *ast.Ident:
		if n.Name == "true" || n.Name == "false" {
			m.wrap(n, n.Name+" is the other", "((", ") != (mutant_ == §))")
		}
	case *ast.BlockStmt:
		m.statements(n.List)
	case *ast.CaseClause:
		m.statements(n.Body)
	case *ast.CommClause:
		m.statements(n.Body)
	}
}

// early has a function return at once, with the zero of what it returns.
func (m *maker) early(t *ast.FuncType, body *ast.BlockStmt) {
	if body == nil || len(body.List) == 0 {
		return
	}
	var zeros []string
	if t.Results != nil {
		for _, r := range t.Results.List {
			for range max(1, len(r.Names)) {
				zeros = append(zeros, "*new("+m.text(r.Type)+")")
			}
		}
	}
	m.wrap(
		body.List[0],
		"the function returns at once",
		"if mutant_ == § { return "+strings.Join(zeros, ", ")+" }; ",
		"",
	)
}

// condition has a condition hold always, or never. Of one with && or || each part is left out instead: what sees
// that sees || for &&, too.
func (m *maker) condition(e ast.Expr, by ...bool) {
	if b, ok := e.(*ast.BinaryExpr); e == nil || ok && (b.Op == token.LAND || b.Op == token.LOR) {
		return
	}
	for _, c := range by {
		m.constant(e, c)
	}
}

func (m *maker) constant(e ast.Expr, c bool) {
	before := "(mutant_ != § && ("
	if c {
		before = "(mutant_ == § || ("
	}
	m.wrap(e, fmt.Sprintf("%s => %v", m.text(e), c), before, "))")
}

var opposite = map[token.Token]token.Token{
	token.ADD: token.SUB, token.SUB: token.ADD, token.MUL: token.QUO, token.QUO: token.MUL,
}

func (m *maker) binary(n *ast.BinaryExpr) {
	x, y := m.text(n.X), m.text(n.Y)
	becomes := func(op token.Token) string { return fmt.Sprintf("%s %s %s => %s", x, n.Op, y, op) }
	switch n.Op {
	case token.LAND, token.LOR:
		for _, e := range []ast.Expr{n.X, n.Y} {
			if b, ok := e.(*ast.BinaryExpr); !ok || b.Op != n.Op {
				m.constant(e, n.Op == token.LAND)
			}
		}
	case token.EQL:
		m.wrap(n, becomes(token.NEQ), "((", ") != (mutant_ == §))")
	case token.NEQ:
		m.wrap(n, becomes(token.EQL), "((", ") != (mutant_ == §))")
	case token.LSS:
		m.wrap(n, becomes(token.LEQ), "((", ") || mutant_ == § && ("+x+") == ("+y+"))")
	case token.GTR:
		m.wrap(n, becomes(token.GEQ), "((", ") || mutant_ == § && ("+x+") == ("+y+"))")
	case token.LEQ:
		m.wrap(n, becomes(token.LSS), "((", ") && !(mutant_ == § && ("+x+") == ("+y+")))")
	case token.GEQ:
		m.wrap(n, becomes(token.GTR), "((", ") && !(mutant_ == § && ("+x+") == ("+y+")))")
	case token.ADD, token.SUB, token.MUL, token.QUO:
		op := opposite[n.Op]
		if t := m.number(n); t != "" && m.info.Types[n].Value == nil {
			m.wrap(
				n,
				becomes(op),
				"func() "+t+" { if mutant_ == § { return "+x+" "+op.String()+" "+y+" }; return ",
				" }()",
			)
		}
	}
}

func (m *maker) literal(n *ast.BasicLit) {
	other := map[string]string{"0": "1", "1": "0"}[n.Value]
	if t := m.number(n); t != "" && other != "" {
		m.wrap(n, n.Value+" => "+other, "func() "+t+" { if mutant_ == § { return "+other+" }; return ", " }()")
	}
}

// number is the type of a number, as this file may write it; empty if it is none, or cannot be written.
func (m *maker) number(e ast.Expr) string {
	t := m.info.TypeOf(e)
	if t == nil {
		return ""
	}
	b, ok := t.Underlying().(*types.Basic)
	if !ok || b.Info()&types.IsNumeric == 0 || b.Info()&types.IsUntyped != 0 {
		return ""
	}
	return types.TypeString(t, func(p *types.Package) string {
		if p.Name() == m.file.Name.Name {
			return ""
		}
		return p.Name() // if the file does not import it so, the mutant cannot be built
	})
}

// statements leaves out each statement.
func (m *maker) statements(list []ast.Stmt) {
	for _, s := range list {
		leave := true
		switch s := s.(type) {
		case *ast.ExprStmt:
			c, ok := s.X.(*ast.CallExpr)
			leave = !ok || m.text(c.Fun) != "panic"
		case *ast.AssignStmt:
			if leave = s.Tok != token.DEFINE; leave && len(s.Rhs) > 1 {
				m.assigned(s)
				leave = false
			}
		case *ast.BranchStmt:
			leave = s.Tok != token.FALLTHROUGH
		case *ast.IncDecStmt, *ast.SendStmt, *ast.DeferStmt, *ast.GoStmt, *ast.RangeStmt:
		default:
			leave = false
		}
		if leave {
			what, _, more := strings.Cut(m.text(s), "\n")
			if more {
				what += " …"
			}
			m.wrap(s, what+" => left out", "if mutant_ != § { ", " }")
		}
	}
}

// assigned leaves out one after the other of several that are assigned at once.
func (m *maker) assigned(s *ast.AssignStmt) {
	for i, lhs := range s.Lhs {
		var left, right []string
		for k := range s.Lhs {
			left, right = append(left, m.text(s.Lhs[k])), append(right, m.text(s.Rhs[k]))
		}
		if left[i] = "_"; right[i] == "nil" {
			right[i] = "any(nil)"
		}
		instead := strings.Join(left, ", ") + " = " + strings.Join(right, ", ")
		m.wrap(s, m.text(lhs)+" of "+m.text(s)+" => left out", "if mutant_ == § { "+instead+" } else { ", " }")
	}
}

func (m *maker) text(n ast.Node) string { return string(m.src[m.offset(n.Pos()):m.offset(n.End())]) }

func (m *maker) offset(p token.Pos) int { return m.fset.Position(p).Offset }
