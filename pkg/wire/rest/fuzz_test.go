// SPDX-License-Identifier: Apache-2.0

package rest

import (
	"encoding/json"
	"testing"

	"github.com/berth-project/berth/pkg/compute"
)

// refused says whether err is a refusal that a caller can act on.
func refused(err error) bool { return compute.KindOf(err) == compute.KindInvalid }

func FuzzBoot(f *testing.F) {
	f.Add([]byte(`{"flavor":"m1.small","with":{"gpu":"a100"},"user_data":"I2Nsb3Vk","deadline":"10m",` +
		`"on_no_capacity":"fail","avoid":["h1"]}`))
	f.Add([]byte(`{"attempts":4294967295,"deadline":"-1h","metadata":{"":""}}`))
	f.Fuzz(func(t *testing.T, body []byte) {
		var in Boot
		if json.Unmarshal(body, &in) != nil {
			return
		}
		boot, err := in.Compute()
		if err != nil {
			if !refused(err) {
				t.Fatalf("%#v is no refusal", err)
			}
			return
		}
		if err := boot.Check(); err != nil && !refused(err) {
			t.Fatalf("%#v is no refusal", err)
		}
		again, err := FromBoot(in.Project, in.ID, boot).Compute()
		if err != nil || again.Deadline != boot.Deadline || len(again.UserData) != len(boot.UserData) {
			t.Fatalf("%+v, %v comes back from %+v", again, err, boot)
		}
	})
}

func FuzzCatalog(f *testing.F) {
	f.Add([]byte(`{"name":"m1.small","axis":"gpu","resources":{"VCPU":1},"required":["A"],` +
		`"values":[{"value":"v","consumes":{"CUSTOM_X":-1}}],"limits":{"VCPU":9223372036854775807}}`))
	f.Fuzz(func(t *testing.T, body []byte) {
		var flavor Flavor
		if json.Unmarshal(body, &flavor) == nil {
			if err := flavor.Compute().Resources.Check(); err != nil && !refused(err) {
				t.Fatalf("%#v is no refusal", err)
			}
		}
		var capability Capability
		if json.Unmarshal(body, &capability) == nil {
			for _, v := range capability.Compute().Values {
				if err := v.Consumes.Check(); err != nil && !refused(err) {
					t.Fatalf("%#v is no refusal", err)
				}
			}
		}
	})
}

func FuzzDuration(f *testing.F) {
	f.Add("1h30m")
	f.Add("-9223372036854775808ns")
	f.Fuzz(func(t *testing.T, text string) {
		var d, again Duration
		if err := d.UnmarshalText([]byte(text)); err != nil {
			if !refused(err) {
				t.Fatalf("%#v is no refusal", err)
			}
			return
		}
		if b, err := d.MarshalText(); err != nil || again.UnmarshalText(b) != nil || again != d {
			t.Fatalf("%q is %s and then %s", text, d, again)
		}
	})
}

// FuzzProblem is what a client makes of a refusal, whichever server wrote it.
func FuzzProblem(f *testing.F) {
	f.Add([]byte(`{"kind":"unavailable","detail":"d","status":503,"reason":{"code":"QuotaExceeded","limit":1},` +
		`"errors":[{"value":{}}]}`))
	f.Fuzz(func(t *testing.T, body []byte) {
		var p Problem
		if json.Unmarshal(body, &p) != nil {
			return
		}
		if err := p.Compute(); err == nil || err.Error() == "" {
			t.Fatal("a problem is no error")
		}
	})
}
