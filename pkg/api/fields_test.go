// SPDX-License-Identifier: Apache-2.0

package api

import (
	"encoding/json"
	"testing"

	"pgregory.net/rapid"

	"github.com/berth-project/berth/pkg/compute"
	"github.com/berth-project/berth/pkg/wire/rest"
)

// TestChosenFieldsAreThoseOfAll: each field that is chosen is what it is where
// all are shown, and is left out where it is left out there.
func TestChosenFieldsAreThoseOfAll(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		set := func(what string) bool { return rapid.Bool().Draw(rt, what) }
		i := instance(id1, "", compute.StateActive, func(i *compute.Instance) {
			if set("name") {
				i.Boot.Name = "a<b>\"c"
			}
			if set("reason") {
				i.Reason = &compute.Reason{Code: compute.HostLost, Host: "h1"}
			}
			if set("maps") {
				i.Boot.Metadata, i.Resources, i.Boot.Avoid = map[string]string{"k": "v"},
					compute.Resources{compute.VCPU: 1}, []compute.HostID{"h2"}
			}
			if set("ended") {
				i.EndedAt, i.Delete = start, true
			}
			if set("command") {
				i.Command = &compute.PowerCommand{Op: compute.OpStop, At: start}
			}
		})
		whole, err := json.Marshal(selected{instance: rest.FromInstance(&i)})
		if err != nil {
			rt.Fatal(err)
		}
		var all map[string]json.RawMessage
		if err := json.Unmarshal(whole, &all); err != nil {
			rt.Fatal(err)
		}
		only := fields{"id"}
		for _, f := range instanceFields {
			if set(f.name) {
				only = append(only, f.name)
			}
		}
		part, err := json.Marshal(selected{rest.FromInstance(&i), only})
		if err != nil {
			rt.Fatal(err)
		}
		var some map[string]json.RawMessage
		if err := json.Unmarshal(part, &some); err != nil {
			rt.Fatal(err)
		}
		for _, f := range instanceFields {
			want := ""
			if only.has(f.name) {
				want = string(all[f.name])
			}
			if got := string(some[f.name]); got != want {
				rt.Fatalf("%s is %q, want %q", f.name, got, want)
			}
		}
	})
}
