// SPDX-License-Identifier: Apache-2.0

package localkafka

import (
	"bufio"
	"fmt"
	"io"
	"os"
	"os/exec"
	"testing"
)

const portsOfAnother = "BERTH_TEST_PORTS_OF_ANOTHER" // has the test be that other process

// TestFreePorts: neither this process nor another one that runs beside it is given a port twice.
func TestFreePorts(t *testing.T) {
	const each = 1000 // of 22,000: some 40 would be the same
	if os.Getenv(portsOfAnother) != "" {
		ports, err := FreePorts(each)
		if err != nil {
			t.Fatal(err)
		}
		for _, p := range ports {
			fmt.Println(p)
		}
		fmt.Println(0)
		_, _ = io.ReadAll(os.Stdin) // and keeps them until the test has looked
		return
	}
	given := map[int]bool{}
	cmd := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^TestFreePorts$")
	cmd.Env, cmd.Stderr = append(os.Environ(), portsOfAnother+"=1"), os.Stderr
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	for lines := bufio.NewScanner(out); lines.Scan() && lines.Text() != "0"; {
		var port int
		if _, err := fmt.Sscan(lines.Text(), &port); err != nil {
			t.Fatalf("%q: %v", lines.Text(), err)
		}
		given[port] = true
	}
	if len(given) != each {
		t.Fatalf("the other process was given %d ports", len(given))
	}
	pairs, err := FreePairs(each)
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range pairs {
		if given[p] || given[p+1] {
			t.Errorf("of %d and the next one was given before", p)
		}
		given[p], given[p+1] = true, true
	}
	for range each / 10 {
		ports, err := FreePorts(10)
		if err != nil {
			t.Fatal(err)
		}
		for _, p := range ports {
			if given[p] {
				t.Errorf("%d was given twice", p)
			}
			given[p] = true
		}
	}
	if err := in.Close(); err != nil {
		t.Fatal(err)
	}
	if err := cmd.Wait(); err != nil {
		t.Error(err)
	}
}
