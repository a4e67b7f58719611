// SPDX-License-Identifier: Apache-2.0

package api

import (
	"bytes"
	"io"
	"net/http"
	"net/http/httptest"
	"sync/atomic"
	"testing"

	"github.com/berth-project/berth/pkg/compute"
	"github.com/berth-project/berth/pkg/wire"
)

// BenchmarkAccept is an API node alone: boots over HTTP from many callers, each with a
// connection of its own, to a broker that takes a record at once. Callers and node
// share the processors.
func BenchmarkAccept(b *testing.B) {
	n := newNode(b)
	n.offer()
	srv := httptest.NewServer(n.Handler())
	defer srv.Close()
	client := &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 1000}}
	defer client.CloseIdleConnections()
	body := []byte(`{"project":"default","flavor":"m1.small","image":"debian","metadata":{"a":"b"}}`)
	var accepted atomic.Int64
	b.SetParallelism(32)
	b.ReportAllocs()
	b.ResetTimer()
	b.RunParallel(func(p *testing.PB) {
		for p.Next() {
			resp, err := client.Post(srv.URL+"/v1/instances", "application/json", bytes.NewReader(body))
			if err != nil {
				b.Error(err)
				return
			}
			said, _ := io.ReadAll(resp.Body)
			resp.Body.Close()
			if resp.StatusCode != http.StatusAccepted {
				b.Errorf("%s: %s", resp.Status, said)
				return
			}
			accepted.Add(1)
		}
	})
	b.StopTimer()
	boots := map[compute.InstanceID]bool{}
	for _, rec := range n.published() {
		if r, err := wire.DecodeRequest(rec); err == nil && r.Op == compute.OpBoot {
			boots[r.Instance] = true
		}
	}
	if len(boots) != int(accepted.Load()) {
		b.Errorf("%d accepted, %d published", accepted.Load(), len(boots))
	}
	b.ReportMetric(float64(accepted.Load())/b.Elapsed().Seconds(), "boots/s")
}
