// SPDX-License-Identifier: Apache-2.0

package cell

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/zap"

	"github.com/berth-project/berth/pkg/kafka/access"
	"github.com/berth-project/berth/pkg/kafkatest"
)

// signedIn is the cell as a user of a locked broker.
func signedIn(t *testing.T, b kafkatest.LockedBroker, u kafkatest.User) Cell {
	t.Helper()
	file := filepath.Join(t.TempDir(), "password")
	if err := os.WriteFile(file, []byte(u.Password), 0o600); err != nil {
		t.Fatal(err)
	}
	k := KafkaSettings{
		Brokers: b.Addrs, Prefix: "c.", Partitions: 2, Replication: 1,
		SASL: SASLSettings{Mechanism: "SCRAM-SHA-256", User: u.Name, PasswordFile: file},
	}
	c, err := New(k, b.Dial, zap.NewNop(), "test").Secured(k)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// A process without its rights waits for them, says which it lacks, asks ever less often, goes on by itself when it is
// given them, and does not ask any more then.
func TestAwaitRights(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		u := kafkatest.User{Name: "u", Password: "pw"}
		b, end := kafkatest.LockedVirtual(t, u)
		defer end()
		asked := b.Asked()
		root, c := signedIn(t, b, b.Root), signedIn(t, b, u).As(access.Conductor)
		if err := root.Prepare(t.Context()); err != nil {
			t.Fatal(err)
		}
		var said []string
		done := make(chan error, 1)
		go func() { done <- c.Await(t.Context(), func(why string) { said = append(said, why) }) }()
		time.Sleep(10 * time.Minute)
		synctest.Wait()
		if n := asked(); n < 20 || n > 60 {
			t.Errorf("asked %d times in ten minutes", n)
		}
		const want = "waiting for rights on Kafka: User:u may not Read topic c.requests, "
		const remedy = "run: berth acl apply --role conductor --principal User:u --prefix c."
		if !strings.HasPrefix(said[0], want) || !strings.Contains(said[0], remedy) {
			t.Errorf("it says %q", said[0])
		}
		needs, err := c.Kafka.As.Needs()
		if err == nil {
			err = root.Allow(t.Context(), "User:u", needs)
		}
		if err != nil {
			t.Fatal(err)
		}
		select {
		case err := <-done:
			if err != nil {
				t.Error(err)
			}
		case <-time.After(2 * askedAgainAfter):
			t.Fatal("it has its rights, and waits")
		}
		n := asked()
		time.Sleep(10 * time.Minute)
		if asked() != n {
			t.Error("it asks for what it has")
		}
	})
}

// A process without a role, as a command, asks for no rights; one that may not make topics says which process may.
func TestAwaitTopicsThatOthersMake(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		u := kafkatest.User{Name: "u", Password: "pw"}
		b, end := kafkatest.LockedVirtual(t, u)
		defer end()
		root, c := signedIn(t, b, b.Root), signedIn(t, b, u).As(access.API)
		needs, err := c.Kafka.As.Needs()
		if err == nil {
			err = root.Allow(t.Context(), "User:u", needs)
		}
		if err != nil {
			t.Fatal(err)
		}
		said := make(chan string, 1000)
		done := make(chan error, 1)
		go func() { done <- c.Await(t.Context(), func(why string) { said <- why }) }()
		why := <-said
		if !strings.Contains(why, "User:u may not Create topic c.") || !strings.Contains(why, "start a queue manager") {
			t.Error(why)
		}
		if err := root.Await(t.Context(), func(why string) { t.Error(why) }); err != nil {
			t.Error(err)
		}
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
}

// An API node needs the tokens where callers sign in with them, and not before: its rights are older, perhaps.
func TestRightsOfWhatIsSwitchedOff(t *testing.T) {
	c := New(KafkaSettings{Prefix: "c."}, nil, zap.NewNop(), "test").As(access.API)
	tokens := func() bool {
		needs, err := c.needs()
		if err != nil || len(needs) < 5 {
			t.Fatal(needs, err)
		}
		return slices.ContainsFunc(needs, func(r access.Right) bool { return r.Name == c.Topics().Tokens() })
	}
	if tokens() {
		t.Error("without tokens it needs their topic")
	}
	if c.Tokens = true; !tokens() {
		t.Error("with tokens it does not need their topic")
	}
}

// An API node of a cell where it was never given READ on the audit goes on, and shows none.
func TestReadingTheAuditIsNotWaitedFor(t *testing.T) {
	c := New(KafkaSettings{Prefix: "c."}, nil, zap.NewNop(), "test").As(access.API)
	c.Audit = true
	needs, err := c.needs()
	i := slices.IndexFunc(needs, func(r access.Right) bool { return r.Name == c.Topics().Audit() })
	if err != nil || i < 0 || !slices.Equal(needs[i].Operations, []access.Operation{access.Write}) {
		t.Errorf("%v, %v", needs, err)
	}
}
