// SPDX-License-Identifier: Apache-2.0

package cell

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/berth-project/berth/pkg/compute"
	"github.com/berth-project/berth/pkg/config"
	"github.com/berth-project/berth/pkg/hostkey"
	"github.com/berth-project/berth/pkg/publishkey"
	"github.com/berth-project/berth/pkg/wire"
)

// What the settings withdraw is what the verifiers refuse, and a setting that withdraws nothing is refused itself.
func TestWithdrawnBySettings(t *testing.T) {
	file := filepath.Join(t.TempDir(), "masters")
	if err := os.WriteFile(file, []byte(strings.Repeat("07", 32)), 0o600); err != nil {
		t.Fatal(err)
	}
	masters, err := hostkey.LoadMasters("masters", file)
	if err != nil {
		t.Fatal(err)
	}
	m, rec := masters[0], wire.Record{Topic: "t"}
	s := HostsSettings{Trust: hostkey.TrustKeys, Masters: file, Withdrawn: []string{"a@" + m.ID().String()}}
	hosts, err := s.Verifier()
	publishers, err2 := PublishSettings(s).Verifier()
	if err != nil || err2 != nil {
		t.Fatal(err, err2)
	}
	for _, name := range []string{"a", "b"} {
		_, ofHost := hosts.Check(hostkey.NewSigner(m.Derive(compute.HostID(name))).Sign(rec), compute.HostID(name))
		ofPublisher := publishers.Check(publishkey.Derive(m, compute.PublisherName(name), "p").Sign(rec), "p")
		if refused := name == "a"; (ofHost != nil) != refused || (ofPublisher != nil) != refused {
			t.Errorf("%s: %v, %v", name, ofHost, ofPublisher)
		}
	}
	for _, c := range []struct{ masters, withdrawn, field string }{
		{file, "a@1", "withdrawn"}, {file, "a@00000001", "withdrawn"}, {file, "Not A Name", "withdrawn"}, {"", "a", "withdrawn"},
	} {
		s := HostsSettings{Trust: hostkey.TrustAll, Masters: c.masters, Withdrawn: []string{c.withdrawn}}
		for section, err := range map[string]error{"hosts": s.Check(), "publish": PublishSettings(s).Check()} {
			if err == nil || !strings.Contains(err.Error(), section+"."+c.field) {
				t.Errorf("%+v of %s: %v", c, section, err)
			}
		}
	}
}

// An empty variable over a file's "keys" turns no checks off: it is refused, with its name.
func TestAnEmptyVariableIsNoTrust(t *testing.T) {
	dir := t.TempDir()
	masters, file := filepath.Join(dir, "masters"), filepath.Join(dir, "conductor.yaml")
	section := ": {trust: keys, masters: " + masters + "}\n"
	if err := errors.Join(
		os.WriteFile(masters, []byte(strings.Repeat("07", 32)), 0o600),
		os.WriteFile(file, []byte("hosts"+section+"publish"+section), 0o600),
	); err != nil {
		t.Fatal(err)
	}
	for variables, wanted := range map[string]string{
		"": "", "BERTH_HOSTS_TRUST=all BERTH_PUBLISH_TRUST=all": "",
		"BERTH_HOSTS_TRUST=":   "(env BERTH_HOSTS_TRUST)",
		"BERTH_PUBLISH_TRUST=": "(env BERTH_PUBLISH_TRUST)",
	} {
		settings := struct {
			Hosts   HostsSettings   `yaml:"hosts"`
			Publish PublishSettings `yaml:"publish"`
		}{DefaultHosts(), DefaultPublish()}
		loaded := config.Load(&settings, config.From{File: file, Environ: strings.Fields(variables)})
		err := loaded.Err(errors.Join(settings.Hosts.Check(), settings.Publish.Check()))
		if (err == nil) != (wanted == "") || err != nil && (!strings.Contains(err.Error(), wanted) ||
			!strings.Contains(err.Error(), "give one of all, keys, or unset it")) {
			t.Errorf("%q: %v, want %q", variables, err, wanted)
		}
	}
}
