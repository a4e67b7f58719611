// SPDX-License-Identifier: Apache-2.0

package sim

import (
	"os"
	"path/filepath"
	"slices"

	"github.com/berth-project/berth/compute-agent/journal"
	"github.com/berth-project/berth/pkg/compute"
)

// beforeGrant is the journal of a host as it was last before an instance was granted there, and best of all when that was
// claimed already; nil: it was never being built, in this life.
func (p *process) beforeGrant(id compute.InstanceID) (found []byte) {
	l := p.current()
	if l == nil {
		return nil
	}
	l.mu.Lock()
	all := l.all
	l.mu.Unlock()
	for _, b := range slices.Backward(all) {
		switch p.entries(b)[id].Stage {
		case journal.StageClaimed:
			return b
		case journal.StageTaken:
			if found == nil {
				found = b
			}
		}
	}
	return found
}

// entries are what a journal says.
func (p *process) entries(b []byte) map[compute.InstanceID]journal.Entry {
	file := filepath.Join(p.play.dir, p.name+".restored")
	p.play.must(os.WriteFile(file, b, 0o600))
	j, err := journal.Open(file, journal.Options{NoSync: true})
	p.play.must(err)
	state, err := j.Read()
	p.play.must(err)
	p.play.must(j.Close())
	p.play.must(os.Remove(file))
	return state.Entries
}
