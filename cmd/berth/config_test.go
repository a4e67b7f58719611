// SPDX-License-Identifier: Apache-2.0

package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"

	"github.com/berth-project/berth/pkg/cli"
	"github.com/berth-project/berth/pkg/config"
)

// Every setting is in its daemon's sample with a comment and its default, so
// that a sample changes nothing and hides nothing.
func TestSamplesShowEverySetting(t *testing.T) {
	for _, d := range daemonFiles() {
		t.Run(d.name, func(t *testing.T) {
			file := filepath.Join("samples", d.name+".yaml")
			bare, _ := d.read(config.From{})
			loaded, err := d.read(config.From{File: file})
			if err != nil {
				t.Fatal(err)
			}
			defaults := bare.Settings()
			for i, s := range loaded.Settings() {
				if s.Source.Kind != config.File {
					t.Errorf("%s is not in %s", s.Key, file)
					continue
				}
				want := inline(defaults[i].Value())
				if s.Key == "host" { // it has no default, and a sample must start
					want = "host-01"
				}
				if got := inline(s.Value()); got != want {
					t.Errorf("%s: the sample says %s, the default is %s", s.Key, got, want)
				}
			}
			data, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			var doc yaml.Node
			if err := yaml.Unmarshal(data, &doc); err != nil {
				t.Fatal(err)
			}
			for _, key := range uncommented("", doc.Content[0]) {
				t.Errorf("%s: %s has no comment", file, key)
			}
		})
	}
}

// uncommented lists the settings of a section that no comment explains. Settings
// right below each other share the comment of the first; a section's settings
// may have theirs above the section.
func uncommented(path string, section *yaml.Node) []string {
	var bare []string
	line, explained := -1, false
	for i := 0; i+1 < len(section.Content); i += 2 {
		key, value := section.Content[i], section.Content[i+1]
		explained = key.HeadComment != "" || explained && key.Line == line+1
		line = key.Line
		switch {
		case value.Kind == yaml.MappingNode && value.Style != yaml.FlowStyle:
			bare = append(bare, uncommented(path+key.Value+".", value)...)
		case !explained:
			bare = append(bare, path+key.Value)
		}
	}
	return bare
}

// A file that was right stays right: the samples of every month since there are
// daemons load and pass all checks.
func TestLastMonthsSamplesStillStart(t *testing.T) {
	files, err := filepath.Glob("testdata/config/*/*.yaml")
	if err != nil || len(files) < len(daemonFiles()) {
		t.Fatal(err, files)
	}
	for _, file := range files {
		name := strings.TrimSuffix(filepath.Base(file), ".yaml")
		d, err := daemonFileOf(name)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := d.read(config.From{File: file}); err != nil {
			t.Errorf("%s: %v", file, err)
		}
	}
}

// Variables of two settings of a daemon must not be the same one.
func TestVariablesAreDistinct(t *testing.T) {
	for _, d := range daemonFiles() {
		loaded, _ := d.read(config.From{})
		seen := map[string]string{cli.EnvAPI: "--api", cli.EnvProject: "--project"}
		for _, s := range loaded.Settings() {
			v := config.Variable(s.Key)
			if seen[v] != "" {
				t.Errorf("%s: %s is %s and %s", d.name, v, seen[v], s.Key)
			}
			seen[v] = s.Key
		}
	}
}
