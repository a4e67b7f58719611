// SPDX-License-Identifier: Apache-2.0

package compute

import (
	"strings"
	"testing"
	"time"
)

// Whatever is wrong with a boot, what is said of it has nothing of its user data: others read that in lists, logs and
// the topic of rejected records.
func TestCheckShowsNoUserData(t *testing.T) {
	const planted = "PLANTED"
	long := strings.Repeat(planted, MaxUserData/len(planted)+1)
	for name, spoil := range map[string]func(*Boot){
		"too much":        func(b *Boot) { b.UserData = UserData(long) },
		"too much sealed": func(b *Boot) { b.UserData, b.Sealed = "", Sealed(long+long) },
		"twice":           func(b *Boot) { b.Sealed = planted },
		"no flavor":       func(b *Boot) { b.Flavor = "" },
		"a long name":     func(b *Boot) { b.Name = strings.Repeat("n", MaxNameLength+1) },
		"a long image":    func(b *Boot) { b.Image = strings.Repeat("n", MaxNameLength+1) },
		"a choice":        func(b *Boot) { b.With = Choices{"Not An Axis": "x"} },
		"no key":          func(b *Boot) { b.SSHKeys = []string{"no key"} },
		"a deadline":      func(b *Boot) { b.Deadline = -time.Second },
		"attempts":        func(b *Boot) { b.Attempts = MaxAttempts + 1 },
		"on_no_capacity":  func(b *Boot) { b.OnNoCapacity = 9 },
		"a host":          func(b *Boot) { b.Host = "Not A Host" },
		"avoided":         func(b *Boot) { b.Avoid = []HostID{"Not A Host"} },
		"metadata":        func(b *Boot) { b.Metadata = map[string]string{"k": strings.Repeat("v", MaxMetadataSize)} },
	} {
		b := Boot{Flavor: "f", UserData: planted}
		spoil(&b)
		switch err := b.Check(); {
		case err == nil:
			t.Errorf("%s: it is taken", name)
		case strings.Contains(err.Error(), planted):
			t.Errorf("%s: %v", name, err)
		}
	}
}
