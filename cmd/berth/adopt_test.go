// SPDX-License-Identifier: Apache-2.0

package main

import (
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"go.uber.org/zap"

	"github.com/berth-project/berth/compute-agent/home"
	"github.com/berth-project/berth/compute-agent/hypervisor"
	"github.com/berth-project/berth/compute-agent/journal"
	"github.com/berth-project/berth/pkg/cell"
	"github.com/berth-project/berth/pkg/compute"
)

// errOpened is a driver that was opened: from there on it may touch machines.
var errOpened = errors.New("the driver was opened")

// begin starts an agent up to where its driver is opened.
func begin(o cell.AgentOptions) error {
	o.Open = func() (hypervisor.Driver, error) { return nil, errOpened }
	_, err := cell.NewAgent(cell.Cell{Log: zap.NewNop()}, o)
	return err
}

// An agent of another name, or with a journal of another time, does not even open
// the driver of a machine folder; one that has only lost its journal does.
func TestAnAgentOnAnothersMachines(t *testing.T) {
	place, state := home.Place{Dir: filepath.Join(t.TempDir(), "machines")}, t.TempDir()
	a := cell.AgentOptions{Host: "a", State: state, Home: place}
	b := cell.AgentOptions{Host: "b", State: state, Home: place}
	for range 2 {
		if err := begin(a); !errors.Is(err, errOpened) {
			t.Fatalf("its own machines: %v", err)
		}
	}
	err := begin(b)
	says := func(words string) bool { return strings.Contains(err.Error(), words) }
	if compute.KindOf(err) != compute.KindInvalid || !says(place.Dir) || !says("berth agent adopt") {
		t.Errorf("renamed: %s, %v", compute.KindOf(err), err)
	}
	lost := a
	lost.State = t.TempDir()
	if err := begin(lost); !errors.Is(err, errOpened) {
		t.Errorf("with a new journal of the same host: %v", err)
	}
	used(t, a)
	if err := begin(a); compute.KindOf(err) != compute.KindInvalid || !strings.Contains(err.Error(), "bring journal") {
		t.Errorf("with the journal from before that one: %s, %v", compute.KindOf(err), err)
	}
	was, err := place.HandOver(home.Owner{Host: "b", Journal: id(t, b)})
	if was.Host != "a" || err != nil {
		t.Fatalf("handed over by %v: %v", was, err)
	}
	if err := begin(b); !errors.Is(err, errOpened) {
		t.Errorf("handed over: %v", err)
	}
	if err := begin(lost); compute.KindOf(err) != compute.KindInvalid {
		t.Errorf("that of before: %s, %v", compute.KindOf(err), err)
	}
}

// The journal of one name goes on under no other: neither where the folder of machines is handed over to it, nor on a
// folder that nobody has marked, nor on one that is the new name's by another journal.
func TestTheJournalStaysWithItsHost(t *testing.T) {
	marks, command := t.TempDir(), []string{"/usr/lib/berth/machines.sh"}
	settings := defaultAgentConfig()
	settings.Host, settings.State = "b", t.TempDir()
	settings.Driver.Kind, settings.Driver.Exec.Marks, settings.Driver.Exec.Command = "exec", marks, command
	a := cell.AgentOptions{Host: "a", State: settings.State, Home: settings.homeOf("a")}
	b := cell.AgentOptions{Host: "b", State: settings.State, Home: settings.homeOf("b")}
	if err := begin(a); !errors.Is(err, errOpened) {
		t.Fatal(err)
	}
	carry := func(from, to compute.HostID) {
		t.Helper()
		if err := os.Rename(cell.JournalFile(a.State, from), cell.JournalFile(a.State, to)); err != nil {
			t.Fatal(err)
		}
	}
	refused := func(what string, err error) {
		t.Helper()
		if compute.KindOf(err) != compute.KindInvalid || !strings.Contains(err.Error(), "set host to a again, or move") {
			t.Errorf("%s: %s, %v", what, compute.KindOf(err), err)
		}
	}
	carry("a", "b") // from before journals noted their host
	refused("handed over", adopt(io.Discard, settings, "b"))
	refused("started", begin(b))
	carry("b", "a")
	used(t, a)
	carry("a", "b")
	refused("handed over when it was used", adopt(io.Discard, settings, "b"))
	unmarked := b
	unmarked.Home = home.Place{Dir: t.TempDir()}
	refused("started on a folder that is nobody's", begin(unmarked))
	carry("b", "a")
	if err := adopt(io.Discard, settings, "b"); err != nil {
		t.Fatalf("with a new journal: %v", err)
	}
	carry("a", "b")
	refused("handed over when the folder is the name's", adopt(io.Discard, settings, "b"))
	carry("b", "a")
	if err := adopt(io.Discard, settings, "a"); err != nil {
		t.Errorf("back to the old name, with its journal: %v", err)
	}
	if err := begin(a); !errors.Is(err, errOpened) {
		t.Errorf("under the old name: %v", err)
	}
}

