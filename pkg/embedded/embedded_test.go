package embedded

import (
	"strings"
	"testing"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
)

// A folder is of one broker at a time, and what is in it outlives the broker.
func TestDataDir(t *testing.T) {
	dir := t.TempDir() + "/made/by/it"
	first := start(t, dir)
	admin := adminOf(t, first)
	if _, err := admin.CreateTopic(t.Context(), 3, 1, nil, "kept"); err != nil {
		t.Fatal(err)
	}
	if b, err := Start(Options{DataDir: dir}); err == nil {
		b.Close()
		t.Fatal("two brokers in one folder")
	} else if !strings.Contains(err.Error(), dir+" is in use by another process") {
		t.Error(err)
	}
	first.Close()
	first.Close()
	topics, err := adminOf(t, start(t, dir)).ListTopics(t.Context())
	if err != nil || len(topics["kept"].Partitions) != 3 {
		t.Errorf("after a restart there is %v (%v)", topics, err)
	}
}

func start(t *testing.T, dir string) *Broker {
	t.Helper()
	b, err := Start(Options{DataDir: dir})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(b.Close)
	return b
}

func adminOf(t *testing.T, b *Broker) *kadm.Client {
	t.Helper()
	client, err := kgo.NewClient(kgo.SeedBrokers(b.Addrs()...))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(client.Close)
	if err := client.Ping(t.Context()); err != nil {
		t.Fatal(err)
	}
	return kadm.NewClient(client)
}
