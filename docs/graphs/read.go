// SPDX-License-Identifier: Apache-2.0

package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
)

// document is a file of either kind.
type document struct {
	Vary string     `json:"vary"`
	Runs []measured `json:"runs"`
	result
}

type measured struct {
	Value  float64 `json:"value"`
	Result result  `json:"result"`
}

// result is what is drawn of a run.
type result struct {
	Boots             int       `json:"boots"`
	BootsPerS         float64   `json:"boots_per_s"`
	AcceptedGrantedMS quantiles `json:"accepted_granted_ms"`
	CPU               cpu       `json:"cpu_s"`
	Lost              int       `json:"lost"`
	Doubled           int       `json:"doubled"`
	Hosts             int       `json:"hosts"`
	Queues            int       `json:"queues"`
	Machine           struct {
		Cores int    `json:"cores"`
		CPU   string `json:"cpu"`
	} `json:"machine"`
	Versions struct {
		Kafka string `json:"kafka"`
	} `json:"versions"`
	Settings struct {
		Kafka  string  `json:"kafka"`
		Rate   float64 `json:"rate"`   // 0: a closed loop
		Closed int     `json:"closed"` // 0: open load
	} `json:"settings"`
	Ramp *ramp `json:"ramp"`
}

type quantiles struct {
	P50 float64 `json:"p50"`
	P99 float64 `json:"p99"`
}

// cpu is processor time, in seconds.
type cpu struct {
	Broker *float64 `json:"broker"` // nil: not known, or in Berth
	Berth  float64  `json:"berth"`
}

type ramp struct {
	Steps []step `json:"steps"`
	Knee  *step  `json:"knee"`
	Ended string `json:"ended"`
}

type step struct {
	Rate     float64   `json:"rate"`
	ActiveMS quantiles `json:"active_ms"`
}

// figureOf says what is drawn of a file.
func figureOf(data []byte) (figure, error) {
	var d document
	if err := json.Unmarshal(data, &d); err != nil {
		return figure{}, err
	}
	switch {
	case d.Vary != "" && len(d.Runs) > 0:
		return sweepFigure(d.Vary, d.Runs), nil
	case d.Ramp != nil && len(d.Ramp.Steps) > 0:
		return rampFigure(d.result), nil
	}
	return figure{}, errors.New("has no runs of a sweep and no steps of a ramp: give what " +
		"`berth bench sweep -o json` or `berth bench --ramp -o json` wrote")
}

// setting says what was measured, but for what varies, and on what.
func (r result) setting(vary string) string {
	var parts []string
	add := func(format string, args ...any) { parts = append(parts, fmt.Sprintf(format, args...)) }
	if vary != "hosts" {
		add("%s hosts", number(float64(r.Hosts)))
	}
	if vary != "queues" {
		add("%s queues", number(float64(r.Queues)))
	}
	switch s := r.Settings; {
	case vary == "rate" || vary == "closed": // it is the axis
	case s.Closed > 0:
		add("%s boots in flight", number(float64(s.Closed)))
	default:
		add("%s boots/s offered", number(s.Rate))
	}
	if r.Settings.Kafka == "embedded" {
		add("embedded broker") // whose version is a commit
	} else {
		add("Kafka %s (%s)", r.Versions.Kafka, r.Settings.Kafka)
	}
	add("%d × %s", r.Machine.Cores, r.Machine.CPU)
	return strings.Join(parts, ", ")
}
