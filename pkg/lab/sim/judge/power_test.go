// SPDX-License-Identifier: Apache-2.0

package judge

import (
	"testing"

	"github.com/berth-project/berth/compute-agent/hypervisor/fake"
	"github.com/berth-project/berth/pkg/compute"
	"github.com/berth-project/berth/pkg/lab/sim/schedule"
)

func TestCheckPower(t *testing.T) {
	ops := map[string]compute.RequestOp{"stop": compute.OpStop, "start": compute.OpStart, "reboot": compute.OpReboot}
	asks := func(r *Recording, at schedule.Seconds, what string) compute.PowerCommand {
		r.asks(at, schedule.Load{Op: schedule.LoadPower, Power: what}, nil)
		return compute.PowerCommand{Op: ops[what], Command: commandOf(len(r.Asks) - 1)}
	}
	given := func(r *Recording, at schedule.Seconds, c *compute.PowerCommand) {
		i := r.Log[len(r.Log)-1].Instance
		i.Command = c
		r.logged(at, i)
	}
	answered := func(r *Recording, at schedule.Seconds, failed string) {
		i := r.Log[len(r.Log)-1].Instance
		i.Answer = &compute.PowerAnswer{Op: i.Command.Op, Command: i.Command.Command, At: moment(at), Failed: failed}
		i.Command = nil
		r.logged(at, i)
	}
	does := func(r *Recording, at schedule.Seconds, k fake.EventKind) {
		r.Machines = append(
			r.Machines,
			fake.Event{At: moment(at), Kind: k, Host: "host-1", Instance: madeID, Attempt: 1},
		)
	}
	run := func(what string, k fake.EventKind, failed string) func(*Recording) {
		return func(r *Recording) {
			c := asks(r, 10, what)
			given(r, 11, &c)
			if k != "" {
				does(r, 12, k)
			}
			answered(r, 13, failed)
		}
	}
	sees(t, checkPower, map[string]func(*Recording){
		"the stop of vm-1 at 10.100s came into no record": func(r *Recording) { asks(r, 10, "stop") },
		"right: it was not active yet":                    func(r *Recording) { asks(r, 3.5, "stop") },
		"right: it is deleted meanwhile": func(r *Recording) {
			asks(r, 10, "stop")
			i := r.Log[2].Instance
			i.State = compute.StateDeleting
			r.logged(11, i)
		},
		"is in no record since 12.000s, and was not answered": func(r *Recording) {
			c := asks(r, 10, "stop")
			given(r, 11, &c)
			given(r, 12, nil)
		},
		"right: a newer one takes its place": func(r *Recording) {
			c, d := asks(r, 10, "stop"), asks(r, 10.5, "start")
			given(r, 11, &c)
			given(r, 11, &d)
			answered(r, 13, "")
		},
		"right: stopped":                run("stop", fake.Stopped, ""),
		"stop is said to be done":       run("stop", "", ""),
		"right: started, it ran":        run("start", "", ""),
		"right: rebooted":               run("reboot", fake.Rebooted, ""),
		"reboot is said to be done":     run("reboot", "", ""),
		"stop of vm-1 failed without a": run("stop", "", "no"),
		"right: what is stopped is not rebooted": func(r *Recording) {
			does(r, 9, fake.Stopped)
			run("reboot", "", "it is stopped")(r)
		},
	})
}
