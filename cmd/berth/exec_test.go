package main

import (
	"strings"
	"testing"

	"github.com/berth-project/berth/compute-agent/hypervisor/exec"
	"github.com/berth-project/berth/pkg/cell"
	"github.com/berth-project/berth/pkg/compute"
	"github.com/berth-project/berth/pkg/config"
)

// What is wrong with a host that a command runs is said with its key, before it
// starts or when it does.
func TestExecSettings(t *testing.T) {
	daemon := agentDaemon()
	with := func(set ...string) error {
		_, _, err := daemon.read(config.From{Set: append([]string{"host=h1", "driver.kind=exec"}, set...)})
		return err
	}
	if err := with("driver.exec.command=/opt/machines.sh,/var/lib/machines", "driver.fake.hosts=0"); err != nil {
		t.Errorf("a good one is refused: %v", err)
	}
	for key, set := range map[string]string{
		"driver.exec.command": "driver.exec.command=machines.sh",
		"driver.exec.timeout": "driver.exec.timeout=2h",
	} {
		if err := with(set); err == nil || !strings.Contains(err.Error(), key) {
			t.Errorf("%s is not refused: %v", key, err)
		}
	}
	if err := with(); err == nil || !strings.Contains(err.Error(), "driver.exec.command") {
		t.Errorf("without a command: %v", err)
	}
	o := cell.AgentOptions{Host: "h", State: t.TempDir()}
	err := cell.ExecAgent(cell.Cell{}, o, exec.Options{Command: []string{"/no/such/command"}}).Run(t.Context())
	if err == nil || !strings.Contains(err.Error(), "driver.exec.command") || compute.KindOf(err) != compute.KindInvalid {
		t.Errorf("a command that is not there: %v", err)
	}
}
