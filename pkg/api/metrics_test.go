// SPDX-License-Identifier: Apache-2.0

package api

import (
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"

	"github.com/berth-project/berth/pkg/compute"
	"github.com/berth-project/berth/pkg/telemetry/telemetrytest"
)

// counted makes a node count into a registry of its own.
func (n *node) counted() *prometheus.Registry {
	r := prometheus.NewPedanticRegistry()
	n.metrics = NewMetrics(r)
	n.unshown = n.metrics.show(n.Server)
	n.http = n.routes()
	return r
}

func TestMetricsSayWhatWasAnswered(t *testing.T) {
	n := newNode(t)
	n.offer()
	r := n.counted()
	is := func(want float64, family string, labels ...string) {
		t.Helper()
		telemetrytest.Is(t, r, want, family, labels...)
	}
	n.keyedBoot(plain, "a")
	n.keyedBoot(plain, "a")
	n.keyedBoot(other, "a")
	n.do("POST", "/v1/instances", `{`)
	n.do("POST", "/v1/instances", `{"flavor":"m9"}`)
	n.do("GET", "/v1/instances?limit=0", nil)
	n.do("GET", "/v1/nothing", nil)
	n.do("PATCH", "/v1/instances", nil)
	is(1, "berth_api_boots_total", "boot", "new")
	is(1, "berth_api_boots_total", "boot", "repeated")
	is(2, "berth_api_requests_total", "operation", "boot", "status", "202")
	is(1, "berth_api_requests_total", "operation", "boot", "status", "409")
	is(1, "berth_api_requests_total", "operation", "boot", "status", "400")
	is(1, "berth_api_requests_total", "operation", "list-instances", "status", "422")
	is(2, "berth_api_requests_total", "operation", "none")
	is(5, "berth_api_request_seconds", "operation", "boot")
	is(1, "berth_api_refused_total", "kind", "conflict", "reason", "RequestDiffers")
	is(1, "berth_api_refused_total", "kind", "not-found", "reason", "NoSuchFlavor")
	is(3, "berth_api_refused_total", "kind", "invalid", "reason", "")
	is(1, "berth_api_refused_total", "kind", "not-found", "reason", "")
	is(1, "berth_api_publish_seconds", "result", "ok")
	if problems, err := testutil.GatherAndLint(r); err != nil || len(problems) > 0 {
		t.Errorf("%v %v", problems, err)
	}
}

// TestMetricsCountFailuresFromZero: before anything was asked each operation shows that it did not fail, since an alert
// goes by the increase.
func TestMetricsCountFailuresFromZero(t *testing.T) {
	n := newNode(t)
	r := n.counted()
	all := n.documented()
	for _, op := range all {
		v, shown := telemetrytest.Value(t, r, "berth_api_requests_total", "operation", op.id, "status", "500")
		if v != 0 || !shown {
			t.Errorf("%s: %v, shown: %t", op.id, v, shown)
		}
	}
	if len(all) < 40 {
		t.Errorf("%d operations", len(all))
	}
}

// TestMetricsCountPanics as 500, which an alert goes by.
func TestMetricsCountPanics(t *testing.T) {
	n := newNode(t)
	r := n.counted()
	n.config.Catalog = fragile{n.config.Catalog}
	func() {
		defer func() {
			if recover() == nil {
				t.Error("it does not panic")
			}
		}()
		n.do("PUT", "/v1/quotas/web", `{"limits":{"VCPU":1}}`)
	}()
	telemetrytest.Is(t, r, 1, "berth_api_requests_total", "operation", "set-quota", "status", "500")
	telemetrytest.Is(t, r, 1, "berth_api_request_seconds", "operation", "set-quota")
}

func TestMetricsSayThatKafkaIsSilent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newNode(t)
		n.offer()
		r := n.counted()
		n.silence(true)
		boot := httptest.NewRequest("POST", "/v1/instances", strings.NewReader(plain))
		boot.Header.Set("Content-Type", "application/json")
		go n.Handler().ServeHTTP(httptest.NewRecorder(), boot)
		synctest.Wait()
		telemetrytest.Is(t, r, 1, "berth_api_waiting", "what", "publishing")
		telemetrytest.Is(t, r, 0, "berth_api_kafka_silent_seconds", "what", "publishing")
		time.Sleep(n.config.PublishTimeout + 5*time.Second)
		telemetrytest.Is(t, r, 0, "berth_api_waiting", "what", "publishing")
		telemetrytest.Is(t, r, 5, "berth_api_kafka_silent_seconds", "what", "publishing")
		telemetrytest.Is(t, r, 1, "berth_api_publish_seconds", "result", "timeout")
		telemetrytest.Is(t, r, 25, "berth_api_view_age_seconds", "view", "advice")
		n.hears(compute.Beacon{Host: "h1"})
		telemetrytest.Is(t, r, 0, "berth_api_view_age_seconds", "view", "hosts")
		n.Close()
		n.Close()
		if _, shown := telemetrytest.Value(t, r, "berth_api_view_age_seconds"); shown {
			t.Error("a node that is closed is shown")
		}
	})
}

// TestNodesOfOneProcessCountTogether and a node without metrics counts nothing.
func TestNodesOfOneProcessCountTogether(t *testing.T) {
	r := prometheus.NewRegistry()
	if first, second := NewMetrics(r), NewMetrics(r); first != second {
		t.Error("registered twice")
	}
	if NewMetrics(nil) != nil {
		t.Error("counts for nobody")
	}
	n := newNode(t)
	n.do("GET", "/v1/hosts", nil)
	n.Close()
	if text := strings.Join(viewNames[:], " "); text != "instances requests queues hosts advice" {
		t.Error(text)
	}
}
