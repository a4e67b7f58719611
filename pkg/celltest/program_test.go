// SPDX-License-Identifier: Apache-2.0

package celltest

import (
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/berth-project/berth/pkg/kafkatest"
)

// envProgram is where the berth program is built that tests run as processes.
const envProgram = "BERTH_TEST_PROGRAM"

// parallel is how many cells are tested at once on a machine of few processors: most of a
// test is waiting.
const parallel = 6

func TestMain(m *testing.M) {
	dir, err := os.MkdirTemp("", "berth-test-")
	if err != nil {
		panic(err)
	}
	if err := os.Setenv(envProgram, filepath.Join(dir, "berth")); err != nil {
		panic(err)
	}
	flag.Parse()
	if p := flag.Lookup("test.parallel"); p.Value.String() == p.DefValue {
		if err := flag.Set(p.Name, fmt.Sprint(max(parallel, runtime.GOMAXPROCS(0)))); err != nil {
			panic(err)
		}
	}
	code := kafkatest.Main(m)
	_ = os.RemoveAll(dir) // a temporary folder that stays does no harm
	os.Exit(code)
}

// program builds berth once for all tests, under the race detector if they are.
var program = sync.OnceValues(func() (string, error) {
	file := os.Getenv(envProgram)
	args := []string{"build", "-o", file}
	if raced {
		args = append(args, "-race")
	}
	out, err := exec.Command("go", append(args, "github.com/berth-project/berth/cmd/berth")...).CombinedOutput()
	if err != nil {
		return "", fmt.Errorf("build berth: %w\n%s", err, out)
	}
	return file, nil
})

// berth is the berth program of this tree.
func berth(t *testing.T) string {
	t.Helper()
	file, err := program()
	if err != nil {
		t.Fatal(err)
	}
	return file
}

// ran runs the program as a user does: how it ends and what it prints.
func ran(t *testing.T, args ...string) (code int, stdout, stderr string) {
	t.Helper()
	var out, errs strings.Builder
	cmd := exec.CommandContext(t.Context(), berth(t), args...)
	cmd.Stdout, cmd.Stderr = &out, &errs
	if err := cmd.Run(); err != nil && cmd.ProcessState == nil {
		t.Fatal(err)
	}
	return cmd.ProcessState.ExitCode(), out.String(), errs.String()
}

// reaches runs a command that asks Kafka, and runs it again while a broker with much to do lets it wait for too long:
// a command tries for 3 s only to reach Kafka, and exits with 7 where it has waited for anything else in vain.
func reaches(t *testing.T, args ...string) (code int, stdout, stderr string) {
	t.Helper()
	for lost := time.Now().Add(patience); ; {
		code, stdout, stderr = ran(t, args...)
		tookLong := code == 7 || strings.Contains(stderr, "reach Kafka at ")
		if !tookLong || time.Now().After(lost) {
			return code, stdout, stderr
		}
	}
}
