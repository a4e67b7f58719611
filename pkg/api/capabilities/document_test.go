// SPDX-License-Identifier: Apache-2.0

package capabilities

import (
	"go/ast"
	"go/parser"
	"go/token"
	"slices"
	"strconv"
	"testing"

	"github.com/berth-project/berth/pkg/compute"
	"github.com/berth-project/berth/pkg/wire/rest"
)

// TestNothingIsLeftOut: every state, choice and reason code has a sentence, and each is there once.
func TestNothingIsLeftOut(t *testing.T) {
	doc := Document(Offer{API: "1"})
	want := codesIn(t, "../../compute/reason.go")
	var got []string
	for _, m := range doc.Reasons {
		got = append(got, m.Name)
	}
	if slices.Sort(got); !slices.Equal(got, want) {
		t.Errorf("reasons %v, and there are %v", got, want)
	}
	for _, list := range [][]rest.Meaning{doc.Reasons, doc.States, doc.PowerStates, doc.OnNoCapacity} {
		for _, m := range list {
			if m.Name == "" || m.Means == "" {
				t.Errorf("%+v", m)
			}
		}
	}
	if len(doc.States) != 8 || len(doc.PowerStates) != 4 || len(doc.OnNoCapacity) != 2 {
		t.Errorf("%v %v %v", doc.States, doc.PowerStates, doc.OnNoCapacity)
	}
	for _, l := range doc.Limits {
		if l.Request == "" || l.Field == "" || l.Unit == "" || l.Most <= 0 {
			t.Errorf("%+v", l)
		}
	}
}

// codesIn are the values of the constants of type ReasonCode in a file, in order.
func codesIn(t *testing.T, file string) (codes []string) {
	t.Helper()
	f, err := parser.ParseFile(token.NewFileSet(), file, nil, 0)
	if err != nil {
		t.Fatal(err)
	}
	ast.Inspect(f, func(n ast.Node) bool {
		v, ok := n.(*ast.ValueSpec)
		if !ok {
			return true
		}
		if is, ok := v.Type.(*ast.Ident); ok && is.Name == "ReasonCode" {
			code, err := strconv.Unquote(v.Values[0].(*ast.BasicLit).Value)
			if err != nil {
				t.Fatal(err)
			}
			codes = append(codes, code)
		}
		return true
	})
	slices.Sort(codes)
	return codes
}

// TestTagFollowsContent and nothing else.
func TestTagFollowsContent(t *testing.T) {
	tag := func(change func(*Offer)) string {
		o := Offer{
			API: "1",
			Flavors: []compute.Flavor{{Name: "m1",
				Resources: compute.Resources{compute.VCPU: 1, compute.MemoryMB: 2, "CUSTOM_A": 3}}},
			Axes: []compute.Capability{{Axis: "gpu", Values: []compute.CapabilityValue{{Value: "a100"}}}},
		}
		change(&o)
		out, err := Tag(Document(o))
		if err != nil {
			t.Fatal(err)
		}
		return out
	}
	same := tag(func(*Offer) {})
	for range 20 { // maps have no order
		if again := tag(func(*Offer) {}); again != same {
			t.Fatalf("%s became %s, and nothing has changed", same, again)
		}
	}
	for what, change := range map[string]func(*Offer){
		"a flavor":  func(o *Offer) { o.Flavors[0].Name = "m2" },
		"an amount": func(o *Offer) { o.Flavors[0].Resources["CUSTOM_A"] = 4 },
		"a value":   func(o *Offer) { o.Axes[0].Values[0].Value = "h100" },
		"a limit":   func(o *Offer) { o.Limits = []rest.Limit{{Request: "list", Field: "limit", Unit: "entries", Most: 1}} },
		"an API":    func(o *Offer) { o.API = "2" },
	} {
		if tag(change) == same {
			t.Errorf("%s is another, and the tag is the same", what)
		}
	}
}

func TestKnown(t *testing.T) {
	for _, c := range []struct {
		has  string
		want bool
	}{
		{"", false}, {`"b"`, false}, {`"a"`, true}, {`"b", "a"`, true}, {`W/"a"`, true}, {"*", true}, {"a", false},
	} {
		if got := Known(`"a"`, c.has); got != c.want {
			t.Errorf("%q: %v", c.has, got)
		}
	}
}
