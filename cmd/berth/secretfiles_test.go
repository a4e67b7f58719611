// SPDX-License-Identifier: Apache-2.0

package main

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/berth-project/berth/pkg/config"
	"github.com/berth-project/berth/pkg/hostkey"
	"github.com/berth-project/berth/pkg/publishkey"
	"github.com/berth-project/berth/pkg/tlsfiles/tlstest"
)

// secretSetting says of a key whether it names a file with a secret in it.
var secretSetting = regexp.MustCompile(`_file$|(^|\.)(key|keys|masters)$`)

// Every setting of every daemon that names a file with a secret is refused when others may read the file, with the
// way out, and works when they may not.
func TestFilesThatOthersMayRead(t *testing.T) {
	authority, dir := tlstest.New(t, "ours"), t.TempDir()
	cert, key := authority.Server().Files(t, dir)
	write := func(name, text string) string { return tlstest.Write(t, dir, name, []byte(text+"\n")) }
	master := hostkey.NewMaster([32]byte{1})
	secret := write("secret", "planted")
	const bearer = "kafka.tls.ca=system kafka.sasl.mechanism=OAUTHBEARER "
	settings := map[string]struct{ file, others string }{
		"kafka.sasl.password_file": {secret, "kafka.sasl.mechanism=SCRAM-SHA-512 kafka.sasl.user=u"},
		"kafka.sasl.token_file":    {secret, bearer},
		"kafka.sasl.client_secret_file": {
			secret, bearer + "kafka.sasl.token_url=https://id.example kafka.sasl.client_id=c",
		},
		"kafka.tls.key":   {key, "kafka.tls.ca=system kafka.tls.cert=" + cert},
		"tls.key":         {key, "tls.cert=" + cert},
		"hosts.masters":   {write("masters", strings.Repeat("0a", 32)), "hosts.trust=keys"},
		"host_key_file":   {write("host.key", master.Derive("h1").Line()), ""},
		"publish.masters": {write("publish-masters", strings.Repeat("0a", 32)), "publish.trust=keys"},
		"user_data.keys":  {write("user-data-keys", strings.Repeat("0b", 32)), ""},
		"publish_key_file": {
			write("publish.key", publishkey.Derive(master, "api", publishkey.All).Line()), "",
		},
	}
	tried := map[string]bool{}
	for _, d := range daemonFiles() {
		names := []string{"kafka.brokers=k1:9092"}
		if d.name == "agent" {
			names = append(names, "host=h1", "state="+dir, "driver.fake.world="+dir)
		}
		loaded, err := d.read(config.From{Set: names})
		if err != nil {
			t.Fatal(d.name, err)
		}
		for _, s := range loaded.Settings() {
			if !secretSetting.MatchString(s.Key) {
				continue
			}
			c, ok := settings[s.Key]
			if !ok {
				t.Errorf("%s of %s is not tried here", s.Key, d.name)
				continue
			}
			tried[s.Key] = true
			sets := append(append([]string{s.Key + "=" + c.file}, names...), strings.Fields(c.others)...)
			for mode, fine := range map[os.FileMode]bool{0o600: true, 0o400: true, 0o604: false, 0o644: false, 0o660: false} {
				if err := os.Chmod(c.file, mode); err != nil {
					t.Fatal(err)
				}
				_, err := d.read(config.From{Set: sets})
				if err == nil != fine {
					t.Errorf("%s of %s with mode %o: %v", s.Key, d.name, mode, err)
				}
				if err != nil && (!strings.Contains(err.Error(), s.Key+` "`+c.file+`"`) ||
					!strings.Contains(err.Error(), "chmod 600 "+filepath.Clean(c.file))) {
					t.Errorf("%s of %s: %v", s.Key, d.name, err)
				}
			}
			if err := os.Chmod(c.file, 0o600); err != nil {
				t.Fatal(err)
			}
		}
	}
	if len(tried) != len(settings) {
		t.Errorf("only %v are settings", tried)
	}
}
