// SPDX-License-Identifier: Apache-2.0

package placeholder

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"go.uber.org/zap"

	"github.com/berth-project/berth/compute-agent/hypervisor"
	"github.com/berth-project/berth/pkg/compute"
)

// notes are the files: one for each placeholder, named by its instance. Each is written beside its place, synced and
// then moved there, so that there is no half of one.
type notes struct {
	folder string
	log    *zap.Logger
	mu     sync.Mutex // held to write or remove one, and to read one: what is found damaged is moved away, and nothing else
}

// note is what a file says.
type note struct {
	Version   int                  `json:"v"`
	Instance  compute.InstanceID   `json:"instance"`
	Project   compute.Project      `json:"project"`
	Attempt   compute.Attempt      `json:"attempt"`
	Claim     compute.ClaimID      `json:"claim"`
	Fence     compute.FenceEpoch   `json:"fence,omitempty"`
	Resources compute.Resources    `json:"resources"`
	Devices   []compute.PCIAddress `json:"devices,omitempty"`
	Nodes     []int                `json:"nodes,omitempty"`
	Held      bool                 `json:"held"` // else it is prepared
}

const (
	noteVersion = 1
	ending      = ".placeholder"
	unfinished  = ".new"
)

func openNotes(folder string, log *zap.Logger) (*notes, error) {
	n := &notes{folder: folder, log: log}
	if err := os.MkdirAll(folder, 0o700); err != nil {
		return n, n.failed("make", err)
	}
	left, err := filepath.Glob(filepath.Join(folder, "*"+unfinished))
	for _, file := range left {
		err = errors.Join(err, os.Remove(file))
	}
	if err != nil {
		return n, n.failed("clear", err)
	}
	return n, nil
}

func (n *notes) file(id compute.InstanceID) string { return filepath.Join(n.folder, string(id)+ending) }

// read is the placeholder of an instance, if there is one.
func (n *notes) read(id compute.InstanceID) (m hypervisor.Machine, there bool, err error) {
	if id.Check() != nil {
		return m, false, nil // nothing is written under such a name
	}
	m, err = n.readFile(n.file(id))
	if errors.Is(err, fs.ErrNotExist) {
		return m, false, nil
	}
	return m, err == nil, err
}

func (n *notes) readFile(file string) (hypervisor.Machine, error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	b, err := os.ReadFile(file)
	if err != nil {
		return hypervisor.Machine{}, n.failed("read", err)
	}
	var x note
	err = json.Unmarshal(b, &x)
	switch {
	case err == nil && x.Version > noteVersion:
		return hypervisor.Machine{}, n.failed("read "+filepath.Base(file)+" in", fmt.Errorf(
			"it is of version %d: run the agent that wrote it", x.Version,
		))
	case err == nil && string(x.Instance)+ending != filepath.Base(file):
		err = fmt.Errorf("it is of instance %q", x.Instance)
	}
	if err != nil {
		return hypervisor.Machine{}, n.setAside(file, err)
	}
	return x.machine(), nil
}

// setAside keeps a damaged file under another name: it says of no room that it is held, and the conductor, which knows
// what was held here, has it held elsewhere. The answer is that there is none, if that could be done.
func (n *notes) setAside(file string, why error) error {
	aside := file + ".damaged-" + time.Now().UTC().Format("20060102T150405.000000000")
	if err := os.Rename(file, aside); err != nil {
		return n.failed("set aside "+filepath.Base(file)+" in", errors.Join(err, why))
	}
	n.log.Warn("a placeholder is damaged, and not held here any more", zap.String("kept", aside), zap.Error(why))
	return fs.ErrNotExist
}

// machine is what is held, as drivers list it.
func (x note) machine() hypervisor.Machine {
	m := hypervisor.Machine{
		Instance: x.Instance, Project: x.Project, Attempt: x.Attempt, Claim: x.Claim, Fence: x.Fence,
		Resources: x.Resources, Place: compute.Place{Devices: x.Devices, Nodes: x.Nodes}, Launched: x.Held,
		Placeholder: true, Verdict: hypervisor.Stopped("", ""),
	}
	if x.Held {
		m.Verdict = hypervisor.Running("a placeholder: it holds room")
	}
	return m
}

func (n *notes) list() (out []hypervisor.Machine, err error) {
	entries, err := os.ReadDir(n.folder)
	if err != nil {
		return nil, n.failed("list", err)
	}
	for _, e := range entries {
		if !strings.HasSuffix(e.Name(), ending) {
			continue
		}
		m, err := n.readFile(filepath.Join(n.folder, e.Name()))
		switch {
		case errors.Is(err, fs.ErrNotExist): // it was removed since
		case err != nil:
			return nil, err
		default:
			out = append(out, m)
		}
	}
	return out, nil
}

// write is durable when it returns nil.
func (n *notes) write(m hypervisor.Machine) error {
	b, err := json.Marshal(note{
		Version: noteVersion, Instance: m.Instance, Project: m.Project, Attempt: m.Attempt, Claim: m.Claim, Fence: m.Fence,
		Resources: m.Resources, Devices: m.Devices, Nodes: m.Nodes, Held: m.Launched,
	})
	if err != nil {
		return n.failed("write", err)
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	part := n.file(m.Instance) + unfinished
	err = writeSynced(part, b)
	if err == nil {
		err = os.Rename(part, n.file(m.Instance))
	}
	if err != nil {
		return n.failed("write", errors.Join(err, removeIfThere(part)))
	}
	return n.sync()
}

func writeSynced(file string, b []byte) error {
	f, err := os.OpenFile(file, os.O_CREATE|os.O_WRONLY|os.O_TRUNC, 0o600)
	if err != nil {
		return err
	}
	_, err = f.Write(b)
	return errors.Join(err, f.Sync(), f.Close())
}

func removeIfThere(file string) error {
	if err := os.Remove(file); !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}

// remove says whether there was one.
func (n *notes) remove(id compute.InstanceID) (bool, error) {
	if id.Check() != nil {
		return false, nil
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	switch err := os.Remove(n.file(id)); {
	case errors.Is(err, fs.ErrNotExist):
		return false, nil
	case err != nil:
		return false, n.failed("remove", err)
	}
	return true, n.sync()
}

// sync has the folder be as it is after a loss of power, too.
func (n *notes) sync() error {
	f, err := os.Open(n.folder)
	if err != nil {
		return n.failed("sync", err)
	}
	if err := errors.Join(f.Sync(), f.Close()); err != nil {
		return n.failed("sync", err)
	}
	return nil
}

func (n *notes) failed(what string, err error) error {
	return &hypervisor.Error{
		Class:   compute.FailureHost,
		Message: fmt.Sprintf("cannot %s the folder of placeholders %s", what, n.folder), Cause: err,
	}
}
