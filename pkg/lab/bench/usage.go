// SPDX-License-Identifier: Apache-2.0

package bench

import (
	"fmt"
	"os"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/berth-project/berth/pkg/lab"
)

// Share is something of the brokers' processes, all together, and of all others of
// the run. What cannot be known of the brokers, because they are elsewhere or in
// this very process, is nil.
type Share[T any] struct {
	Broker *T `json:"broker"`
	Berth  T  `json:"berth"`
}

// CPU is processor time, in seconds.
type CPU struct {
	Share[float64]
	// Roles is nil where roles have no processes of their own; it has no broker
	// where the brokers' is not known.
	Roles map[lab.Role]float64 `json:"roles"`
	// Centre is that of brokers, API node, conductors and queue manager together,
	// and CentreMS the same in milliseconds for each boot; nil where one of them is
	// not known.
	Centre   *float64 `json:"centre"`
	CentreMS *float64 `json:"centre_ms_per_boot"`
	// Others is what every other process of the machine used meanwhile, and Stolen
	// what a virtual machine was not given though it had work: what this run could
	// not have. nil where it is not known.
	Others *float64 `json:"others"`
	Stolen *float64 `json:"stolen"`
}

// usage is processor time used so far, in seconds.
type usage struct {
	broker  *float64
	berth   float64              // of all processes but brokers
	roles   map[lab.Role]float64 // the same by role; nil: not known
	machine *machineTime
}

// machineTime is processor time of a whole machine, in seconds.
type machineTime struct{ used, stolen float64 }

// ownCPU is the processor time of this process, in seconds.
func ownCPU() float64 {
	var own syscall.Rusage
	if syscall.Getrusage(syscall.RUSAGE_SELF, &own) != nil {
		return 0
	}
	return time.Duration(own.Utime.Nano() + own.Stime.Nano()).Seconds()
}

// measureUsage looks at brokers and machine; what Berth used is the caller's to say.
func measureUsage(brokers []int) usage {
	var u usage
	u.broker = allOf(brokers, processCPU)
	if stat, err := os.ReadFile("/proc/stat"); err == nil {
		if m, ok := machineCPU(string(stat)); ok {
			u.machine = &m
		}
	}
	return u
}

// since is what was used between two moments, for so many boots.
func (u usage) since(before usage, boots int) CPU {
	c := CPU{Share: Share[float64]{Berth: round(u.berth - before.berth)}}
	if u.broker != nil && before.broker != nil {
		d := round(*u.broker - *before.broker)
		c.Broker = &d
	}
	if u.roles != nil {
		c.Roles = map[lab.Role]float64{}
		for role, used := range u.roles {
			c.Roles[role] = round(used - before.roles[role])
		}
		if c.Broker != nil {
			c.Roles[lab.RoleBroker] = *c.Broker
		}
		c.addCentre(boots)
	}
	if u.machine != nil && before.machine != nil {
		others := round(max(0, u.machine.used-before.machine.used-total(c.Share)))
		stolen := round(u.machine.stolen - before.machine.stolen)
		c.Others, c.Stolen = &others, &stolen
	}
	return c
}

// addCentre adds up the roles whose work all hosts share.
func (c *CPU) addCentre(boots int) {
	sum := 0.0
	for _, role := range centre() {
		used, known := c.Roles[role]
		if !known {
			return
		}
		sum += used
	}
	sum = round(sum)
	c.Centre = &sum
	if boots > 0 {
		each := round(1000 * sum / float64(boots))
		c.CentreMS = &each
	}
}

// machineCPU finds in the first line of /proc/stat how long processors worked,
// and how long they were elsewhere although there was work.
func machineCPU(stat string) (machineTime, bool) {
	line, _, _ := strings.Cut(stat, "\n")
	fields := strings.Fields(line)
	const idle, wait, steal = 4, 5, 8 // behind the name; guests' time is in the users' already
	if len(fields) <= steal || fields[0] != "cpu" {
		return machineTime{}, false
	}
	var used, stolen uint64
	for i, f := range fields[1 : steal+1] {
		n, err := strconv.ParseUint(f, 10, 64)
		if err != nil {
			return machineTime{}, false
		}
		switch i + 1 {
		case idle, wait:
		case steal:
			stolen = n
		default:
			used += n
		}
	}
	return machineTime{used: float64(used) / ticks, stolen: float64(stolen) / ticks}, true
}

// total is that of both, as far as it is known.
func total(s Share[float64]) float64 {
	if s.Broker == nil {
		return s.Berth
	}
	return s.Berth + *s.Broker
}

// ticks a second are what Linux counts processor time in, on every machine it
// runs Go on.
const ticks = 100

// processCPU reads the processor time of another process, in seconds.
func processCPU(pid int) (float64, bool) {
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return 0, false
	}
	return statCPU(string(stat))
}

// statCPU finds user and system time in a line of /proc/<pid>/stat. The name of
// the program may hold anything, so what counts begins behind its last bracket.
func statCPU(stat string) (float64, bool) {
	fields := strings.Fields(stat[strings.LastIndex(stat, ")")+1:])
	const user, system = 11, 12
	if len(fields) <= system {
		return 0, false
	}
	u, err1 := strconv.ParseUint(fields[user], 10, 64)
	s, err2 := strconv.ParseUint(fields[system], 10, 64)
	return float64(u+s) / ticks, err1 == nil && err2 == nil
}

// resident is the memory a process has, in bytes.
func resident(pid int) (int64, bool) {
	statm, err := os.ReadFile(fmt.Sprintf("/proc/%d/statm", pid))
	if err != nil {
		return 0, false
	}
	fields := strings.Fields(string(statm))
	if len(fields) < 2 {
		return 0, false
	}
	pages, err := strconv.ParseInt(fields[1], 10, 64)
	return pages * int64(os.Getpagesize()), err == nil
}

// allOf adds up what is known of each process; nil if it is not known of all, or
// there is none.
func allOf[T int64 | float64](pids []int, of func(pid int) (T, bool)) *T {
	var sum T
	for _, pid := range pids {
		n, ok := of(pid)
		if !ok {
			return nil
		}
		sum += n
	}
	if len(pids) == 0 {
		return nil
	}
	return &sum
}

// round keeps three digits behind the point.
func round(x float64) float64 {
	if x < 0 {
		return -round(-x)
	}
	return float64(int64(x*1000+0.5)) / 1000
}
