// SPDX-License-Identifier: Apache-2.0

package kafkatest

import (
	"net"
	"os"
	"syscall"
	"testing"
)

func TestMain(m *testing.M) { os.Exit(Main(m)) }

func TestEachServes(t *testing.T) {
	Each(t, func(t *testing.T, b Broker) {
		c, err := net.Dial("tcp", b.Addrs[0])
		if err != nil {
			t.Fatal(err)
		}
		_ = c.Close()
	})
}

func TestThreeNodesKillRestartClose(t *testing.T) {
	c := StartT(t, Options{Nodes: 3, Heap: "256m"})
	pid := c.PID(2)
	if err := c.Kill(2); err != nil {
		t.Fatal(err)
	}
	if err := syscall.Kill(pid, 0); err != syscall.ESRCH {
		t.Fatalf("node 2 killed, but signal 0 to it says %v", err)
	}
	if err := c.Restart(t.Context(), 2); err != nil {
		t.Fatal(err)
	}
	pids := []int{c.PID(1), c.PID(2), c.PID(3)}
	if err := c.Close(); err != nil {
		t.Fatal(err)
	}
	for i, pid := range pids {
		if err := syscall.Kill(pid, 0); err != syscall.ESRCH {
			t.Errorf("closed, but signal 0 to node %d says %v", i+1, err)
		}
	}
}
