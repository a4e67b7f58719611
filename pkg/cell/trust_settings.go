// SPDX-License-Identifier: Apache-2.0

package cell

import (
	"errors"
	"fmt"

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
	// Withdrawn are keys that count no more: NAME, or NAME@MASTER for the one under that master.
	Withdrawn []string `yaml:"withdrawn"`
}

// PublishSettings is which requests conductors take.
type PublishSettings HostsSettings

// DefaultHosts believes every process that may write to Kafka.
func DefaultHosts() HostsSettings { return HostsSettings{Trust: hostkey.TrustAll} }

// DefaultPublish takes requests of every process that may write to Kafka.
func DefaultPublish() PublishSettings { return PublishSettings(DefaultHosts()) }

// Check answers all that is wrong, joined, each with the key it is about.
func (h HostsSettings) Check() error {
	without, err := h.withdrawn()
	return errors.Join(h.check("hosts", "hosts'", without), err)
}

// Check is that of HostsSettings.
func (p PublishSettings) Check() error {
	without, err := p.withdrawn()
	return errors.Join(HostsSettings(p).check("publish", "publishers'", without), err)
}

func (h HostsSettings) withdrawn() (hostkey.Withdrawn, error) {
	return hostkey.ParseWithdrawn("hosts.withdrawn", h.Withdrawn, func(name string) error {
		return compute.HostID(name).Check()
	})
}

func (p PublishSettings) withdrawn() (hostkey.Withdrawn, error) {
	return hostkey.ParseWithdrawn("publish.withdrawn", p.Withdrawn, func(name string) error {
		return compute.PublisherName(name).Check()
	})
}

func (h HostsSettings) check(section, whose string, without hostkey.Withdrawn) error {
	errs := []error{
		config.OneOf(section+".trust", string(h.Trust), string(hostkey.TrustAll), string(hostkey.TrustKeys)),
	}
	if h.Trust == "" { // an empty variable takes the place of a file's keys
		errs = append(errs, compute.Invalid(section+".trust", "",
			"give one of all, keys, or unset it: empty would let count what nobody has signed"))
	}
	if h.Trust == hostkey.TrustKeys && h.Masters == "" {
		errs = append(errs, compute.Invalid(section+".masters", "",
			"name the file with the masters of the "+whose+" keys, or say "+section+".trust: all"))
	}
	if len(h.Withdrawn) > 0 && h.Masters == "" {
		errs = append(errs, compute.Invalid(section+".withdrawn", fmt.Sprint(len(h.Withdrawn)),
			"set "+section+".masters: without it no key is looked at"))
	}
	masters, err := h.load(section)
	if masters != nil {
		err = without.CheckMasters(section+".withdrawn", masters)
	}
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
	without, err := h.withdrawn()
	return hostkey.NewVerifier(h.Trust, masters).Without(without), err
}

// Verifier is what the settings ask for; nil: nothing is checked.
func (p PublishSettings) Verifier() (*publishkey.Verifier, error) {
	masters, err := HostsSettings(p).load("publish")
	if err != nil || masters == nil {
		return nil, err
	}
	without, err := p.withdrawn()
	return publishkey.NewVerifier(p.Trust, masters).Without(without), err
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
