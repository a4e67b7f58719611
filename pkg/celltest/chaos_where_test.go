// SPDX-License-Identifier: Apache-2.0

package celltest

import (
	"context"
	"os"
	"testing"
	"time"

	"github.com/berth-project/berth/pkg/kafkatest/containers"
)

// attacked are the brokers to suffer, what they are, and the faults that only
// they can: containers where a Docker engine answers, else processes, unless
// BERTH_CHAOS_ON says which.
func attacked(t *testing.T, f form) (on brokers, what string, own []fault) {
	t.Helper()
	switch os.Getenv("BERTH_CHAOS_ON") {
	case "containers":
		needDocker(t)
		return inContainers(t)
	case "jars":
		return onJars(t, f)
	case "":
	default:
		t.Fatal("BERTH_CHAOS_ON: give containers or jars")
	}
	if err := dockerAnswers(t); err != nil {
		t.Logf("brokers are processes, for no Docker engine answers: %v", err)
		return onJars(t, f)
	}
	return inContainers(t)
}

func dockerAnswers(t *testing.T) error {
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	return containers.Answers(ctx)
}

// needDocker skips the test in one line where no Docker engine answers, and
// fails it where BERTH_REQUIRE_DOCKER=1 says that one must.
func needDocker(t *testing.T) {
	t.Helper()
	if err := dockerAnswers(t); err != nil {
		if os.Getenv("BERTH_REQUIRE_DOCKER") == "1" {
			t.Fatalf("BERTH_REQUIRE_DOCKER=1 and no engine answers: %v", err)
		}
		t.Skipf("skipped: no Docker engine answers: %v", err)
	}
}

func inContainers(t *testing.T) (brokers, string, []fault) {
	t.Helper()
	c, err := containers.Start(t.Context(), 3, fastBrokers())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := c.Close(); err != nil {
			t.Error(err)
		}
	})
	return c, "containers of " + containers.Image(), nil
}
