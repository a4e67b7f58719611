package config

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/berth-project/berth/pkg/compute"
)

// settings has every kind of setting there is.
type settings struct {
	Kafka struct {
		Brokers []string `yaml:"brokers"`
		Prefix  string   `yaml:"prefix"`
		Copies  int16    `yaml:"copies"`
	} `yaml:"kafka"`
	Wait    time.Duration     `yaml:"wait"`
	Verbose bool              `yaml:"verbose"`
	Share   float64           `yaml:"share"`
	Host    compute.HostID    `yaml:"host"`
	Totals  compute.Resources `yaml:"totals"`
	Devices []struct {
		Name string `yaml:"name"`
	} `yaml:"devices"`
	Hidden  string `yaml:"-"`
	private string
}

func defaults() settings {
	s := settings{Wait: time.Second, Host: "h", private: "kept"}
	s.Kafka.Brokers, s.Kafka.Prefix = []string{"127.0.0.1:9092"}, "berth."
	return s
}

func none(string) (string, bool) { return "", false }

func TestParseOverDefaults(t *testing.T) {
	got, want := defaults(), defaults()
	err := Parse("x.yaml", []byte(`
kafka:
  brokers: [a:1, b:2]
wait: 1m30s
verbose: true
share: 0.5
totals: {VCPU: 16}
devices:
  - name: gpu0
`), &got)
	if err != nil {
		t.Fatal(err)
	}
	want.Kafka.Brokers, want.Wait, want.Verbose, want.Share = []string{"a:1", "b:2"}, 90*time.Second, true, 0.5
	want.Totals = compute.Resources{compute.VCPU: 16}
	want.Devices = []struct {
		Name string `yaml:"name"`
	}{{"gpu0"}}
	if diff := cmp.Diff(want, got, cmp.AllowUnexported(settings{})); diff != "" {
		t.Error(diff)
	}
	for _, empty := range []string{"", "# nothing\n", "---\n", "kafka:\n"} {
		got := defaults()
		if err := Parse("x.yaml", []byte(empty), &got); err != nil || got.Kafka.Prefix != "berth." || got.private != "kept" {
			t.Errorf("%q: %v, %+v", empty, err, got)
		}
	}
}

func TestParseRefusals(t *testing.T) {
	for text, want := range map[string]string{
		"kafak: {}":                         `key "kafak": x.yaml line 1: there is no such setting; did you mean kafka?`,
		"\n\nkafka:\n  broker: a":           `key "kafka.broker": x.yaml line 4: there is no such setting; did you mean kafka.brokers?`,
		"nonsense: 1":                       `key "nonsense": x.yaml line 1: there is no such setting; known here: devices, host, kafka, share, totals, verbose, wait`,
		"devices:\n  - name: a\n    nam: b": `key "devices.nam": x.yaml line 3: there is no such setting; did you mean devices.name?`,
		"Hidden: x":                         `key "Hidden": x.yaml line 1: there is no such setting; known here: devices, host, kafka, share, totals, verbose, wait`,
		"a: &x {kafak: 1}":                  `key "a": x.yaml line 1: there is no such setting; known here: devices, host, kafka, share, totals, verbose, wait`,
		"kafka: {copies: many}":             `value "many": x.yaml line 1: give a whole number`,
		"kafka: {copies: 40000}":            `value "40000": x.yaml line 1: give a whole number`,
		"kafka: {brokers: a}":               `value "a": x.yaml line 1: give a list, as in [a, b]`,
		"\nwait: 15":                        `value "15": x.yaml line 2: give a duration with its unit, as in 15s or 10m`,
		"wait: soon":                        `value "soon": x.yaml line 1: give a duration with its unit, as in 15s or 10m`,
		"verbose: 7":                        `value "7": x.yaml line 1: give true or false`,
		"share: much":                       `value "much": x.yaml line 1: give a number`,
		"host: [a]":                         `value "": x.yaml line 1: give text`,
		"totals: 16":                        `value "16": x.yaml line 1: give a mapping, as in {VCPU: 16}`,
		"kafka: text":                       `value "text": x.yaml line 1: give a section of settings`,
		"- a":                               `value "": x.yaml line 1: give a section of settings`,
		"wait: 1s\nwait: 2s":                `config "x.yaml": line 2: mapping key "wait" already defined at line 1`,
		"wait: 1s\n---\nwait: 2s":           `config "x.yaml" is not valid; give one document: there is a second one after ---`,
		"wait: [":                           `config "x.yaml": line 1: did not find expected node content`,
	} {
		got := defaults()
		err := Parse("x.yaml", []byte(text), &got)
		if err == nil || err.Error() != want || compute.KindOf(err) != compute.KindInvalid {
			t.Errorf("%q:\n got %v\nwant %s", text, err, want)
		}
	}
}

