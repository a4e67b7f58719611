// SPDX-License-Identifier: Apache-2.0

package libvirt

import (
	"cmp"
	"strings"
	"testing"
)

// TestWarnings: what libvirt says of its security models is what an operator is told.
func TestWarnings(t *testing.T) {
	const (
		root = "<secmodel><model>dac</model><doi>0</doi><baselabel type='kvm'>+0:+0</baselabel>" +
			"<baselabel type='qemu'>+0:+0</baselabel></secmodel>"
		own      = "<secmodel><model>dac</model><doi>0</doi><baselabel type='kvm'>+64055:+108</baselabel></secmodel>"
		confined = "<secmodel><model>apparmor</model><doi>0</doi></secmodel>"
	)
	for name, c := range map[string]struct {
		models string
		wants  []string
		uri    string
	}{
		"all is well":               {confined + own, nil, ""},
		"machines run as root":      {confined + root, []string{"as root"}, ""},
		"nothing confines them":     {own, []string{"neither SELinux nor AppArmor"}, ""},
		"neither":                   {root, []string{"as root", "neither SELinux nor AppArmor"}, ""},
		"a session, without models": {"", []string{"neither SELinux nor AppArmor", "no cgroups"}, session},
	} {
		t.Run(name, func(t *testing.T) {
			models, err := securityModels("<capabilities><host>" + c.models + "</host></capabilities>")
			got := warnings(models, cmp.Or(c.uri, system))
			if err != nil || len(got) != len(c.wants) {
				t.Fatalf("%q, %v; wanted %q", got, err, c.wants)
			}
			if user := otherUser(models, 0); (user == "+64055:+108") != strings.Contains(c.models, own) {
				t.Errorf("for root QEMU's user is %q", user)
			}
			if user := otherUser(models, 64055); (user == "+0:+0") != strings.Contains(c.models, root) {
				t.Errorf("for user 64055 QEMU's is %q", user)
			}
			for n, want := range c.wants {
				if !strings.Contains(got[n], want) {
					t.Errorf("%q, wanted something of %q", got[n], want)
				}
			}
		})
	}
	if _, err := securityModels("<capabilities"); err == nil {
		t.Error("what is no document is believed")
	}
}
