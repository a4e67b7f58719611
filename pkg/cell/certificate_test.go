// SPDX-License-Identifier: Apache-2.0

package cell

import (
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/zap"

	"github.com/berth-project/berth/pkg/tlsfiles/tlstest"
)

// A process says when the certificate that it shows to brokers expires, as it is on the disk now, and when its files
// cannot be used.
func TestCertificateIsShown(t *testing.T) {
	authority, dir := tlstest.New(t, "ca"), t.TempDir()
	first, renewed := authority.Client("api", ""), authority.Client("api", "")
	k := DefaultKafka()
	k.TLS.CA = tlstest.Write(t, dir, "ca.pem", authority.PEM)
	k.TLS.Cert, k.TLS.Key = first.Files(t, dir)
	registry := prometheus.NewRegistry()
	shows := func(when string, expires, unusable float64) {
		t.Helper()
		families, err := registry.Gather()
		if err != nil {
			t.Fatal(err)
		}
		wanted := map[string]float64{
			"berth_kafka_certificate_expires_timestamp_seconds": expires, "berth_kafka_certificate_unusable": unusable,
		}
		for _, f := range families {
			want, asked := wanted[f.GetName()]
			if delete(wanted, f.GetName()); asked && f.GetMetric()[0].GetGauge().GetValue() != want {
				t.Errorf("%s: %s is %v, not %v", when, f.GetName(), f.GetMetric()[0], want)
			}
		}
		if len(wanted) > 0 {
			t.Errorf("%s: no metric is called %v", when, wanted)
		}
	}
	c := New(k, nil, zap.NewNop(), "api").Measured(registry)
	shows("without a certificate", 0, 0)
	if _, err := c.Secured(k); err != nil {
		t.Fatal(err)
	}
	shows("with one", float64(first.Leaf.NotAfter.Unix()), 0)
	tlstest.Write(t, dir, "cert.pem", renewed.Cert)
	shows("half renewed", 0, 1)
	tlstest.Write(t, dir, "key.pem", renewed.Key)
	shows("renewed", float64(renewed.Leaf.NotAfter.Unix()), 0)
}
