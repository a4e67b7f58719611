// SPDX-License-Identifier: Apache-2.0

package cell

import (
	"errors"

	"github.com/berth-project/berth/pkg/compute"
	"github.com/berth-project/berth/pkg/config"
	"github.com/berth-project/berth/pkg/hostkey"
	"github.com/berth-project/berth/pkg/publishkey"
	"github.com/berth-project/berth/pkg/sealed"
)

// HostsSettings is which reports and beacons conductors and queue managers believe.
type HostsSettings struct {
	Trust   hostkey.Trust `yaml:"trust"`
	Masters string        `yaml:"masters"` // file or folder; empty: MACs are not checked
}

// PublishSettings is which requests conductors take.
type PublishSettings HostsSettings

// DefaultHosts believes every process that may write to Kafka.
func DefaultHosts() HostsSettings { return HostsSettings{Trust: hostkey.TrustAll} }

// DefaultPublish takes requests of every process that may write to Kafka.
func DefaultPublish() PublishSettings { return PublishSettings(DefaultHosts()) }

// Check answers all that is wrong, joined, each with the key it is about.
func (h HostsSettings) Check() error { return h.check("hosts", "hosts'") }

// Check is that of HostsSettings.
func (p PublishSettings) Check() error { return HostsSettings(p).check("publish", "publishers'") }

func (h HostsSettings) check(section, whose string) error {
	errs := []error{
		config.OneOf(section+".trust", string(h.Trust), string(hostkey.TrustAll), string(hostkey.TrustKeys)),
	}
	if h.Trust == hostkey.TrustKeys && h.Masters == "" {
		errs = append(errs, compute.Invalid(section+".masters", "",
			"name the file with the masters of the "+whose+" keys, or say "+section+".trust: all"))
	}
	_, err := h.load(section)
	return errors.Join(append(errs, err)...)
}

// load reads the masters; none: nothing is checked.
func (h HostsSettings) load(section string) ([]hostkey.Master, error) {
	if h.Masters == "" {
		return nil, nil
	}
	return hostkey.LoadMasters(section+".masters", h.Masters)
}

// Verifier is what the settings ask for; nil: nothing is checked.
func (h HostsSettings) Verifier() (*hostkey.Verifier, error) {
	masters, err := h.load("hosts")
	if err != nil || masters == nil {
		return nil, err
	}
	return hostkey.NewVerifier(h.Trust, masters), nil
}

// Verifier is what the settings ask for; nil: nothing is checked.
func (p PublishSettings) Verifier() (*publishkey.Verifier, error) {
	masters, err := HostsSettings(p).load("publish")
	if err != nil || masters == nil {
		return nil, err
	}
	return publishkey.NewVerifier(p.Trust, masters), nil
}

// UserDataSettings is what API nodes seal user data with, and agents open it.
type UserDataSettings struct {
	Keys string `yaml:"keys"` // file or folder; empty: it is not sealed, or not opened
}

// Check answers what is wrong, with the key it is about.
func (u UserDataSettings) Check() error {
	_, err := u.Load("")
	return err
}

// Load reads the keys for the cell with this prefix; nil: there are none.
func (u UserDataSettings) Load(prefix string) (*sealed.Keys, error) {
	return sealed.Load("user_data.keys", u.Keys, prefix)
}
