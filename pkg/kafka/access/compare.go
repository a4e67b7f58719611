// SPDX-License-Identifier: Apache-2.0

package access

import (
	"slices"
	"strings"
)

// All stands for every operation in what an ACL gives.
const All Operation = "All"

// implied are the operations that another includes.
var implied = map[Operation][]Operation{
	Describe:        {Read, Write, Delete, "Alter"},
	DescribeConfigs: {AlterConfigs},
}

// Compare says which operations of what is needed nobody gives, and what is given
// that nobody needs.
func Compare(needed, given []Right) (missing, surplus []Right) {
	missing = without(needed, func(r Right, op Operation) bool {
		return slices.ContainsFunc(given, func(g Right) bool { return g.covers(r) && g.allows(op) })
	})
	surplus = without(given, func(g Right, op Operation) bool {
		return slices.ContainsFunc(needed, func(r Right) bool { return r.covers(g) && r.allows(op) })
	})
	return missing, surplus
}

// without leaves out operations of rights, and rights of which none is left.
func without(rights []Right, drop func(Right, Operation) bool) (out []Right) {
	for _, r := range rights {
		r.Operations = slices.DeleteFunc(slices.Clone(r.Operations), func(op Operation) bool { return drop(r, op) })
		if len(r.Operations) > 0 {
			out = append(out, r)
		}
	}
	return out
}

// covers says whether r is about everything that s is about.
func (r Right) covers(s Right) bool {
	switch {
	case r.Kind != s.Kind:
		return false
	case r.Prefixed:
		return strings.HasPrefix(s.Name, r.Name)
	}
	return !s.Prefixed && (r.Name == s.Name || r.Name == "*") || r.Name == "*"
}

// allows says whether r allows an operation.
func (r Right) allows(op Operation) bool {
	return slices.Contains(r.Operations, op) || slices.Contains(r.Operations, All) ||
		slices.ContainsFunc(implied[op], func(o Operation) bool { return slices.Contains(r.Operations, o) })
}

// Commands are the calls of kafka-acls.sh that give rights to a principal.
func Commands(bootstrap, principal string, rights []Right) (out []string) {
	for _, r := range rights {
		args := []string{"kafka-acls.sh", "--bootstrap-server", bootstrap, "--add", "--allow-principal", quoted(principal)}
		for _, op := range r.Operations {
			args = append(args, "--operation", string(op))
		}
		switch {
		case r.Kind == Cluster:
			args = append(args, "--cluster")
		case r.Prefixed:
			args = append(args, "--"+string(r.Kind), quoted(r.Name), "--resource-pattern-type", "prefixed")
		default:
			args = append(args, "--"+string(r.Kind), quoted(r.Name))
		}
		out = append(out, strings.Join(args, " "))
	}
	return out
}

// quoted is a word for a shell.
func quoted(word string) string {
	if strings.Trim(word, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789.-_:") == "" && word != "" {
		return word
	}
	return "'" + strings.ReplaceAll(word, "'", `'\''`) + "'"
}
