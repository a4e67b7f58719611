// SPDX-License-Identifier: Apache-2.0

package deploy_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/compose-spec/compose-go/v2/cli"
	"github.com/compose-spec/compose-go/v2/types"

	"github.com/berth-project/berth/pkg/kafkatest"
	"github.com/berth-project/berth/pkg/localkafka"
)

// load reads a compose file with the library that docker compose itself uses:
// against the schema of the specification, and for what the schema cannot say.
func load(t *testing.T, file string) (*types.Project, error) {
	t.Helper()
	o, err := cli.NewProjectOptions([]string{file}, cli.WithProfiles([]string{"*"}), cli.WithConsistency(true), cli.WithNormalization(true))
	if err != nil {
		return nil, err
	}
	return o.LoadProject(t.Context())
}

func project(t *testing.T) *types.Project {
	t.Helper()
	p, err := load(t, "compose/compose.yaml")
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func TestComposeIsValid(t *testing.T) {
	var names []string
	for name := range project(t).Services {
		names = append(names, name)
	}
	if len(names) != 10 {
		t.Errorf("services: %v", names)
	}
	for what, change := range map[string][2]string{
		"a misspelt key":         {"restart: unless-stopped", "restrat: unless-stopped"},
		"a number for a list":    {"command: [api]", "command: 7"},
		"a volume that is none":  {"[\"agent2:/var/lib/berth\"]", "[\"agent3:/var/lib/berth\"]"},
		"an anchor that is none": {"<<: *cell", "<<: *sell"},
	} {
		text := read(t, "compose/compose.yaml")
		if !strings.Contains(text, change[0]) {
			t.Fatalf("%q is not in the file", change[0])
		}
		file := t.TempDir() + "/compose.yaml"
		if err := os.WriteFile(file, []byte(strings.ReplaceAll(text, change[0], change[1])), 0o644); err != nil {
			t.Fatal(err)
		}
		if _, err := load(t, file); err == nil {
			t.Errorf("%s is not noticed: this test proves nothing", what)
		}
	}
}

// Where docker has its compose plugin, it agrees.
func TestDockerCompose(t *testing.T) {
	if err := exec.Command("docker", "compose", "version").Run(); err != nil {
		t.Skip("skipped: there is no docker compose here; TestComposeIsValid uses its library")
	}
	if out, err := exec.Command("docker", "compose", "-f", "compose/compose.yaml", "config", "--quiet").CombinedOutput(); err != nil {
		t.Errorf("%v\n%s", err, out)
	}
}

// The brokers have the settings the doctor asks for, and the Kafka we test with.
func TestComposeBrokers(t *testing.T) {
	brokers := 0
	for name, s := range project(t).Services {
		if !strings.HasPrefix(name, "kafka") {
			continue
		}
		brokers++
		if want := "apache/kafka:" + localkafka.Version; s.Image != want {
			t.Errorf("%s runs %s, tests run %s", name, s.Image, want)
		}
		for key, value := range needed() {
			variable := "KAFKA_" + strings.ToUpper(strings.ReplaceAll(key, ".", "_"))
			if v := s.Environment[variable]; v == nil || *v != value {
				t.Errorf("%s: %s is not %s", name, variable, value)
			}
		}
	}
	if brokers != 3 {
		t.Errorf("%d brokers", brokers)
	}
}

// Every part would start with the settings it is given.
func TestComposeParts(t *testing.T) {
	seen := map[string]int{}
	for name, s := range project(t).Services {
		if len(s.Command) == 0 || s.Command[0] == "doctor" {
			continue
		}
		seen[s.Command[0]]++
		check := exec.Command(berth, "config", "check", s.Command[0])
		for key, value := range s.Environment {
			check.Env = append(check.Env, key+"="+*value)
		}
		if out, err := check.CombinedOutput(); err != nil || string(out) != "ok\n" {
			t.Errorf("%s: %v\n%s", name, err, out)
		}
		if !s.ReadOnly || len(s.CapDrop) != 1 {
			t.Errorf("%s is not confined", name)
		}
	}
	for _, part := range []string{"api", "queues", "conductor", "agent"} {
		if seen[part] == 0 {
			t.Errorf("there is no %s", part)
		}
	}
}

// One service builds the image, and no other is fetched from where a stranger may have put one of that name.
func TestComposeBuildsOnce(t *testing.T) {
	for _, file := range []string{"compose/compose.yaml", "compose/secure.yaml"} {
		p, err := load(t, file)
		if err != nil {
			t.Fatal(err)
		}
		for name, s := range p.Services {
			builds := s.Build != nil
			if s.Image == "berth" && (builds != (name == "api") || (s.PullPolicy == types.PullPolicyNever) == builds) {
				t.Errorf("%s: %s builds: %v, pull policy %q", file, name, builds, s.PullPolicy)
			}
		}
	}
}

// Keys that are made inside a clone, where the pages have them made, go into no image and no commit.
func TestKeysStayWhereTheyAre(t *testing.T) {
	image, commit := read(t, "Dockerfile.dockerignore"), read(t, "../.gitignore")
	for _, made := range []string{"cell", "cell.unfinished", "deploy/compose/cell", "deploy/compose/cell.unfinished"} {
		if !strings.Contains("\n"+image, "\n"+made+"\n") || !strings.Contains(commit, "\n/"+made+"/\n") {
			t.Errorf("%s is not left out of images, or not of commits", made)
		}
	}
	for _, file := range []string{image, commit} {
		if !strings.Contains(file, "*.token\n") {
			t.Error("tokens are not left out of images, or not of commits")
		}
	}
}

// The secured one names the same parts, files that deploy/secure/make makes, and rights for each part.
func TestSecureCompose(t *testing.T) {
	p, err := load(t, "compose/secure.yaml")
	if err != nil {
		t.Fatal(err)
	}
	cell := made(t)
	rights := read(t, cell+"/admin/rights")
	given := 0
	for name, s := range p.Services {
		if strings.HasPrefix(name, "rights-") {
			given++
			if line := strings.Join(s.Command, " ") + "\n"; !strings.Contains(rights, "\" "+line) {
				t.Errorf("%s gives other rights than admin/rights: %s", name, line)
			}
		}
		if !strings.HasPrefix(name, "kafka") && (!s.ReadOnly || len(s.CapDrop) != 1) {
			t.Errorf("%s is not confined", name)
		}
		for _, v := range s.Volumes {
			_, folder, ok := strings.Cut(v.Source, "/cell/")
			if v.Type == types.VolumeTypeBind && !ok {
				t.Errorf("%s mounts %s", name, v.Source)
			} else if _, err := os.Stat(cell + "/" + folder); ok && err != nil {
				t.Errorf("%s: %v", name, err)
			} else if daemon := s.Command; ok && len(daemon) > 0 && v.Target == "/etc/berth" && daemon[0] != "acl" {
				checks(t, cell+"/"+folder, daemon[0])
			}
		}
	}
	if want := strings.Count(rights, "acl apply"); given != want {
		t.Errorf("rights are given to %d parts, want %d", given, want)
	}
}

// checks that a daemon would start with the file that was made for it, once that lies where it says.
func checks(t *testing.T, folder, daemon string) {
	t.Helper()
	if daemon == "doctor" || daemon == "token" {
		return
	}
	file := t.TempDir() + "/berth.yaml"
	text := strings.ReplaceAll(read(t, folder+"/berth.yaml"), "/etc/berth", folder)
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	if out, err := exec.Command(berth, "config", "check", daemon, "--config", file).CombinedOutput(); err != nil || string(out) != "ok\n" {
		t.Errorf("%s: %v\n%s", daemon, err, out)
	}
}

// A cluster with the example settings is one the doctor has nothing to say
// about, but that nothing of Berth runs on it.
func TestExampleBrokersPleaseTheDoctor(t *testing.T) {
	ours, _, _ := strings.Cut(read(t, "kafka/server.properties"), "--- the rest")
	k := kafkatest.StartT(t, localkafka.Options{Nodes: 3, Properties: kafkatest.Properties(ours)})
	for lost := time.Now().Add(4 * time.Minute); ; { // brokers that have much to do may answer later than it waits
		bad := examines(k.Addrs())
		if len(bad) == 0 {
			return
		}
		if time.Now().After(lost) {
			t.Fatal(strings.Join(bad, "\n"))
		}
	}
}

// examines has the doctor look at brokers of which there is no cell, and answers what it finds bad about them.
func examines(addrs []string) (bad []string) {
	var out, errs bytes.Buffer
	cmd := exec.Command(berth, "doctor", "--kafka", strings.Join(addrs, ","), "-o", "json")
	cmd.Stdout, cmd.Stderr = &out, &errs
	_ = cmd.Run() // it fails: there is no cell
	var report struct {
		Findings []struct{ Level, About, Check, Is string }
	}
	if err := json.Unmarshal(out.Bytes(), &report); err != nil {
		return []string{fmt.Sprintf("%v\n%s%s", err, out.String(), errs.String())}
	}
	looked := 0
	for _, f := range report.Findings {
		kind, _, _ := strings.Cut(f.About, " ")
		if kind == "broker" || kind == "brokers" || kind == "cluster" || strings.HasPrefix(f.About, "topic __") {
			looked++
			if f.Level != "ok" {
				bad = append(bad, fmt.Sprintf("%+v", f))
			}
		}
	}
	if looked < 3*len(needed())/2 {
		bad = append(bad, fmt.Sprintf("only %d findings about brokers", looked))
	}
	return bad
}