// The state has user data in it: adopt makes its folder for nobody else, and refuses one that others may write to.
func TestAdoptKeepsTheStateFromOthers(t *testing.T) {
	settings := defaultAgentConfig()
	settings.Host, settings.State = "a", filepath.Join(t.TempDir(), "state")
	settings.Driver.Kind, settings.Driver.QEMU.Dir = "qemu", filepath.Join(t.TempDir(), "machines")
	if err := adopt(io.Discard, settings, "a"); err != nil {
		t.Fatal(err)
	}
	info, err := os.Stat(settings.State)
	if err != nil {
		t.Fatal(err)
	}
	if mode := info.Mode().Perm(); mode&0o066 != 0 {
		t.Errorf("made with mode %04o: others may list it or write to it", mode)
	}
	if err := os.Chmod(settings.State, 0o777); err != nil {
		t.Fatal(err)
	}
	if err := adopt(io.Discard, settings, "a"); compute.KindOf(err) != compute.KindInvalid ||
		!strings.Contains(err.Error(), "chmod") {
		t.Errorf("others may write to it: %s, %v", compute.KindOf(err), err)
	}
}

// An agent does not start on a folder of machines that others may write to, and adopt hands none over; neither leaves
// anything there. What others may only list is taken from them; the users that QEMU runs as still get through.
func TestTheFolderOfMachinesIsTheAgents(t *testing.T) {
	for _, c := range []struct {
		driver, users string
		was, is       os.FileMode // was 0: it is not there; is 0: it is refused
	}{
		{"qemu", "", 0, 0o700},
		{"qemu", "", 0o755, 0o711},
		{"qemu", "", 0o702, 0},
		{"qemu", "900000-900001", 0, 0o711},
		{"qemu", "900000-900001", 0o775, 0},
		{"libvirt", "", 0, 0o711},
		{"libvirt", "", 0o755, 0o711},
		{"libvirt", "", 0o750, 0o710}, // QEMU's user gets through by the group
		{"libvirt", "", 0o770, 0},
	} {
		dir := filepath.Join(t.TempDir(), "machines")
		if c.was != 0 {
			if err := errors.Join(os.Mkdir(dir, 0o700), os.Chmod(dir, c.was)); err != nil {
				t.Fatal(err)
			}
		}
		settings := defaultAgentConfig()
		settings.Host, settings.State, settings.Driver.Kind = "a", t.TempDir(), c.driver
		settings.Driver.QEMU.Dir, settings.Driver.QEMU.Users, settings.Driver.Libvirt.Dir = dir, c.users, dir
		started := begin(cell.AgentOptions{Host: "a", State: settings.State, Home: settings.homeOf("a")})
		for what, err := range map[string]error{"adopt": adopt(io.Discard, settings, "a"), "agent": started} {
			var e *compute.Error
			if c.is != 0 && err != nil && !errors.Is(err, errOpened) {
				t.Errorf("%+v: %s: %v", c, what, err)
			}
			if c.is == 0 && (!errors.As(err, &e) || e.Kind != compute.KindInvalid || e.Value != dir ||
				e.Field != "driver."+c.driver+".dir" || !strings.Contains(e.Error(), "chmod go-w "+dir)) {
				t.Errorf("%+v: %s: %v", c, what, err)
			}
		}
		info, err := os.Stat(dir)
		if err != nil {
			t.Fatal(err)
		}
		if entries, err := os.ReadDir(dir); c.is == 0 && (err != nil || len(entries) > 0) {
			t.Errorf("%+v: %v is there, %v", c, entries, err)
		}
		if is := info.Mode().Perm(); c.is != 0 && is != c.is || c.is == 0 && is != c.was {
			t.Errorf("%+v: it is %s", c, info.Mode())
		}
	}
}

