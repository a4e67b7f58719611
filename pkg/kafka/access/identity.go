// SPDX-License-Identifier: Apache-2.0

package access

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/berth-project/berth/pkg/compute"
	"github.com/berth-project/berth/pkg/wire"
)

// Identity is the Kafka user of a process and its role. In the zero value neither is known.
type Identity struct {
	// Principal is the name that brokers know this process by, as far as it can know: "User:conductor". Kafka does
	// not say it: with a certificate, ssl.principal.mapping.rules of the brokers may make another of it. nil or
	// empty: not known.
	Principal func() string
	Role      Role             // empty: none of a cell's
	Topics    wire.Topics      // the names of the cell
	Hosts     []compute.HostID // of an agent: those it speaks for
}

// Needs are the rights of the role, for each host; none without a role.
func (i Identity) Needs() ([]Right, error) {
	if i.Role == "" {
		return nil, nil
	}
	hosts := i.Hosts
	if len(hosts) == 0 {
		hosts = []compute.HostID{""}
	}
	var all []Right
	for _, host := range hosts {
		rights, err := Rights(i.Role, i.Topics, host)
		if err != nil {
			return nil, err
		}
		for _, r := range rights {
			if !slices.ContainsFunc(all, r.sameThing) {
				all = append(all, r)
			}
		}
	}
	return all, nil
}

// sameThing says whether two rights are about the same.
func (r Right) sameThing(s Right) bool {
	return r.Kind == s.Kind && r.Name == s.Name && r.Prefixed == s.Prefixed
}

// mostSaid bounds what one message names: the command in it gives all the others too.
const mostSaid = 4

// Denied says that Kafka does not allow what the process was about to do (op): which user may not do
// what with which thing, and what an operator does about it.
func (i Identity) Denied(op string, cause error, lacks ...Right) *compute.Error {
	said := make([]string, 0, mostSaid)
	for _, r := range lacks[:min(len(lacks), mostSaid)] {
		said = append(said, r.String())
	}
	if n := len(lacks) - len(said); n > 0 {
		said = append(said, fmt.Sprintf("%d things more", n))
	}
	return &compute.Error{
		Op: op, Kind: compute.KindForbidden, Message: i.Name() + " may not " + strings.Join(said, ", "),
		Remedy: i.remedy(lacks), Cause: cause,
	}
}

// To is the right to do one thing with one resource.
func To(op Operation, kind Kind, name string) Right {
	return Right{Kind: kind, Name: name, Operations: []Operation{op}}
}

// ToAll is the right to do one thing with everything of a kind whose name begins so.
func ToAll(op Operation, kind Kind, prefix string) Right {
	return Right{Kind: kind, Name: prefix, Prefixed: true, Operations: []Operation{op}}
}

// String names what may be done, and with what: "Read topic berth.requests".
func (r Right) String() string {
	ops := make([]string, len(r.Operations))
	for i, op := range r.Operations {
		ops[i] = string(op)
	}
	name := r.Name
	if r.Prefixed {
		name += "…"
	}
	return strings.Join(ops, "+") + " " + string(r.Kind) + " " + name
}

// Name is how a message names the process.
func (i Identity) Name() string {
	if p := i.principal(); p != "" {
		return p
	}
	return "this process's Kafka user"
}

func (i Identity) principal() string {
	if i.Principal == nil {
		return ""
	}
	return i.Principal()
}

// remedy is what gives the rights. Where the role does not have them by the table, giving the role its rights again
// helps nobody. What an operator does can be tried with the file of any daemon, and a name does not tell whose user it
// is: the one that was refused is never given that role, or a host's could read all user data.
func (i Identity) remedy(lacks []Right) string {
	switch {
	case i.Role == "":
		return `give it this right: "berth acl print" shows what each role needs`
	case i.Role == Operator && i.meant(lacks):
		return "run it as a Kafka user of your own with the role operator, and its own file with --config; " +
			"no daemon's user gets that role: " + i.commandFor("User:NAME", lacks)
	case i.meant(lacks):
		return "have an administrator of Kafka run: " + i.command(lacks)
	case slices.ContainsFunc(lacks, func(r Right) bool { return slices.Contains(r.Operations, Create) }):
		return "start a queue manager (berth queues): it alone makes topics"
	}
	return fmt.Sprintf("the role %s does not have this right: see to it that each process has a user of its own", i.Role)
}

// meant says whether the role has all these rights by the table.
func (i Identity) meant(lacks []Right) bool {
	needs, err := i.Needs()
	if err != nil {
		return false
	}
	missing, _ := Compare(lacks, needs)
	return len(missing) == 0
}

// command is the call of berth acl that gives the role what it needs.
func (i Identity) command(lacks []Right) string {
	return i.commandFor(cmp.Or(i.principal(), "User:NAME"), lacks)
}

func (i Identity) commandFor(principal string, lacks []Right) string {
	out := "berth acl apply --role " + string(i.Role)
	if host := i.hostOf(lacks); host != "" {
		out += " --host " + quoted(string(host))
	}
	out += " --principal " + quoted(principal)
	if i.Topics.Prefix != wire.DefaultPrefix {
		out += " --prefix " + quoted(i.Topics.Prefix)
	}
	return out
}

// hostOf is the host whose stream is among what lacks, or the first one.
func (i Identity) hostOf(lacks []Right) compute.HostID {
	for _, host := range i.Hosts {
		if slices.ContainsFunc(lacks, func(r Right) bool { return r.Name == i.Topics.Host(host) }) {
			return host
		}
	}
	if len(i.Hosts) > 0 {
		return i.Hosts[0]
	}
	return ""
}
