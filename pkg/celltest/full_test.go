// SPDX-License-Identifier: Apache-2.0

package celltest

import (
	"bytes"
	"io"
	"strings"
	"sync"
	"testing"

	"github.com/berth-project/berth/pkg/cli"
	"github.com/berth-project/berth/pkg/compute"
	"github.com/berth-project/berth/pkg/kafkatest"
)

// shared is what a command prints, for others to read meanwhile.
type shared struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

func (s *shared) Write(b []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.buf.Write(b)
}

func (s *shared) String() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.buf.String()
}

// A client that waits on a full cloud is told why while it waits, with the number of
// hosts that are full, and hears of the machine once there is room.
func TestBootWaitSaysWhyOnAFullCloud(t *testing.T) {
	each(t, func(t *testing.T, b kafkatest.Broker) {
		r := newRig(t, b, smallHosts(2)...).up()
		c := r.as("p")
		r.offer(c, nil, []compute.Flavor{small("m1.small")})
		first := r.boot(c, 32, compute.Boot{Flavor: "m1.small"})
		r.await(first, compute.StateActive)

		said := &shared{}
		root := cli.NewRoot()
		root.SetErr(said)
		root.SetOut(io.Discard)
		code := make(chan int, 1)
		go func() {
			code <- cli.Execute(
				t.Context(), root, []string{
					"--api", r.api, "--project", "p", "boot", "--flavor", "m1.small", "--name", "late", "--wait",
					"--timeout", "0",
				},
			)
		}()
		r.poll("the reason with its counts", func() bool {
			return strings.Contains(
				said.String(),
				"late: queued, waiting: NoEligibleHost 2 full, position 1 of 1, oldest ",
			)
		})
		toldWhy := strings.Count(said.String(), "\n")
		r.delete(c, first[:1])
		if got := <-code; got != 0 {
			t.Errorf("exit code %d", got)
		}
		lines := strings.Split(strings.TrimSpace(said.String()), "\n")
		if last := lines[len(lines)-1]; last != "late: active" {
			t.Errorf("in the end: %q", last)
		}
		for n, line := range lines {
			// For a moment hosts may not have said yet that they are full, or say that they have room before one takes it: then
			// nothing keeps it waiting, as far as is known.
			soon := (n < 2 || n >= toldWhy) && strings.HasSuffix(line, "queued")
			if !soon && (strings.HasSuffix(line, "queued") || strings.HasSuffix(line, "waiting")) {
				t.Errorf("%q does not say why", line)
			}
			if n > 0 && line == lines[n-1] {
				t.Errorf("%q is said twice", line)
			}
		}
	})
}
