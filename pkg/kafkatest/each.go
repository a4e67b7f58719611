// SPDX-License-Identifier: Apache-2.0

package kafkatest

import (
	"cmp"
	"context"
	"fmt"
	"os"
	"os/exec"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/berth-project/berth/pkg/embedded"
	"github.com/berth-project/berth/pkg/localkafka"
)

// Broker is what a suite runs against.
type Broker struct {
	Addrs  []string
	Prefix string // of this test alone, for topics and groups
	Real   bool   // Kafka, not the embedded broker
}

// Each runs a suite against the embedded broker and against Kafka. Kafka is
// started once for the test binary, which needs TestMain to call Main.
func Each(t *testing.T, suite func(t *testing.T, b Broker)) {
	t.Helper()
	t.Run("embedded", func(t *testing.T) { suite(t, Embedded(t)) })
	t.Run("kafka", func(t *testing.T) { suite(t, Kafka(t)) })
}

// Embedded is an embedded broker of this test alone.
func Embedded(t testing.TB) Broker {
	t.Helper()
	b, err := embedded.Start(embedded.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(b.Close)
	return Broker{Addrs: b.Addrs(), Prefix: prefix()}
}

// Kafka is the one-node Kafka of this test binary. Without Java or Maven the
// test is skipped, or failed where BERTH_REQUIRE_KAFKA=1.
func Kafka(t testing.TB) Broker {
	t.Helper()
	Need(t)
	c, err := shared.get()
	if err != nil {
		t.Fatal(err)
	}
	return Broker{Addrs: c.Addrs(), Prefix: prefix(), Real: true}
}

// StartT is localkafka.Start for a test: it fails the test on error, and closes the
// cluster when the test ends.
func StartT(t testing.TB, o Options) *Cluster {
	t.Helper()
	Need(t)
	o.Version = cmp.Or(o.Version, Version())
	c, err := localkafka.Start(context.Background(), o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := c.Close(); err != nil {
			t.Error(err)
		}
	})
	return c
}

// Need skips the test in one line where Kafka cannot run or -short was given, and
// fails it where BERTH_REQUIRE_KAFKA=1 says that it must run.
func Need(t testing.TB) {
	t.Helper()
	for _, tool := range []string{"java", "mvn"} {
		if _, err := exec.LookPath(tool); err != nil {
			if os.Getenv("BERTH_REQUIRE_KAFKA") == "1" {
				t.Fatalf("BERTH_REQUIRE_KAFKA=1 and %s is not installed", tool)
			}
			t.Skipf("skipped: needs Kafka, and %s is not installed", tool)
		}
	}
	if testing.Short() && os.Getenv("BERTH_REQUIRE_KAFKA") != "1" {
		t.Skip("skipped: takes long on real Kafka; make test-all runs it")
	}
}

// Main runs the tests and then ends the shared Kafka. Call it from TestMain:
//
//	func TestMain(m *testing.M) { os.Exit(kafkatest.Main(m)) }
func Main(m *testing.M) int {
	code := m.Run()
	if err := shared.close(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return code
}

// shared is the one Kafka of a test binary: a process has only one, so it is
// the one variable here that changes.
var shared cluster

type cluster struct {
	once sync.Once
	c    *Cluster
	err  error
}

func (s *cluster) get() (*Cluster, error) {
	s.once.Do(func() {
		ctx, cancel := context.WithTimeout(context.Background(), 5*time.Minute)
		defer cancel()
		s.c, s.err = localkafka.Start(ctx, Options{Version: Version(), Properties: map[string]string{
			"group.share.max.record.lock.duration.ms": "3600000", // a lock that no test outlives, for tests that want one
		}})
	})
	return s.c, s.err
}

func (s *cluster) close() error {
	if s.c == nil {
		return nil
	}
	return s.c.Close()
}

var tests atomic.Int64

// prefix keeps the topics and groups of tests on one broker apart.
func prefix() string { return fmt.Sprintf("t%d-%d.", os.Getpid(), tests.Add(1)) }
