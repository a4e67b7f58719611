// SPDX-License-Identifier: Apache-2.0

package cell

import (
	"crypto/x509"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/berth-project/berth/pkg/clienttls"
	"github.com/berth-project/berth/pkg/compute"
	"github.com/berth-project/berth/pkg/telemetry"
)

// Certificate is what this process shows to brokers, as it is on the disk now; nil: it shows none.
func (t TLSSettings) Certificate() (*x509.Certificate, error) {
	if t.Cert == "" {
		return nil, nil
	}
	pair, err := clienttls.Own(certSetting, t.Cert, t.Key, compute.Unreadable)
	if err != nil {
		return nil, err
	}
	return pair.Leaf, nil
}

// certificateMetrics are about the certificate that this process shows to brokers. Connections that are open outlast
// it: the first sign of one that has expired would be a process that finds no way back to Kafka. A nil one shows
// nothing.
type certificateMetrics struct {
	telemetry.Bundle
	expires  *telemetry.Gauges
	unusable *telemetry.Gauges
}

func newCertificateMetrics(r prometheus.Registerer) *certificateMetrics {
	if r == nil {
		return nil
	}
	m := &certificateMetrics{}
	m.expires = m.Gauges("berth_kafka_certificate_expires_timestamp_seconds",
		"When the certificate that this process shows to brokers expires, as it is on the disk, in seconds since 1970; "+
			"0 without one.")
	m.unusable = m.Gauges("berth_kafka_certificate_unusable",
		"1 while the files of that certificate cannot be used: no new connection to a broker is made.")
	for _, g := range []*telemetry.Gauges{m.expires, m.unusable} {
		g.Ask(func(say telemetry.Say) { say(0) })
	}
	return telemetry.Shared(r, m)
}

// show has the metrics look at the files whenever somebody asks for them.
func (m *certificateMetrics) show(t TLSSettings) {
	if m == nil || t.Cert == "" {
		return
	}
	m.expires.Ask(func(say telemetry.Say) {
		if c, err := t.Certificate(); err == nil {
			say(float64(c.NotAfter.Unix()))
		}
	})
	m.unusable.Ask(func(say telemetry.Say) {
		if _, err := t.Certificate(); err != nil {
			say(1)
		}
	})
}
