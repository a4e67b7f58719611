// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"os/exec"
	"strings"
)

// needed are programs without which tests are skipped.
var needed = []struct{ program, tests, debian string }{
	{"java", "real Kafka", "openjdk-17-jre-headless"},
	{"mvn", "real Kafka", "maven"},
	{"qemu-system-x86_64", "guests on QEMU", "qemu-system-x86 qemu-utils"},
	{"libvirtd", "guests on libvirt", "libvirt-daemon libvirt-daemon-driver-qemu libvirt-clients"},
	{"dockerd", "brokers in containers", "docker.io"},
	{"systemd-analyze", "systemd units", "systemd"},
}

// needs says what the tests use, and which of it is missing here.
func needs() string {
	var b strings.Builder
	b.WriteString("They need Go, and the network for what is not in the caches yet: modules, Kafka's jars, a kernel for guests.")
	for _, n := range needed {
		if _, err := exec.LookPath(n.program); err != nil {
			fmt.Fprintf(&b, "\nmissing: %s; skipped without it: %s (Debian: apt install %s)", n.program, n.tests, n.debian)
		}
	}
	return b.String()
}