// An agent whose disk of machines is not mounted opens no driver, so that it reports nothing about them, and goes on
// where it was once the disk is there.
func TestAnAgentWithoutItsMachines(t *testing.T) {
	settings := defaultAgentConfig()
	settings.Host, settings.State = "a", t.TempDir()
	settings.Driver.Kind, settings.Driver.QEMU.Dir = "qemu", filepath.Join(t.TempDir(), "machines")
	a := cell.AgentOptions{Host: "a", State: settings.State, Home: settings.homeOf("a")}
	if err := begin(a); !errors.Is(err, errOpened) {
		t.Fatalf("a new host: %v", err)
	}
	const instance = "0198f3a2-0000-7000-8000-000000000001"
	dir, elsewhere := a.Home.Dir, a.Home.Dir+".away"
	if err := os.Mkdir(filepath.Join(dir, instance), 0o700); err != nil {
		t.Fatal(err)
	}
	j := journalOf(t, a)
	put := []journal.Entry{{Instance: instance, Project: "p", Attempt: 1, Claim: "c", Stage: journal.StageGranted}}
	if err := errors.Join(j.Write(journal.Change{Put: put}), j.Close(), os.Rename(dir, elsewhere)); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if err := begin(a); !errors.Is(err, home.ErrAway) {
			t.Fatalf("the folder is not there: %v", err)
		}
	}
	if err := errors.Join(os.RemoveAll(dir), os.Rename(elsewhere, dir)); err != nil {
		t.Fatal(err)
	}
	if err := begin(a); !errors.Is(err, errOpened) {
		t.Errorf("the folder is back: %v", err)
	}
	if err := os.Rename(dir, elsewhere); err != nil {
		t.Fatal(err)
	}
	if err := adopt(io.Discard, settings, "a"); err != nil {
		t.Fatal(err)
	}
	if err := begin(a); !errors.Is(err, errOpened) {
		t.Errorf("they are gone for good: %v", err)
	}
}

// used has a journal know how far its host's stream was read.
func used(t *testing.T, o cell.AgentOptions) {
	t.Helper()
	j := journalOf(t, o)
	defer j.Close()
	position := int64(7)
	if err := j.Write(journal.Change{Position: &position}); err != nil {
		t.Fatal(err)
	}
}

func id(t *testing.T, o cell.AgentOptions) compute.JournalID {
	t.Helper()
	j := journalOf(t, o)
	defer j.Close()
	return j.ID()
}

func journalOf(t *testing.T, o cell.AgentOptions) *journal.Journal {
	t.Helper()
	j, err := journal.Open(cell.JournalFile(o.State, o.Host), journal.Options{NoSync: true, Host: o.Host})
	if err != nil {
		t.Fatal(err)
	}
	return j
}

// While an agent runs, nobody else gets its machines, whatever the host is called
// there and wherever the journal is.
func TestAnAgentHoldsItsMachines(t *testing.T) {
	place := home.Place{Dir: t.TempDir()}
	lock, err := place.Acquire(home.Owner{Host: "a", Journal: "j"}, true, 0)
	if err != nil {
		t.Fatal(err)
	}
	err = begin(cell.AgentOptions{Host: "a", State: t.TempDir(), Home: place})
	if compute.KindOf(err) != compute.KindConflict {
		t.Errorf("a second agent: %s, %v", compute.KindOf(err), err)
	}
	if err := lock.Release(); err != nil {
		t.Fatal(err)
	}
}

