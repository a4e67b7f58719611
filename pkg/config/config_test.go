// SPDX-License-Identifier: Apache-2.0

package config

import (
	"errors"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/berth-project/berth/pkg/compute"
)

// settings has every kind of setting there is.
type settings struct {
	Kafka struct {
		Brokers  []string `yaml:"brokers"`
		Prefix   string   `yaml:"prefix"`
		Copies   int16    `yaml:"copies"`
		Password string   `yaml:"password" secret:"true"`
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
	s := settings{Wait: time.Second, Host: "h", private: "kept", Totals: compute.Resources{compute.DiskGB: 1}}
	s.Kafka.Brokers, s.Kafka.Prefix = []string{"127.0.0.1:9092"}, "berth."
	return s
}

// write puts a file called x.yaml where the test runs.
func write(t testing.TB, text string) string {
	t.Helper()
	t.Chdir(t.TempDir())
	if err := os.WriteFile("x.yaml", []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return "x.yaml"
}

func same(t *testing.T, what string, got, want settings) {
	t.Helper()
	if diff := cmp.Diff(want, got, cmp.AllowUnexported(settings{})); diff != "" {
		t.Error(what, diff)
	}
}

func TestFileOverDefaults(t *testing.T) {
	got, want := defaults(), defaults()
	l := Load(&got, From{File: write(t, `
kafka:
  brokers: [a:1, b:2]
wait: 1m30s
verbose: true
share: 0.5
totals: {VCPU: 16}
devices:
  - name: gpu0
`)})
	if err := l.Err(nil); err != nil {
		t.Fatal(err)
	}
	want.Kafka.Brokers, want.Wait, want.Verbose, want.Share = []string{"a:1", "b:2"}, 90*time.Second, true, 0.5
	want.Totals = compute.Resources{compute.VCPU: 16} // and not the default's disk with it
	want.Devices = []struct {
		Name string `yaml:"name"`
	}{{"gpu0"}}
	same(t, "", got, want)
	for _, empty := range []string{"", "# nothing\n", "---\n", "kafka:\n", "kafka:\n  prefix:\nwait:\ntotals:\n"} {
		got := defaults()
		if err := Load(&got, From{File: write(t, empty)}).Err(nil); err != nil {
			t.Error(err)
		}
		same(t, empty, got, defaults())
	}
}

func TestFileRefusals(t *testing.T) {
	const known = "known here: kafka, wait, verbose, share, host, totals, devices"
	for text, want := range map[string]string{
		"kafak: {}": `key "kafak": x.yaml line 1: there is no such setting; did you ` +
			`mean kafka?`,
		"\n\nkafka:\n  broker: a": `key "kafka.broker": x.yaml line 4: there is no such setting; did ` +
			`you mean kafka.brokers?`,
		"nonsense: 1": `key "nonsense": x.yaml line 1: there is no such setting; ` + known,
		"devices:\n  - name: a\n    nam: b": `key "devices.nam": x.yaml line 3: there is no such setting; did ` +
			`you mean devices.name?`,
		"Hidden: x":              `key "Hidden": x.yaml line 1: there is no such setting; ` + known,
		"a: &x {kafak: 1}":       `key "a": x.yaml line 1: there is no such setting; ` + known,
		"kafka: {copies: many}":  `kafka.copies "many": x.yaml line 1: give a whole number`,
		"kafka: {copies: 40000}": `kafka.copies "40000": x.yaml line 1: give a whole number`,
		"kafka: {copies: 2.7}":   `kafka.copies "2.7": x.yaml line 1: give a whole number`,
		"totals: {VCPU: 1.5}": `totals "": x.yaml line 1: give a mapping to whole numbers, as in ` +
			`{VCPU: 16}`,
		"kafka: {brokers: a}":         `kafka.brokers "a": x.yaml line 1: give a list, as in [a, b]`,
		"kafka: {password: [secret]}": `kafka.password "********": x.yaml line 1: give text`,
		"\nwait: 15": `wait "15": x.yaml line 2: give a duration with its unit, as in ` +
			`15s or 10m`,
		"wait: soon": `wait "soon": x.yaml line 1: give a duration with its unit, as in ` +
			`15s or 10m`,
		"verbose: 7":  `verbose "7": x.yaml line 1: give true or false`,
		"share: much": `share "much": x.yaml line 1: give a number`,
		"host: [a]":   `host "": x.yaml line 1: give text`,
		"totals: 16": `totals "16": x.yaml line 1: give a mapping to whole numbers, as ` +
			`in {VCPU: 16}`,
		"kafka: text":        `kafka "text": x.yaml line 1: give a section of settings`,
		"devices: [a]":       `devices "a": x.yaml line 1: give a section of settings`,
		"devices: a":         `devices "a": x.yaml line 1: give a list, as in [a, b]`,
		"- a":                `config "": x.yaml line 1: give a section of settings`,
		"wait: 1s\nwait: 2s": `key "wait": x.yaml line 2: it is in line 1 already`,
		"wait: 1s\n---\nwait: 2s": `config "x.yaml" is not valid; give one document: there is a ` +
			`second one after ---`,
		"wait: [": `config "x.yaml": line 1: did not find expected node content`,
	} {
		got := defaults()
		err := Load(&got, From{File: write(t, text)}).Err(nil)
		if err == nil || err.Error() != want || compute.KindOf(err) != compute.KindInvalid {
			t.Errorf("%q:\n got %v\nwant %s", text, err, want)
		}
	}
}

func TestEveryProblemAtOnce(t *testing.T) {
	got := defaults()
	l := Load(&got, From{
		File:    write(t, "kafak: {}\nwait: soon\nhost: X\nkafka: {copies: 7, brokers: 9}\n"),
		Environ: []string{"BERTH_VERBOSE=much"}, Set: []string{"shaer=1", "kafka.prefix=?"},
	})
	err := l.Err(errors.Join(
		compute.Invalid("wait", "1s", "this is about the default and must not be said"),
		errors.Join(compute.Invalid("kafka.prefix", "?", "no"), compute.Invalid("kafka.copies", "7", "no")),
		At("host", compute.Invalid("host", "X", "")),
		At("totals", compute.Invalid("CPU", "X", "no")),
		compute.Invalid("share", "0", "its default is wrong"),
	))
	var lines []string
	for _, problem := range All(err) {
		lines = append(lines, problem.Error())
	}
	want := []string{
		`key "kafak": x.yaml line 1: there is no such setting; did you mean kafka?`,
		`wait "soon": x.yaml line 2: give a duration with its unit, as in 15s or 10m`,
		`kafka.brokers "9": x.yaml line 4: give a list, as in [a, b]`,
		`BERTH_VERBOSE "much" is not valid; give true or false`,
		`key "shaer": --set: there is no such setting; did you mean share?`,
		`kafka.prefix "?" is not valid; no (flag --set)`,
		`kafka.copies "7" is not valid; no (x.yaml:4)`,
		`host "X" is not valid (x.yaml:3)`,
		`totals: CPU "X" is not valid; no`,
		`share "0" is not valid; its default is wrong`,
	}
	if diff := cmp.Diff(want, lines); diff != "" {
		t.Error(diff)
	}
	if text := err.Error(); !strings.HasPrefix(text, "10 problems with the settings\n  key ") ||
		compute.KindOf(err) != compute.KindInvalid {
		t.Error(text)
	}
}

func TestSources(t *testing.T) {
	got := defaults()
	l := Load(&got, From{
		File: write(t, "wait: 5s\nhost: file\nkafka:\n  prefix: file.\n  password: x\n  copies: 3\n"),
		Environ: []string{
			"BERTH_HOST=env", "BERTH_KAFKA_BROKERS=a:1, b:2,", "BERTH_KAFKA_COPIES=2", "BERTH_OTHER=x", "PATH=y",
		},
		Set: []string{"kafka.copies=1", "totals=VCPU=2"},
	})
	if err := l.Err(nil); err != nil || len(l.Warnings) > 0 {
		t.Fatal(err, l.Warnings)
	}
	want := defaults()
	want.Wait, want.Host, want.Kafka.Brokers = 5*time.Second, "env", []string{"a:1", "b:2"}
	want.Kafka.Prefix, want.Kafka.Password, want.Kafka.Copies, want.Totals = "file.", "x", 1, compute.Resources{
		compute.VCPU: 2,
	}
	same(t, "flags over environment over file over defaults", got, want)
	sources, values := map[string]string{}, map[string]any{}
	for _, s := range l.Settings() {
		sources[s.Key], values[s.Key] = s.Source.String(), s.Value()
	}
	if diff := cmp.Diff(map[string]string{
		"kafka.brokers": "env BERTH_KAFKA_BROKERS", "kafka.prefix": "x.yaml:4", "kafka.copies": "flag --set",
		"kafka.password": "x.yaml:5",
		"wait":           "x.yaml:1", "host": "env BERTH_HOST", "totals": "flag --set", "verbose": "default",
		"share": "default", "devices": "default",
	}, sources); diff != "" {
		t.Error(diff)
	}
	if values["kafka.password"] != Masked || values["kafka.prefix"] != "file." {
		t.Error(values)
	}
}

func TestPartOfAFile(t *testing.T) {
	var got struct {
		Kafka struct {
			Prefix string `yaml:"prefix"`
		} `yaml:"kafka"`
	}
	from := From{File: write(t, "listen: x\nkafka: {prefix: p., prefx: q}"), Part: true}
	const want = `key "kafka.prefx": x.yaml line 2: there is no such setting; did you mean kafka.prefix?`
	if err := Load(&got, from).Err(nil); err == nil || err.Error() != want || got.Kafka.Prefix != "p." {
		t.Errorf("%v, %+v", err, got)
	}
}

func TestNoFile(t *testing.T) {
	got := defaults()
	if err := Load(&got, From{}).Err(nil); err != nil {
		t.Error(err)
	}
	missing := filepath.Join(t.TempDir(), "x.yaml")
	if err := Load(&got, From{File: missing}).Err(nil); compute.KindOf(err) != compute.KindNotFound {
		t.Error(err)
	}
	if err := Load(&got, From{File: filepath.Dir(missing)}).Err(nil); compute.KindOf(err) != compute.KindInvalid {
		t.Error(err)
	}
}

func TestTexts(t *testing.T) {
	for text, c := range map[string]struct {
		want func(*settings)
		env  string // what is said of the variable
		set  string // and of the flag
	}{
		"kafka.copies=3":    {want: func(s *settings) { s.Kafka.Copies = 3 }},
		"kafka.prefix=":     {want: func(s *settings) { s.Kafka.Prefix = "" }},
		"kafka.brokers=":    {want: func(s *settings) { s.Kafka.Brokers = nil }},
		"wait=2m":           {want: func(s *settings) { s.Wait = 2 * time.Minute }},
		"verbose=true":      {want: func(s *settings) { s.Verbose = true }},
		"host=7":            {want: func(s *settings) { s.Host = "7" }},
		"totals=VCPU=4,D=8": {want: func(s *settings) { s.Totals = compute.Resources{compute.VCPU: 4, "D": 8} }},
		"share=much": {
			env: `BERTH_SHARE "much" is not valid; give a number`,
			set: `--set share "much" is not valid; give a number`,
		},
		"share=": {
			env: `BERTH_SHARE "" is not valid; give a number`, set: `--set share "" is not valid; give a number`,
		},
		"totals=VCPU": {
			env: `BERTH_TOTALS "VCPU" is not valid; give a mapping to whole numbers, as in VCPU=16,MEMORY_MB=65536`,
			set: `--set totals "VCPU" is not valid; give a mapping to whole numbers, as in VCPU=16,MEMORY_MB=65536`,
		},
		"devices=a": {
			env: `BERTH_DEVICES "a" is not valid; give it in a file: a list of sections has no other form`,
			set: `--set devices "a" is not valid; give it in a file: a list of sections has no other form`,
		},
		"kafka=a": {
			set: `key "kafka": --set: this is a section; set one of kafka.brokers, kafka.prefix, kafka.copies, ` +
				`kafka.password`,
		},
		"kafka.prefx=a":   {set: `key "kafka.prefx": --set: there is no such setting; did you mean kafka.prefix?`},
		"kafka.Xpassword": {set: `--set "kafka.Xpassword" is not valid; give key=value, as in kafka.prefix=test.`},
	} {
		key, value, _ := strings.Cut(text, "=")
		for _, way := range []struct {
			from From
			err  string
		}{
			{From{Environ: []string{Variable(key) + "=" + value}}, c.env},
			{From{Set: []string{text}}, c.set},
		} {
			if way.err == "" && c.want == nil {
				continue // there is no such variable
			}
			got, want := defaults(), defaults()
			err := Load(&got, way.from).Err(nil)
			if way.err != "" {
				if err == nil || err.Error() != way.err {
					t.Errorf("%s: got %v, want %s", text, err, way.err)
				}
				continue
			}
			if err != nil {
				t.Error(text, err)
			}
			c.want(&want)
			if len(want.Kafka.Brokers) == 0 {
				want.Kafka.Brokers = []string{}
			}
			same(t, text, got, want)
		}
	}
}

func TestNearMissesInTheEnvironment(t *testing.T) {
	got := defaults()
	l := Load(&got, From{
		Environ: []string{
			"BERTH_KAFKA_BROKER=x", "BERTH_HOTS=x", "BERTH_SHARED=x", "BERTH_SOMETHING=x", "KAFKA_PREFIXX=x",
			"BERTH_WAIT=3s",
		},
		Others: []string{"BERTH_SHARED"},
	})
	want := []string{
		"BERTH_HOTS is no setting here and changes nothing; did you mean BERTH_HOST?",
		"BERTH_KAFKA_BROKER is no setting here and changes nothing; did you mean BERTH_KAFKA_BROKERS?",
	}
	if diff := cmp.Diff(want, l.Warnings); diff != "" || l.Err(nil) != nil {
		t.Error(diff, l.Err(nil))
	}
}

func FuzzLoad(f *testing.F) {
	f.Add("kafka: {brokers: [a]}", "verbose=1")
	f.Add("a: &a [*a]", "kafka.copies")
	f.Add("devices: &d [*d, {name: x}, 7]", "=")
	f.Fuzz(func(t *testing.T, text, set string) {
		got := defaults()
		l := Load(&got, From{Set: []string{set}})
		l.parse("x.yaml", []byte(text), reflect.ValueOf(&got).Elem())
		for _, err := range All(l.Err(nil)) {
			if compute.KindOf(err) != compute.KindInvalid {
				t.Errorf("%q %q: %v", text, set, err)
			}
		}
	})
}
