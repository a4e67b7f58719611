// SPDX-License-Identifier: Apache-2.0

package telemetry

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"

	"go.uber.org/zap"

	"github.com/berth-project/berth/pkg/compute"
)

func TestNewLogger(t *testing.T) {
	var out bytes.Buffer
	log, err := NewLogger(&out, "warn", "json")
	if err != nil {
		t.Fatal(err)
	}
	log.Info("chatter")
	log.Warn("disk failed", zap.String("host", "h1"))
	var line map[string]any
	if err := json.Unmarshal(out.Bytes(), &line); err != nil {
		t.Fatalf("%v in %s", err, out.String())
	}
	if line["msg"] != "disk failed" || line["host"] != "h1" || line["level"] != "warn" || line["ts"] == nil {
		t.Errorf("%v", line)
	}

	out.Reset()
	if log, err = NewLogger(&out, "", ""); err != nil {
		t.Fatal(err)
	}
	log.Debug("chatter")
	log.Info("ready", zap.Int("hosts", 3))
	if got := out.String(); !strings.Contains(got, "INFO") || !strings.Contains(got, `{"hosts": 3}`) ||
		strings.Contains(got, "chatter") {
		t.Errorf("%q", got)
	}
}

func TestNewLoggerRefusals(t *testing.T) {
	for _, c := range [][2]string{{"loud", "json"}, {"info", "xml"}} {
		if _, err := NewLogger(&bytes.Buffer{}, c[0], c[1]); compute.KindOf(err) != compute.KindInvalid {
			t.Errorf("%v: %v", c, err)
		}
	}
}
