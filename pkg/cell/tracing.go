// SPDX-License-Identifier: Apache-2.0

package cell

import (
	"errors"
	"fmt"

	"github.com/berth-project/berth/pkg/compute"
	"github.com/berth-project/berth/pkg/tracing"
)

// TracingSettings say where a process tells how long the steps of boots took.
type TracingSettings struct {
	Endpoint string  `yaml:"endpoint"` // empty: nowhere
	Ratio    float64 `yaml:"ratio"`    // of the boots whose callers say nothing of traces
}

// DefaultTracing tells nobody. Where an endpoint is named, one boot in a hundred is traced.
func DefaultTracing() TracingSettings { return TracingSettings{Ratio: 0.01} }

// Check answers all that is wrong, joined, each with the key it is about.
func (s TracingSettings) Check() error {
	var ratio error
	if !(s.Ratio >= 0 && s.Ratio <= 1) {
		ratio = compute.Invalid("tracing.ratio", fmt.Sprint(s.Ratio), "give a number from 0, none, to 1, all")
	}
	return errors.Join(tracing.CheckEndpoint("tracing.endpoint", s.Endpoint), ratio)
}

// Traced is the cell with the tracer that the settings ask for, if they do. It is closed after all parts.
func (c Cell) Traced(s TracingSettings, service string) Cell {
	if s.Endpoint != "" {
		c.Tracer = tracing.New(tracing.Options{
			Endpoint: s.Endpoint, Ratio: s.Ratio, Service: "berth-" + service, Log: c.Log,
		})
	}
	return c
}
