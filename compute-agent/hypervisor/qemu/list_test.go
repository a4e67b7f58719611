// SPDX-License-Identifier: Apache-2.0

package qemu

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/berth-project/berth/compute-agent/hypervisor"
	"github.com/berth-project/berth/compute-agent/hypervisor/guesttest"
	"github.com/berth-project/berth/compute-agent/hypervisor/host"
	"github.com/berth-project/berth/pkg/compute"
)

// Where no QEMU of a host answers, List says so of each within the time that it has.
func TestNoQEMUAnswers(t *testing.T) {
	t.Parallel()
	dir, proc := guesttest.Folder(t), t.TempDir()
	d := &Driver{o: Options{Options: host.Options{Dir: dir}}, host: host.Host{Proc: proc}}
	var err error
	if d.home, err = homeAt(dir); err != nil {
		t.Fatal(err)
	}
	for n := range askedAtOnce {
		id := compute.InstanceID(fmt.Sprintf("00000000-0000-4000-8000-%012d", n))
		process := filepath.Join(proc, fmt.Sprint(1000+n))
		err := errors.Join(
			os.Mkdir(d.dir(id), 0o700), os.Mkdir(process, 0o700),
			save(d.dir(id), record{Machine: hypervisor.Machine{Instance: id, Launched: true}, Ready: true}),
			os.WriteFile(filepath.Join(process, "cmdline"),
				[]byte("qemu-system-x86_64\x00-pidfile\x00"+filepath.Join(d.dir(id), pidFile)+"\x00"), 0o600),
			os.WriteFile(filepath.Join(process, "stat"), []byte("1 (qemu)"+strings.Repeat(" 1", 30)), 0o600),
		)
		if err != nil {
			t.Fatal(err)
		}
		silent, err := net.Listen("unix", filepath.Join(d.dir(id), socketFile))
		if err != nil {
			t.Fatal(err)
		}
		defer silent.Close()
	}
	// One after the other they take twice as long.
	ctx, cancel := context.WithTimeout(t.Context(), askedAtOnce/2*statusTime)
	defer cancel()
	list, err := d.List(ctx)
	if len(list) != askedAtOnce || err != nil {
		t.Fatalf("List gives %d machines, %v", len(list), err)
	}
	for _, m := range list {
		if m.Power != compute.PowerRunning || !strings.Contains(m.Detail, "does not answer") {
			t.Errorf("a QEMU does not answer, and List gives %+v", m)
		}
	}
}
