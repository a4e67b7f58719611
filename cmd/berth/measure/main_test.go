// SPDX-License-Identifier: Apache-2.0

package measure

import (
	"context"
	"os"
	"testing"

	"github.com/berth-project/berth/pkg/cli"
	"github.com/berth-project/berth/pkg/kafkatest"
)

// asBerth makes the test binary behave as the berth binary, as far as it measures.
const asBerth = "BERTH_TEST_AS_BINARY"

func TestMain(m *testing.M) {
	if os.Getenv(asBerth) == "1" {
		root := cli.NewRoot()
		root.AddCommand(NewBench())
		os.Exit(cli.Execute(context.Background(), root, os.Args[1:]))
	}
	os.Exit(kafkatest.Main(m))
}
