// SPDX-License-Identifier: Apache-2.0

package console

import (
	"sync"

	"github.com/berth-project/berth/compute-agent/hypervisor"
)

// Logs are the consoles of a host's machines, by their folders. They may be used
// by several at once.
type Logs struct {
	Keep int64 // bytes of each

	mu sync.Mutex // held while files are read or cut
}

// Read is Log.Read.
func (l *Logs) Read(dir string, offset int64, limit int) (hypervisor.Part, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return Log{Dir: dir, Keep: l.Keep}.Read(offset, limit)
}

// Trim is Log.Trim.
func (l *Logs) Trim(dir string) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	return Log{Dir: dir, Keep: l.Keep}.Trim()
}
