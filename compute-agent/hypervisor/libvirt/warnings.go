// SPDX-License-Identifier: Apache-2.0

package libvirt

import (
	"encoding/xml"
	"fmt"
	"strings"
)

// warnings say what libvirt, by its own account, does not do to keep machines apart:
// run them as a user of their own that is not root, confine them by SELinux or
// AppArmor, and give each a cgroup.
func warnings(capabilities, uri string) ([]string, error) {
	var can struct {
		Models []struct {
			Model  string   `xml:"model"`
			Labels []string `xml:"baselabel"`
		} `xml:"host>secmodel"`
	}
	if err := xml.Unmarshal([]byte(capabilities), &can); err != nil {
		return nil, fmt.Errorf("what libvirt says of itself cannot be read: %w", err)
	}
	var all []string
	confined := false
	for _, m := range can.Models {
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
	return all, nil
}
