package kafka_test

import (
	"os"
	"testing"

	"github.com/berth-project/berth/pkg/kafkatest"
)

func TestMain(m *testing.M) { os.Exit(kafkatest.Main(m)) }
