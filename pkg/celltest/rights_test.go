// SPDX-License-Identifier: Apache-2.0

package celltest

import (
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/berth-project/berth/pkg/kafka/access"
	"github.com/berth-project/berth/pkg/kafkatest"
)

// A daemon without its rights is not ready and says which it lacks, whichever kind that is; the command that it names
// makes it ready, and nothing else is needed.
func TestDaemonsWaitForTheirRights(t *testing.T) {
	t.Parallel()
	daemons := []access.Role{access.Queues, access.Conductor, access.API, access.Agent}
	var users []kafkatest.User
	for _, role := range daemons {
		users = append(users, kafkatest.User{Name: "the-" + string(role), Password: "pw-" + string(role)})
	}
	b := kafkatest.Locked(t, users...)
	dir := t.TempDir()
	signIn := func(u kafkatest.User) (sets []string) {
		file := filepath.Join(dir, u.Name)
		if err := os.WriteFile(file, []byte(u.Password), 0o600); err != nil {
			t.Fatal(err)
		}
		return []string{
			"kafka.brokers=" + b.Addrs[0], "kafka.prefix=w.", "kafka.partitions=2", "kafka.replication=1",
			"kafka.sasl.mechanism=SCRAM-SHA-256", "kafka.sasl.user=" + u.Name, "kafka.sasl.password_file=" + file,
		}
	}
	root := adminFile(t, b)
	for i, role := range daemons {
		t.Run(string(role), func(t *testing.T) {
			env, said := systemdHere(t)
			args := []string{string(role)}
			sets := append(signIn(users[i]), map[access.Role][]string{
				access.API:       {"listen=127.0.0.1:0"},
				access.Queues:    {"status.listen=127.0.0.1:0"},
				access.Conductor: {"status.listen=127.0.0.1:0"},
				access.Agent: {
					"status.listen=127.0.0.1:0", "host=" + lockedHost, "state=" + dir, "driver.fake.world=" + dir,
				},
			}[role]...)
			for _, s := range sets {
				args = append(args, "--set", s)
			}
			p := spawn(t, env, args...)
			base := "http://" + awaitLog(t, p.out, `listening.*"address": "([0-9.:]+)"`)
			lacks := "waiting for rights on Kafka: User:the-" + string(role) + " may not "
			awaitLog(t, p.out, "("+lacks+")")
			body := unready(t, base, lacks)
			call := regexp.MustCompile(`run: berth (acl apply [^":;]+:[^":;]+?)(:|"|$)`).FindStringSubmatch(body)
			if call == nil {
				t.Fatalf("no command in %s", body)
			}
			if code, out, errs := reaches(t, append(strings.Fields(call[1]), "--config", root)...); code != 0 {
				t.Fatalf("%s: exit %d\n%s%s", call[1], code, out, errs)
			}
			notified(t, said, "READY=1")
			if code, body := get(t, base+"/readyz"); code != http.StatusOK {
				t.Errorf("readyz: %d %s", code, body)
			}
			p.terminate()
			notified(t, said, "STOPPING=1")
		})
	}
}

// adminFile is the settings of a user that may do everything.
func adminFile(t *testing.T, b kafkatest.LockedBroker) string {
	t.Helper()
	dir := t.TempDir()
	password, file := filepath.Join(dir, "password"), filepath.Join(dir, "admin.yaml")
	text := "kafka:\n  brokers: [" + b.Addrs[0] + "]\n" +
		"  sasl: {mechanism: SCRAM-SHA-256, user: " + b.Root.Name + ", password_file: " + password + "}\n"
	for name, text := range map[string]string{password: b.Root.Password, file: text} {
		if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return file
}
