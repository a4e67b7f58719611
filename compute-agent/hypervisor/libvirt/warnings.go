// SPDX-License-Identifier: Apache-2.0

package libvirt

import (
	"encoding/xml"
	"fmt"
	"os"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// securityModel is one by which libvirt keeps machines apart. Each of the labels of "dac" is the user of QEMU and its
// group, as in +64055:+108.
type securityModel struct {
	Model  string   `xml:"model"`
	Labels []string `xml:"baselabel"`
}

// securityModels reads them from what libvirt says of itself.
func securityModels(capabilities string) ([]securityModel, error) {
	var can struct {
		Models []securityModel `xml:"host>secmodel"`
	}
	if err := xml.Unmarshal([]byte(capabilities), &can); err != nil {
		return nil, fmt.Errorf("what libvirt says of itself cannot be read: %w", err)
	}
	return can.Models, nil
}

// readsAll says whether this process reads and writes files whoever has them, as root does that has all its rights.
func readsAll() bool {
	status, err := os.ReadFile("/proc/self/status")
	if err != nil {
		return false
	}
	_, line, _ := strings.Cut(string(status), "CapEff:")
	line, _, _ = strings.Cut(line, "\n")
	rights, err := strconv.ParseUint(strings.TrimSpace(line), 16, 64)
	return err == nil && rights&(1<<unix.CAP_DAC_OVERRIDE) != 0
}

// otherUser is QEMU's user and group, if that is not this process's user; empty: it is, or libvirt does not say.
func otherUser(models []securityModel, is int) string {
	for _, m := range models {
		for _, label := range m.Labels {
			if m.Model == "dac" && !strings.HasPrefix(label, fmt.Sprintf("+%d:", is)) {
				return label
			}
		}
	}
	return ""
}

// warnings say what libvirt, by its own account, does not do to keep machines apart:
// run them as a user of their own that is not root, confine them by SELinux or
// AppArmor, and give each a cgroup.
func warnings(models []securityModel, uri string) []string {
	var all []string
	confined := false
	for _, m := range models {
		switch m.Model {
		case "dac":
			for _, label := range m.Labels {
				if strings.HasPrefix(label, "+0:") {
					all = append(
						all,
						"libvirt runs machines as root: a guest that breaks out of QEMU is root on this host; "+
							"set user and group in /etc/libvirt/qemu.conf and restart libvirtd",
					)
					break
				}
			}
		case "selinux", "apparmor":
			confined = true
		}
	}
	if !confined {
		all = append(
			all,
			"libvirt confines machines by neither SELinux nor AppArmor: a guest that breaks out of QEMU reaches "+
				"the disks of all; turn one on, and leave security_driver in /etc/libvirt/qemu.conf as it comes",
		)
	}
	if uri == session {
		all = append(
			all,
			"a session's libvirt gives machines no cgroups: a QEMU that grows takes the host's memory; use qemu:///system",
		)
	}
	return all
}
