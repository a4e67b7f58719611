// SPDX-License-Identifier: Apache-2.0

package cell

import (
	"errors"

	"github.com/berth-project/berth/pkg/compute"
	"github.com/berth-project/berth/pkg/config"
	"github.com/berth-project/berth/pkg/hostkey"
)

// HostsSettings is which reports and beacons conductors and queue managers believe.
type HostsSettings struct {
	Trust   hostkey.Trust `yaml:"trust"`
	Masters string        `yaml:"masters"` // file or folder; empty: MACs are not checked
}

// DefaultHosts believes every process that may write to Kafka.
func DefaultHosts() HostsSettings { return HostsSettings{Trust: hostkey.TrustAll} }

// Check answers all that is wrong, joined, each with the key it is about.
func (h HostsSettings) Check() error {
	errs := []error{
		config.OneOf("hosts.trust", string(h.Trust), string(hostkey.TrustAll), string(hostkey.TrustKeys)),
	}
	if h.Trust == hostkey.TrustKeys && h.Masters == "" {
		errs = append(errs, compute.Invalid("hosts.masters", "",
			"name the file with the masters of the hosts' keys, or say hosts.trust: all"))
	}
	if h.Masters != "" {
		_, err := hostkey.LoadMasters("hosts.masters", h.Masters)
		errs = append(errs, err)
	}
	return errors.Join(errs...)
}

// Verifier is what the settings ask for; nil: nothing is checked.
func (h HostsSettings) Verifier() (*hostkey.Verifier, error) {
	if h.Masters == "" {
		return nil, nil
	}
	masters, err := hostkey.LoadMasters("hosts.masters", h.Masters)
	if err != nil {
		return nil, err
	}
	return hostkey.NewVerifier(h.Trust, masters), nil
}
