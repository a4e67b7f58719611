package main

import (
	"os"
	"testing"
	"time"

	"github.com/berth-project/berth/pkg/kafkatest"
)

// asBerth makes the test binary behave as the berth binary.
const asBerth = "BERTH_TEST_AS_BINARY"

func TestMain(m *testing.M) {
	if os.Getenv(asBerth) == "1" {
		os.Exit(run())
	}
	os.Exit(kafkatest.Main(m))
}

// soonEnough is how long a script waits for something that should happen soon, before it
// calls it lost.
const soonEnough = 4 * time.Minute
