// SPDX-License-Identifier: Apache-2.0

package cell

import (
	"path/filepath"
	"testing"

	"go.uber.org/zap"

	"github.com/berth-project/berth/compute-agent/home"
	"github.com/berth-project/berth/compute-agent/journal"
)

// The first agent of a folder is nobody's heir. One with a new journal is, and stays it when it is started again before
// anything was said to it: the mark has its own journal then.
func TestWhoIsAnHeir(t *testing.T) {
	dir := t.TempDir()
	c := New(DefaultKafka(), nil, zap.NewNop(), "agent")
	starts := func(file string, want bool, why string, uses func(*journal.Journal) error) {
		t.Helper()
		j, err := journal.Open(filepath.Join(dir, file), journal.Options{Host: "h1"})
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = j.Close() }() // nothing is lost
		machines := home.Place{Dir: filepath.Join(dir, "machines")}
		lock, heir, err := takeHome(c, j, AgentOptions{Host: "h1", Home: machines})
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = lock.Release() }() // of an empty file
		if heir != want {
			t.Errorf("%s: an heir: %t", why, heir)
		}
		if uses == nil {
			return
		}
		if err := uses(j); err != nil {
			t.Fatal(err)
		}
	}
	told := func(j *journal.Journal) error {
		at := int64(1)
		return j.Write(journal.Change{Position: &at})
	}
	starts("first", false, "the first", nil)
	starts("second", true, "another journal", nil)
	starts("second", true, "it again, to which nothing was said", told)
	starts("second", false, "it again, to which something was", nil)
}
