// SPDX-License-Identifier: Apache-2.0

package deploy_test

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"
)

const (
	alertsFile    = "prometheus/alerts.yaml"
	dashboardFile = "grafana/berth.json"
	runbook       = "https://github.com/berth-project/berth/blob/main/docs/OPERATIONS.md#"
)

// promtool runs Prometheus' own checks.
func promtool(t *testing.T, args ...string) (string, error) {
	t.Helper()
	if _, err := exec.LookPath("promtool"); err != nil {
		required(t, "BERTH_REQUIRE_PROMTOOL", "promtool is not installed (package prometheus)")
	}
	out, err := exec.Command("promtool", args...).CombinedOutput()
	return string(out), err
}

// alert is a rule that tells an operator.
type alert struct {
	Alert, Expr         string
	Labels, Annotations map[string]string
}

func alerts(t *testing.T) (all []alert) {
	t.Helper()
	var file struct {
		Groups []struct {
			Name  string
			Rules []alert
		}
	}
	if err := yaml.Unmarshal([]byte(read(t, alertsFile)), &file); err != nil {
		t.Fatal(err)
	}
	for _, g := range file.Groups {
		all = append(all, g.Rules...)
	}
	if len(all) < 15 {
		t.Fatalf("%d alerts found", len(all))
	}
	return all
}

func TestAlertsAreValid(t *testing.T) {
	if out, err := promtool(t, "check", "rules", alertsFile); err != nil {
		t.Error(out)
	}
	if out, err := promtool(t, "test", "rules", "prometheus/alerts_test.yaml"); err != nil {
		t.Error(out)
	}
	// The same cases, and no alert that fires: else the cases prove nothing.
	dir, quiet := t.TempDir(), "groups:\n- name: quiet\n  rules:\n"
	for _, a := range alerts(t) {
		quiet += "  - {alert: " + a.Alert + ", expr: vector(1) < 0}\n"
	}
	write(t, filepath.Join(dir, "alerts.yaml"), quiet)
	write(t, filepath.Join(dir, "alerts_test.yaml"), read(t, "prometheus/alerts_test.yaml"))
	out, err := promtool(t, "test", "rules", filepath.Join(dir, "alerts_test.yaml"))
	for _, a := range alerts(t) {
		if err == nil || !strings.Contains(out, a.Alert+" fires") {
			t.Errorf("alerts_test.yaml has no case in which %s fires", a.Alert)
		}
		if !strings.Contains(read(t, "prometheus/alerts_test.yaml"), a.Alert+" is quiet") {
			t.Errorf("alerts_test.yaml has no case in which %s is quiet", a.Alert)
		}
	}
}

func write(t *testing.T, file, text string) {
	t.Helper()
	if err := os.WriteFile(file, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
}

// Each alert has a section in OPERATIONS, which it names, and each section its alert.
func TestAlertsHaveRunbooks(t *testing.T) {
	_, text, found := strings.Cut(read(t, "../docs/OPERATIONS.md"), "\n## Alerts\n")
	if !found {
		t.Fatal("docs/OPERATIONS.md has no section Alerts")
	}
	text, _, _ = strings.Cut(text, "\n## ")
	sections := map[string]string{}
	for _, s := range strings.Split(text, "\n### ")[1:] {
		name, body, _ := strings.Cut(s, "\n")
		sections[name] = body
	}
	for _, a := range alerts(t) {
		body, there := sections[a.Alert]
		if delete(sections, a.Alert); !there || len(body) < 80 {
			t.Errorf("docs/OPERATIONS.md says nothing of %s", a.Alert)
		}
		if !strings.Contains(body, "`berth ") && !strings.Contains(body, "](#") && !strings.Contains(body, "log") {
			t.Errorf("docs/OPERATIONS.md does not say what to look at for %s", a.Alert)
		}
		if want := runbook + strings.ToLower(a.Alert); a.Annotations["runbook_url"] != want {
			t.Errorf("%s has the runbook_url %q, not %s", a.Alert, a.Annotations["runbook_url"], want)
		}
		if a.Annotations["summary"] == "" || !slices.Contains([]string{"page", "ticket"}, a.Labels["severity"]) {
			t.Errorf("%s has the summary %q and the severity %q", a.Alert, a.Annotations["summary"], a.Labels["severity"])
		}
	}
	for name := range sections {
		t.Errorf("docs/OPERATIONS.md has the section %s, and there is no such alert", name)
	}
}

// dashboard is what is looked at of Grafana's model.
type dashboard struct {
	Panels []struct {
		Type, Title, Description string
		FieldConfig              struct{ Defaults struct{ Unit string } }
		Targets                  []struct{ Expr string }
	}
}

func dashboardOf(t *testing.T) (d dashboard) {
	t.Helper()
	if err := json.Unmarshal([]byte(read(t, dashboardFile)), &d); err != nil {
		t.Fatal(err)
	}
	if len(d.Panels) < 15 {
		t.Fatalf("%d panels found", len(d.Panels))
	}
	return d
}

func TestDashboard(t *testing.T) {
	var rules strings.Builder
	rules.WriteString("groups:\n- name: panels\n  rules:\n")
	for i, p := range dashboardOf(t).Panels {
		if p.Type == "row" {
			continue
		}
		if p.Title == "" || p.Description == "" || p.FieldConfig.Defaults.Unit == "" || len(p.Targets) == 0 {
			t.Errorf("panel %q lacks a title, a description, a unit or an expression: %+v", p.Title, p)
		}
		for j, target := range p.Targets {
			expr := strings.ReplaceAll(target.Expr, "$__rate_interval", "5m")
			fmt.Fprintf(&rules, "  - record: panel:%d:%d\n    expr: %q\n", i, j, expr)
		}
	}
	file := filepath.Join(t.TempDir(), "panels.yaml")
	write(t, file, rules.String())
	if out, err := promtool(t, "check", "rules", file); err != nil {
		t.Errorf("%s\n%s", out, rules.String())
	}
}

// What alerts and panels ask for is a metric of docs/METRICS.md.
func TestWatchedMetricsExist(t *testing.T) {
	metrics := map[string]bool{}
	line := regexp.MustCompile("^\\* `(berth_[a-z0-9_]+)(?:\\{[^}]*\\})?`: (Histogram)?")
	for l := range strings.Lines(read(t, "../docs/METRICS.md")) {
		m := line.FindStringSubmatch(l)
		switch {
		case m == nil:
		case m[2] == "":
			metrics[m[1]] = true
		default:
			for _, part := range []string{"_bucket", "_sum", "_count"} {
				metrics[m[1]+part] = true
			}
		}
	}
	where := map[string]string{"prometheus/alerts_test.yaml": read(t, "prometheus/alerts_test.yaml")}
	for _, a := range alerts(t) {
		where[a.Alert] = a.Expr
	}
	for _, p := range dashboardOf(t).Panels {
		for _, target := range p.Targets {
			where[p.Title] += target.Expr + "\n"
		}
	}
	seen := 0
	for what, text := range where {
		for _, name := range regexp.MustCompile(`\bberth_[a-z0-9_]+`).FindAllString(text, -1) {
			if seen++; !metrics[name] {
				t.Errorf("%s asks for %s, which docs/METRICS.md does not have", what, name)
			}
		}
	}
	if seen < 100 {
		t.Errorf("only %d names found", seen)
	}
}
