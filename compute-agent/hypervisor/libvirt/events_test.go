// SPDX-License-Identifier: Apache-2.0

//go:build linux

package libvirt

import (
	"encoding/binary"
	"io"
	"net"
	"path/filepath"
	"testing"
	"time"

	"github.com/berth-project/berth/compute-agent/hypervisor"
	"github.com/berth-project/berth/compute-agent/hypervisor/hypervisortest"
)

// registerAny is the number of the call that asks libvirt for events, in libvirt's remote_protocol.x.
const registerAny = 316

// A libvirt that goes away in the very moment in which it was asked for events leaves nobody who waits for them for
// ever: Events tries again.
func TestEventsAreCutOffAtOnce(t *testing.T) {
	t.Parallel()
	d, b := onTestDriver(t)
	d.o.Socket = cutter(t, b)
	const times = 300 // where one order of goroutines in the library loses the end, some ten of these meet it
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		for range times {
			l := listener{d: d, tell: func(hypervisor.Event) {}}
			_ = l.listen(t.Context())
		}
	}()
	select {
	case <-ended:
	case <-time.After(hypervisortest.Patience):
		t.Fatal("the connection is gone, and events are waited for")
	}
}

// cutter is a socket before libvirt's that cuts each connection when it has passed on the answer to who asked for
// events.
func cutter(t *testing.T, b *daemon) string {
	socket := filepath.Join(b.root, "cutter")
	l, err := net.Listen("unix", socket)
	b.ok(err)
	t.Cleanup(func() { _ = l.Close() })
	go func() {
		for {
			near, err := l.Accept()
			if err != nil {
				return
			}
			far, err := net.Dial("unix", b.socket())
			if err != nil {
				_ = near.Close()
				continue
			}
			go func() { _, _ = io.Copy(far, near); _ = far.Close() }()
			go func() { untilRegistered(near, far); _ = near.Close(); _ = far.Close() }()
		}
	}()
	return socket
}

// untilRegistered passes on what libvirt says: messages with their length before them, and the number of the call.
func untilRegistered(near, far net.Conn) {
	for {
		head := make([]byte, 28)
		if _, err := io.ReadFull(far, head); err != nil {
			return
		}
		rest := make([]byte, int(binary.BigEndian.Uint32(head))-len(head))
		if _, err := io.ReadFull(far, rest); err != nil {
			return
		}
		if _, err := near.Write(append(head, rest...)); err != nil {
			return
		}
		if binary.BigEndian.Uint32(head[12:]) == registerAny {
			return
		}
	}
}
