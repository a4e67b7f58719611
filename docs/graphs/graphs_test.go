// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"encoding/xml"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"gonum.org/v1/plot"
)

// The samples in testdata are made up: nobody measured them.

// drawn answers the words in a figure, and how many shapes it has. It fails if
// the SVG is none.
func drawn(t *testing.T, svg []byte) (words []string, paths int) {
	t.Helper()
	d := xml.NewDecoder(bytes.NewReader(svg))
	width, in := 0.0, ""
	for {
		token, err := d.Token()
		if errors.Is(err, io.EOF) {
			return words, paths
		}
		if err != nil {
			t.Fatal(err)
		}
		switch token := token.(type) {
		case xml.StartElement:
			in = token.Name.Local
			for _, a := range token.Attr {
				switch {
				case in == "svg" && a.Name.Local == "viewBox":
					width = parsed(t, strings.Fields(a.Value)[2])
				case in == "text" && a.Name.Local == "x":
					if x := parsed(t, a.Value); x > width {
						t.Errorf("something is written at %v, beyond the width of %v", x, width)
					}
				}
			}
			if in == "path" {
				paths++
			}
		case xml.EndElement:
			in = ""
		case xml.CharData:
			if in == "text" {
				words = append(words, string(token))
			}
		}
	}
}

func parsed(t *testing.T, text string) float64 {
	t.Helper()
	x, err := strconv.ParseFloat(text, 64)
	if err != nil {
		t.Fatal(err)
	}
	return x
}

func TestSamplesAreDrawn(t *testing.T) {
	for name, want := range map[string][]string{
		"sweep": {
			"berth bench sweep: hosts", "10 queues, 100 boots/s offered, Kafka 4.3.1 (local), 2 × Sample Processor",
			"a point is a run, up to 2 a value; lines join their medians; 1 lost, 2 doubled",
			"Boots that went through", "offered", "became active", "boots/s",
			"From accepted to granted", "p50", "p99", "ms", "Processor time of a boot", "all", "without the broker",
			"hosts", "10", "100", "1,000",
		},
		"ramp": {
			"berth bench --ramp", "100 hosts, 10 queues, embedded broker, 2 × Sample Processor",
			"knee at 225/s: at 337.5/s the p99 of active is 1400 ms, more than 1000", "0 lost, 0 doubled",
			"From when a boot was due until it ran", "p50", "p99", "ms", "boots/s offered", "knee at 225/s", "100",
			"337.5", "1,000",
		},
	} {
		to := t.TempDir()
		if err := drawAll(to, []string{filepath.Join("testdata", name+".json")}); err != nil {
			t.Fatal(err)
		}
		svg, err := os.ReadFile(filepath.Join(to, name+".svg"))
		if err != nil {
			t.Fatal(err)
		}
		words, paths := drawn(t, svg)
		for _, w := range want {
			if !slices.Contains(words, w) {
				t.Errorf("%s: %q is not in %q", name, w, words)
			}
		}
		if paths < 30 {
			t.Errorf("%s: only %d shapes", name, paths)
		}
		if bytes.Contains(svg, []byte("NaN")) || bytes.Contains(svg, []byte("Inf")) {
			t.Errorf("%s: something is drawn nowhere", name)
		}
	}
}

// Every line is of the number that its name says.
func TestWhatIsDrawn(t *testing.T) {
	for name, want := range map[string][]string{
		"sweep": {
			"offered [{10 100} {100 100} {1000 100}]", "became active [{10 100} {100 99.5} {1000 96}]",
			"p50 [{10 5} {100 6} {1000 50}]", "p99 [{10 21} {100 40} {1000 300}]",
			"all [{10 11.1} {100 11.9} {1000 15}]", "without the broker [{10 5} {100 5.45} {1000 6.5}]",
		},
		"ramp": {"p50 [{100 10} {150 11} {225 14} {337.5 300}]", "p99 [{100 40} {150 45} {225 90} {337.5 1400}]"},
	} {
		data, err := os.ReadFile(filepath.Join("testdata", name+".json"))
		if err != nil {
			t.Fatal(err)
		}
		f, err := figureOf(data)
		if err != nil {
			t.Fatal(err)
		}
		var got []string
		for _, p := range f.panels {
			for _, s := range p.series {
				got = append(got, fmt.Sprintf("%s %.6v", s.name, medians(s.points)))
			}
		}
		if !slices.Equal(got, want) {
			t.Errorf("%s: got\n%s\nwant\n%s", name, strings.Join(got, "\n"), strings.Join(want, "\n"))
		}
	}
}

