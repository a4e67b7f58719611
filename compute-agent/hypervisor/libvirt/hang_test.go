// SPDX-License-Identifier: Apache-2.0

//go:build linux

package libvirt

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/berth-project/berth/compute-agent/hypervisor/host"
	"github.com/berth-project/berth/compute-agent/hypervisor/hypervisortest"
)

// On a host whose KVM hangs, so does the QEMU that libvirt asks what it can do, and libvirt's answer with it: an agent
// says so, and how to go without, instead of that libvirt is away.
func TestEmulatorHangs(t *testing.T) {
	t.Parallel()
	b := unstarted(t)
	bin := filepath.Join(b.root, "bin")
	asked := filepath.Join(bin, "asked")
	b.path, b.cache = bin+":"+b.path, filepath.Join(b.root, "cache")
	b.ok(os.Mkdir(bin, 0o700))
	script := "#!/bin/sh\necho \"$@\" >>" + asked + "\nexec sleep 1000000\n" // its PATH says that it is this test's
	b.ok(os.WriteFile(filepath.Join(bin, "qemu-system-x86_64"), []byte(script), 0o700))
	b.start()
	o := Options{URI: session, Socket: b.socket(), Options: host.Options{
		Dir: filepath.Join(b.root, "m"), Images: filepath.Join(b.root, "i"), Accel: "tcg", Machine: "pc",
	}}
	ctx, giveUp := context.WithCancel(t.Context())
	defer giveUp()
	answer := make(chan error, 1)
	go func() { _, err := Open(ctx, o); answer <- err }()
	hypervisortest.Await(t, "libvirt to ask its QEMU", func() bool { _, err := os.Stat(asked); return err == nil })
	giveUp()
	err := hypervisortest.Receive(t, "Open's answer", answer)
	if !errors.Is(err, errLost) || !strings.Contains(err.Error(), "with KVM, which hangs on some hosts") ||
		!strings.Contains(err.Error(), "docs/REAL-HOST.md") || !strings.Contains(err.Error(), "accel to tcg") {
		t.Errorf("the agent ends with %v", err)
	}
}