func FuzzParse(f *testing.F) {
	f.Add("kafka: {brokers: [a]}")
	f.Add("a: &a [*a]")
	f.Add("devices: [{name: x}, 7]")
	f.Fuzz(func(t *testing.T, text string) {
		got := defaults()
		if err := Parse("x.yaml", []byte(text), &got); err != nil && compute.KindOf(err) != compute.KindInvalid {
			t.Errorf("%q: %v", text, err)
		}
	})
}

func TestLoad(t *testing.T) {
	file := filepath.Join(t.TempDir(), "x.yaml")
	if err := os.WriteFile(file, []byte("wait: 5s\nhost: file"), 0o600); err != nil {
		t.Fatal(err)
	}
	got := defaults()
	lookup := func(name string) (string, bool) {
		v, ok := map[string]string{"BERTH_HOST": "env", "BERTH_KAFKA_BROKERS": "a:1, b:2,", "BERTH_OTHER": "x"}[name]
		return v, ok
	}
	if err := Load(file, lookup, &got); err != nil {
		t.Fatal(err)
	}
	want := defaults()
	want.Wait, want.Host, want.Kafka.Brokers = 5*time.Second, "env", []string{"a:1", "b:2"}
	if diff := cmp.Diff(want, got, cmp.AllowUnexported(settings{})); diff != "" {
		t.Error("environment over file over defaults:", diff)
	}
	got = defaults()
	if err := Load("", none, &got); err != nil {
		t.Error(err)
	}
	if err := Load(file+".missing", none, &got); compute.KindOf(err) != compute.KindNotFound {
		t.Error(err)
	}
	if err := Load(filepath.Dir(file), none, &got); compute.KindOf(err) != compute.KindInvalid {
		t.Error(err)
	}
}

func TestEnv(t *testing.T) {
	for name, c := range map[string]struct {
		value string
		want  func(*settings)
		err   string
	}{
		"BERTH_KAFKA_COPIES": {value: "3", want: func(s *settings) { s.Kafka.Copies = 3 }},
		"BERTH_KAFKA_PREFIX": {value: "", want: func(s *settings) { s.Kafka.Prefix = "" }},
		"BERTH_WAIT":         {value: "2m", want: func(s *settings) { s.Wait = 2 * time.Minute }},
		"BERTH_VERBOSE":      {value: "true", want: func(s *settings) { s.Verbose = true }},
		"BERTH_HOST":         {value: "7", want: func(s *settings) { s.Host = "7" }},
		"BERTH_TOTALS":       {value: "VCPU=4,MEMORY_MB=8", want: func(s *settings) { s.Totals = compute.Resources{compute.VCPU: 4, compute.MemoryMB: 8} }},
		"BERTH_SHARE":        {value: "much", err: `BERTH_SHARE "much" is not valid; give a number`},
		"BERTH_DEVICES":      {value: "a", err: `BERTH_DEVICES "a" is not valid; give a list, as in [a, b]`},
	} {
		got, want := defaults(), defaults()
		err := Env(func(n string) (string, bool) { return c.value, n == name }, &got)
		if c.err != "" {
			if err == nil || err.Error() != c.err {
				t.Errorf("%s: %v", name, err)
			}
			continue
		}
		c.want(&want)
		if diff := cmp.Diff(want, got, cmp.AllowUnexported(settings{})); diff != "" || err != nil {
			t.Error(name, err, diff)
		}
	}
	var got settings
	if err := Env(func(n string) (string, bool) { return "VCPU", n == "BERTH_TOTALS" }, &got); err == nil {
		t.Error("a mapping without =")
	}
}
