// SPDX-License-Identifier: Apache-2.0

package judge

import (
	"testing"

	"github.com/berth-project/berth/pkg/lab/sim/schedule"
)

func TestCheckGaveWay(t *testing.T) {
	agents := func(began, ended, clone, gone schedule.Seconds, gaveWay bool) func(*Recording) {
		return func(r *Recording) {
			r.AddAgent(Agent{Host: "host-1", Process: "host-1-clone", Began: moment(clone), Ended: moment(gone)})
			r.AddAgent(Agent{Host: "host-1", Process: "host-1", Began: moment(began), Ended: moment(ended), GaveWay: gaveWay})
			r.AddAgent(Agent{Host: "host-2", Process: "host-2", Began: moment(0), Ended: moment(1000)})
		}
	}
	sees(t, checkGaveWay, map[string]func(*Recording){
		"host-1, the agent of host-1 that began at 10.000s": agents(10, 300, 200, 400, true),
		"began at 500.000s":                      agents(500, 600, 200, 400, true),
		"right: its clone began before it":       agents(300, 310, 200, 400, true),
		"right: its clone had ended just before": agents(420, 430, 200, 400, true),
		"right: both began together":             agents(200, 300, 210, 400, true),
		"right: it ended for another reason":     agents(10, 300, 200, 400, false),
	})
}