// A graph that is drawn again is no change for anybody to read.
func TestTheSameInputMakesTheSameBytes(t *testing.T) {
	for _, name := range []string{"sweep", "ramp"} {
		data, err := os.ReadFile(filepath.Join("testdata", name+".json"))
		if err != nil {
			t.Fatal(err)
		}
		var before []byte
		for range 10 {
			f, err := figureOf(data)
			if err != nil {
				t.Fatal(err)
			}
			svg, err := f.svg()
			if err != nil {
				t.Fatal(err)
			}
			if before != nil && !bytes.Equal(before, svg) {
				t.Fatalf("%s: drawn twice, and not the same", name)
			}
			before = svg
		}
	}
}

// What is unusual is drawn too.
func TestOddFigures(t *testing.T) {
	for name, c := range map[string]struct{ data, want string }{
		"one value": {
			`{"vary": "queues", "runs": [{"value": 5, "result": {"boots_per_s": 10}}]}`,
			"one run a value; 0 lost, 0 doubled",
		},
		"a value of zero": {
			`{"vary": "prepare-time", "runs": [{"value": 0, "result": {}}, {"value": 5000, "result": {}}]}`,
			"prepare-time, ms",
		},
		"granted before the 202": {
			`{"vary": "hosts", "runs": [{"value": 1, "result": {"accepted_granted_ms": {"p50": -1, "p99": 500}}}]}`,
			"hosts",
		},
		"a closed loop": {
			`{"vary": "hosts", "runs": [{"value": 1, "result": {"settings": {"closed": 1500}}}]}`,
			"0 queues, 1,500 boots in flight, Kafka  (), 0 × ",
		},
		"no knee": {
			`{"ramp": {"steps": [{"rate": 10, "active_ms": {"p50": 1, "p99": 2000}}], "knee": null, "ended": ` +
				`"too slow"}}`,
			"no rate kept up: too slow",
		},
		"letters of XML": {`{"vary": "<b>", "runs": [{"value": 1, "result": {}}]}`, "<b>"},
	} {
		t.Run(name, func(t *testing.T) {
			f, err := figureOf([]byte(c.data))
			if err != nil {
				t.Fatal(err)
			}
			svg, err := f.svg()
			if err != nil {
				t.Fatal(err)
			}
			if words, _ := drawn(t, svg); !slices.Contains(words, c.want) {
				t.Errorf("%q is not in %q", c.want, words)
			}
		})
	}
}

// One bad file does not keep the others from being drawn.
func TestBadFilesAreNamed(t *testing.T) {
	to := t.TempDir()
	bad := filepath.Join(to, "bad.json")
	if err := os.WriteFile(bad, []byte(`{"boots": 5, "ramp": null}`), 0o644); err != nil {
		t.Fatal(err)
	}
	err := drawAll(to, []string{bad, filepath.Join("testdata", "missing.json"), filepath.Join("testdata", "ramp.json")})
	if err == nil || !strings.Contains(err.Error(), "bad.json: has no runs of a sweep") ||
		!strings.Contains(err.Error(), "missing.json") {
		t.Errorf("got %v", err)
	}
	if _, err := os.Stat(filepath.Join(to, "ramp.svg")); err != nil {
		t.Error(err)
	}
}

func TestAxes(t *testing.T) {
	for _, c := range []struct {
		numbers []float64
		log     bool
		labels  string
	}{
		{[]float64{10, 100, 1000, 100}, true, "10 100 1,000"},
		{[]float64{1, 10}, false, "1 10"},
		{[]float64{0, 1000}, false, "0 1,000"},
		{[]float64{1, 2, 3, 100, 101}, true, "1 2 100"}, // 3 has no room, and 101 neither
		{[]float64{7}, false, "7"},
	} {
		a := plot.New().X
		axis{}.set(&a, c.numbers, atValues)
		var labels []string
		for _, tick := range a.Tick.Marker.Ticks(0, 0) {
			if tick.Label != "" {
				labels = append(labels, tick.Label)
			}
		}
		_, log := a.Scale.(plot.LogScale)
		if got := strings.Join(labels, " "); got != c.labels || log != c.log {
			t.Errorf("%v: labels %q, logarithmic: %v; want %q, %v", c.numbers, got, log, c.labels, c.log)
		}
		for _, x := range c.numbers {
			if at := a.Norm(x); at < 0 || at > 1 {
				t.Errorf("%v: %v is at %v, off the axis", c.numbers, x, at)
			}
		}
	}
}

func TestMedians(t *testing.T) {
	got := medians([]point{{10, 5}, {1, 3}, {10, 1}, {1, 1}, {1, 20}})
	if want := []point{{1, 3}, {10, 3}}; !slices.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
}

func TestNumbers(t *testing.T) {
	for x, want := range map[float64]string{
		0: "0", 999: "999", 1000: "1,000", 1234567: "1,234,567", -1000: "-1,000", 0.25: "0.25", 337.5: "337.5",
		0.1 + 0.2: "0.3",
	} {
		if got := number(x); got != want {
			t.Errorf("%v is %q, want %q", x, got, want)
		}
	}
}
