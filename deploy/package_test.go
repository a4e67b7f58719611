// SPDX-License-Identifier: Apache-2.0

package deploy_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// manager answers as systemctl does on a machine whose units are in these states.
const manager = `#!/bin/sh
[ "$1" = list-units ] || exit 0
while read -r unit state; do
  case " $* " in
    *[=,]$state[\ ,]*) echo "$unit loaded $state running Berth" ;;
  esac
done <<END
berth-agent.service active
berth-api.service activating
berth-conductor.service reloading
berth-queues.service deactivating
berth-forward@hook.service inactive
berth-forward@other.service failed
END
`

// An upgrade names each daemon that runs, those too that have begun and wait for Kafka (Type=notify).
func TestUpgradeNamesWhatRuns(t *testing.T) {
	root := t.TempDir()
	bin, lib, systemd := filepath.Join(root, "bin"), filepath.Join(root, "lib"), filepath.Join(root, "systemd")
	for _, dir := range []string{bin, lib, systemd} {
		if err := os.Mkdir(dir, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	for name, text := range map[string]string{"systemctl": manager, "systemd-sysusers": "#!/bin/sh\n"} {
		if err := os.WriteFile(filepath.Join(bin, name), []byte(text), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	script := strings.NewReplacer("/run/systemd/system", systemd, "/var/lib/berth", lib).
		Replace(read(t, "release/postinstall"))
	upgrade := exec.Command("/bin/sh", "-c", script)
	upgrade.Env = append(os.Environ(), "PATH="+bin+":"+os.Getenv("PATH"))
	out, err := upgrade.CombinedOutput()
	const want = "berth: these run the version before until you restart them: " +
		"berth-agent.service berth-api.service berth-conductor.service berth-queues.service\n"
	if err != nil || string(out) != want {
		t.Errorf("%q, %v; want %q", out, err, want)
	}
}
