// SPDX-License-Identifier: Apache-2.0

package judge

import (
	"testing"

	"github.com/berth-project/berth/pkg/compute"
	"github.com/berth-project/berth/pkg/lab/sim/schedule"
)

// Of two requests under one key that differ, the log has that which was answered with 202.
func TestCheckKeys(t *testing.T) {
	// differs has vm-1 be asked for in this way and be in the log with other labels.
	differs := func(own string, change func(*Recording)) func(*Recording) {
		return func(r *Recording) {
			r.Asks[0].Own = own
			for n := range r.Log {
				r.Log[n].Instance.Boot.Metadata = map[string]string{"a": "c"}
			}
			change(r)
		}
	}
	nothing := func(*Recording) {}
	sees(t, checkKeys, map[string]func(*Recording){
		"right: it is the one in the log":                              func(r *Recording) { r.Asks[0].Own = "key" },
		"vm-1 was accepted with map[a:b], and it is another request's": differs("key", nothing),
		"another request's, with map[a:c]":                             differs("id", nothing),
		"right: the API made its id":                                   differs("", nothing),
		"right: it was refused": differs("key", func(r *Recording) {
			r.Asks[0].OK = false
		}),
		"right: it was no boot": differs("key", func(r *Recording) {
			r.Asks[0].Op = schedule.LoadDelete
		}),
		"right: nothing is in the log": differs("key", func(r *Recording) { r.Log = nil }),
		"right: it was deleted before its boot came": differs("key", func(r *Recording) {
			r.Log[0].Instance.State, r.Log[0].Instance.Boot = compute.StateDeleted, compute.Boot{}
		}),
		"right: its labels were changed later": func(r *Recording) {
			r.Asks[0].Own = "key"
			r.Log[2].Instance.Boot.Metadata = map[string]string{"a": "c"}
		},
	})
}
