// SPDX-License-Identifier: Apache-2.0

package fake

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"sync"

	"github.com/berth-project/berth/compute-agent/hypervisor"
	"github.com/berth-project/berth/pkg/compute"
)

// machines is what one host has.
type machines map[compute.InstanceID]machine

// machine is one of them with what it has printed.
type machine struct {
	hypervisor.Machine
	In      compute.InPlaceholder `json:",omitzero"`  // whose room it has
	Dropped int64                 `json:",omitempty"` // how much of the beginning is gone
	Printed string                `json:",omitempty"`
}

// store keeps a world. Each host has one writer; events have many.
type store interface {
	load(compute.HostID) (machines, error)
	save(compute.HostID, machines) error
	append(Event) error
	events() ([]Event, error)
	home() string // the folder; empty: memory
}

// memory keeps a world for the life of the process. Its hosts are kept by the
// World itself, so there is nothing to load.
type memory struct {
	mu  sync.Mutex
	log []Event
}

func (m *memory) load(compute.HostID) (machines, error) { return machines{}, nil }
func (m *memory) save(compute.HostID, machines) error   { return nil }
func (m *memory) home() string                          { return "" }
func (m *memory) append(e Event) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.log = append(m.log, e)
	return nil
}

func (m *memory) events() ([]Event, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return slices.Clone(m.log), nil
}

// folder keeps a world in files: <host>.json for its machines, replaced whole,
// and events.jsonl, appended a line at a time.
type folder struct {
	dir string
	mu  sync.Mutex
	log *os.File
}

func (f *folder) home() string { return f.dir }

func openFolder(dir string) (*folder, error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, err
	}
	return &folder{dir: dir}, nil
}

func (f *folder) load(h compute.HostID) (machines, error) {
	b, err := os.ReadFile(f.file(h))
	if errors.Is(err, fs.ErrNotExist) {
		return machines{}, nil
	}
	if err != nil {
		return nil, err
	}
	m := machines{}
	if err := json.Unmarshal(b, &m); err != nil {
		return nil, fmt.Errorf("%s: %w", f.file(h), err)
	}
	return m, nil
}

func (f *folder) save(h compute.HostID, m machines) error {
	b, err := json.Marshal(m)
	if err != nil {
		return err
	}
	next := f.file(h) + ".next"
	if err := os.WriteFile(next, b, 0o600); err != nil {
		return err
	}
	return os.Rename(next, f.file(h))
}

func (f *folder) file(h compute.HostID) string { return filepath.Join(f.dir, string(h)+".json") }

// append writes one line in one call, so that lines of several processes do
// not mix.
func (f *folder) append(e Event) error {
	b, err := json.Marshal(e)
	if err != nil {
		return err
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.log == nil {
		if f.log, err = os.OpenFile(f.eventsFile(), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600); err != nil {
			return err
		}
	}
	_, err = f.log.Write(append(b, '\n'))
	return err
}

func (f *folder) eventsFile() string { return filepath.Join(f.dir, "events.jsonl") }

func (f *folder) events() ([]Event, error) {
	b, err := os.ReadFile(f.eventsFile())
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	var out []Event
	lines := bufio.NewScanner(bytes.NewReader(b))
	for lines.Scan() {
		var e Event
		if err := json.Unmarshal(lines.Bytes(), &e); err != nil {
			return nil, fmt.Errorf("%s: %w", f.eventsFile(), err)
		}
		out = append(out, e)
	}
	return out, lines.Err()
}
