// SPDX-License-Identifier: Apache-2.0

// Command testrun runs go test and tells what a newcomer wants to know: before it what
// the tests will need and what of that is missing here, while it runs which packages are
// done, and after it what was skipped and why. It ends with the exit code of go test.
//
//	go run ./pkg/lab/testrun [-again] [-- flags and packages of go test]
package main

import (
	"flag"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"time"
)

func main() {
	again := flag.Bool("again", false, "test a package once more in which the race detector itself ended (golang/go#78156)")
	flag.Parse()
	os.Exit(run(flag.Args(), *again))
}

// run tests what args say, and answers the exit code.
func run(args []string, again bool) int {
	for _, need := range missing() {
		fmt.Println(need)
	}
	total, err := packages(args)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 2
	}
	began := time.Now()
	t := newTold(os.Stdout, total)
	code, err := test(args, t)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 2
	}
	if died := t.died(); again && code != 0 && died != "" {
		fmt.Printf("the race detector ended in %s (golang/go#78156): once more\n", died)
		if code, err = test(append(flags(args), died), t); err != nil {
			fmt.Fprintln(os.Stderr, err)
			return 2
		}
	}
	t.end(time.Since(began))
	return code
}

// test runs go test and has every event told.
func test(args []string, t *told) (int, error) {
	cmd := exec.Command(goTool(), append([]string{"test", "-json"}, args...)...)
	cmd.Stderr = os.Stderr
	out, err := cmd.StdoutPipe()
	if err != nil {
		return 0, err
	}
	if err := cmd.Start(); err != nil {
		return 0, err
	}
	if err := t.read(out); err != nil {
		return 0, err
	}
	_ = cmd.Wait() // its exit code counts
	return cmd.ProcessState.ExitCode(), nil
}

// packages counts what go test will test.
func packages(args []string) (int, error) {
	list := append([]string{"list"}, args[len(flags(args)):]...)
	out, err := exec.Command(goTool(), list...).Output()
	if err != nil {
		return 0, fmt.Errorf("go list %s: %w", strings.Join(list[1:], " "), err)
	}
	return len(strings.Fields(string(out))), nil
}

// flags are the first of the arguments, up to the first package.
func flags(args []string) []string {
	for n, a := range args {
		if strings.HasPrefix(a, ".") {
			return args[:n:n]
		}
	}
	return args
}

func goTool() string {
	if tool := os.Getenv("GO"); tool != "" {
		return tool
	}
	return "go"
}

// missing says which tests will be skipped for want of a program.
func missing() (all []string) {
	for _, n := range []struct{ program, without string }{
		{"java", "tests on real Kafka (Debian: openjdk-17-jre-headless)"},
		{"mvn", "tests on real Kafka (Debian: maven)"},
		{"qemu-system-x86_64", "guests on QEMU (Debian: qemu-system-x86, qemu-utils)"},
		{"libvirtd", "guests on libvirt (Debian: libvirt-daemon, libvirt-daemon-driver-qemu, libvirt-clients)"},
		{"dockerd", "brokers in containers (Debian: docker.io)"},
		{"systemd-analyze", "units (Debian: systemd)"},
	} {
		if _, err := exec.LookPath(n.program); err != nil {
			all = append(all, fmt.Sprintf("missing: %s; skipped without it: %s", n.program, n.without))
		}
	}
	return all
}
