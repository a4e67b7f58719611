// SPDX-License-Identifier: Apache-2.0

package hostkey

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/berth-project/berth/pkg/compute"
)

// Withdrawn are keys that count no more, by whose they are: those under some masters, or all (docs/decisions/0054).
// A nil one has none.
type Withdrawn map[string]withdrawn

type withdrawn struct {
	all     bool
	masters map[MasterID]bool
}

// ParseWithdrawn reads a list of NAME, all keys of that name, and NAME@MASTER, its key under one master. check says
// what a name is; field is the setting that has the list.
func ParseWithdrawn(field string, list []string, check func(name string) error) (Withdrawn, error) {
	if len(list) == 0 {
		return nil, nil
	}
	all := Withdrawn{}
	for _, text := range list {
		name, master, one := strings.Cut(text, "@")
		id, known := ParseMasterID(master)
		if check(name) != nil || one && !known {
			return nil, compute.Invalid(field, text,
				"give names, or NAME@MASTER with the 8 digits of the master that stand after the name in its key file")
		}
		w := all[name]
		switch {
		case !one:
			w.all = true
		case w.masters == nil:
			w.masters = map[MasterID]bool{id: true}
		default:
			w.masters[id] = true
		}
		all[name] = w
	}
	return all, nil
}

// CheckMasters refuses a key under a master that is not among these: none such counts, so the line is wrong or old.
func (w Withdrawn) CheckMasters(field string, all []Master) error {
	var ids []string
	for _, m := range all {
		ids = append(ids, m.ID().String())
	}
	for _, name := range slices.Sorted(maps.Keys(w)) {
		for m := range w[name].masters {
			if !slices.Contains(ids, m.String()) {
				return compute.Invalid(field, fmt.Sprintf("%s@%s", name, m), fmt.Sprintf("the masters here are %s: give "+
					"one of them, or take the line out, if its master has gone", strings.Join(ids, ", ")))
			}
		}
	}
	return nil
}

// Has says whether the key of a name under a master counts no more.
func (w Withdrawn) Has(name string, m MasterID) bool {
	is, some := w[name]
	return some && (is.all || is.masters[m])
}
