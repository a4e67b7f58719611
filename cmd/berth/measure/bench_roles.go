// SPDX-License-Identifier: Apache-2.0

package measure

import (
	"fmt"
	"slices"

	"github.com/berth-project/berth/pkg/cli"
	"github.com/berth-project/berth/pkg/lab"
	"github.com/berth-project/berth/pkg/lab/bench"
)

// benchRoles shows what each role took, the centre as a sum of its roles.
func benchRoles(r bench.Result) cli.Grid {
	g := cli.Grid{Right: []bool{false, true, true, true, true, true, true, true}}
	g.Rows = append(
		g.Rows,
		[]string{
			"ROLE",
			"CPU S",
			"CPU MS/BOOT",
			"REQUESTS/BOOT",
			"KB SENT/BOOT",
			"KB RECEIVED/BOOT",
			"IDLE CPU MS/S",
			"IDLE REQUESTS/S",
		},
	)
	for _, role := range []lab.Role{lab.RoleBroker, lab.RoleAPI, lab.RoleConductor, lab.RoleQueues} {
		g.Rows = append(g.Rows, roleRow(r, string(role), role))
	}
	g.Rows = append(g.Rows, roleRow(r, "centre", lab.RoleBroker, lab.RoleAPI, lab.RoleConductor, lab.RoleQueues))
	for _, role := range []lab.Role{lab.RoleAgent, lab.RoleLoad} {
		g.Rows = append(g.Rows, roleRow(r, string(role), role))
	}
	return g
}

// roleRow adds up some roles. Of what is not known of one of them the sum is not
// known either; requests are those that roles make, and a broker makes none here.
func roleRow(r bench.Result, name string, roles ...lab.Role) []string {
	cells := []string{name, sumOf(r.CPU, roles, 1, "%.2f"), sumOf(r.CPU, roles, 1000/float64(max(r.Boots, 1)), "%.2f")}
	if slices.Equal(roles, []lab.Role{lab.RoleBroker}) {
		cells = append(cells, "", "", "")
	} else {
		requests, sent, received := 0.0, 0.0, 0.0
		for _, role := range roles {
			for _, api := range r.Requests[role] {
				requests += api.PerBoot
			}
			sent, received = sent+r.Bytes[role].Sent, received+r.Bytes[role].Received
		}
		cells = append(
			cells, fmt.Sprintf("%.2f", requests), fmt.Sprintf("%.1f", sent/1000), fmt.Sprintf("%.1f", received/1000),
		)
	}
	if r.Idle == nil {
		return append(cells, "", "")
	}
	idle := 0.0
	for _, role := range roles {
		for _, n := range r.Idle.Requests[role] {
			idle += n
		}
	}
	asked := fmt.Sprintf("%.2f", idle)
	if slices.Equal(roles, []lab.Role{lab.RoleBroker}) {
		asked = ""
	}
	return append(cells, sumOf(r.Idle.CPU, roles, 1000/r.Idle.Seconds, "%.1f"), asked)
}

// sumOf is the processor time of roles, times something; a question mark if it is
// not known of all.
func sumOf(c bench.CPU, roles []lab.Role, times float64, format string) string {
	sum := 0.0
	for _, role := range roles {
		used, known := c.Roles[role]
		if !known {
			return "?"
		}
		sum += used
	}
	return fmt.Sprintf(format, times*sum)
}

// served says what brokers counted.
func served(s bench.Served, each string) string {
	return fmt.Sprintf("%.1f requests, %.1f lock releases, %.1f kB in and %.1f kB out %s (of records %.1f and %.1f)",
		s.Total(), s.LockReleases, s.BytesIn/1000, s.BytesOut/1000, each, s.RecordBytesIn/1000, s.RecordBytesOut/1000)
}