// Agents that are given one command have the same machines, whatever else they are given: one of them runs, and the
// machines stay its host's until they are handed over.
func TestAgentsOfOneCommand(t *testing.T) {
	marks := t.TempDir()
	agent := func(host compute.HostID, command ...string) (agentConfig, cell.AgentOptions) {
		s := defaultAgentConfig()
		s.Host, s.State = host, t.TempDir()
		s.Driver.Kind, s.Driver.Exec.Marks, s.Driver.Exec.Command = "exec", marks, command
		return s, cell.AgentOptions{Host: host, State: s.State, Home: s.homeOf(host)}
	}
	_, a := agent("a", "/usr/lib/berth/machines.sh", "/var/lib/metal")
	settings, b := agent("b", "/usr/lib/berth/machines.sh", "/var/lib/metal/")
	_, other := agent("c", "/usr/lib/berth/machines.sh", "/var/lib/metal-2")
	for range 2 {
		if err := begin(a); !errors.Is(err, errOpened) {
			t.Fatalf("its own machines: %v", err)
		}
	}
	refused := func(what string, kind compute.Kind, err error) {
		t.Helper()
		const whose = "machines of /usr/lib/berth/machines.sh /var/lib/metal"
		if compute.KindOf(err) != kind || !strings.Contains(err.Error(), whose) {
			t.Errorf("%s: %s, %v", what, compute.KindOf(err), err)
		}
	}
	refused("another's machines", compute.KindInvalid, begin(b))
	if err := begin(other); !errors.Is(err, errOpened) {
		t.Errorf("the machines of another command: %v", err)
	}
	lock, err := a.Home.Acquire(home.Owner{Host: "a", Journal: id(t, a)}, false, 0)
	if err != nil {
		t.Fatal(err)
	}
	refused("while another runs", compute.KindConflict, begin(b))
	var said strings.Builder
	refused("handed over while one runs", compute.KindConflict, adopt(&said, settings, "b"))
	if err := lock.Release(); err != nil {
		t.Fatal(err)
	}
	if err := adopt(&said, settings, "b"); err != nil || !strings.Contains(said.String(), "and was host a") {
		t.Fatalf("handed over: %q, %v", said.String(), err)
	}
	if err := begin(b); !errors.Is(err, errOpened) {
		t.Errorf("handed over: %v", err)
	}
	refused("that of before", compute.KindInvalid, begin(a))
}

// Without a setting the marks are where every agent of the machine finds them, or of the user if that may not be.
func TestWhereMarksAre(t *testing.T) {
	t.Setenv("XDG_STATE_HOME", "/home/me/state")
	want := "/home/me/state/berth/exec"
	if mayMake(systemMarks) {
		want = systemMarks
	}
	if got := (execConfig{}).marks(); got != want {
		t.Errorf("they are in %s, want %s", got, want)
	}
	dir := t.TempDir()
	for path, want := range map[string]bool{dir: true, filepath.Join(dir, "a/b"): true, "/proc/self/a/b": false,
		"/dev/null/a": false} {
		if may := mayMake(path); may != want {
			t.Errorf("%s may be made: %t", path, may)
		}
	}
}

func TestEveryDriverHasAHome(t *testing.T) {
	for _, kind := range []string{"fake", "qemu", "libvirt", "exec"} {
		s := defaultAgentConfig()
		s.Driver.Kind, s.Driver.Exec.Command = kind, []string{"/usr/lib/berth/machines.sh", "/var/lib/metal"}
		if s.homeOf("h").Dir == "" {
			t.Errorf("%s: nobody knows whose its machines are", kind)
		}
	}
	s := defaultAgentConfig()
	s.Driver.Kind, s.Driver.Exec.Command = "exec", []string{"/a"}
	one := s.homeOf("h")
	if s.Driver.Exec.Command = []string{"/b"}; s.homeOf("h") == one {
		t.Error("two commands have the same machines")
	}
}
