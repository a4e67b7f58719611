// SPDX-License-Identifier: Apache-2.0

package bench

import (
	"errors"
	"os"
	"path/filepath"
	"runtime"
	"runtime/pprof"
	"time"
)

// blockRate is from how long on a wait is surely in the profile of waits; of
// shorter ones, some are.
const blockRate = 100 * time.Microsecond

// profile writes into a folder, until stop is called, where the processor's time
// goes (cpu.pprof), and then what was allocated since the process began and is in
// use (heap.pprof), and what goroutines waited for (block.pprof).
func profile(dir string) (stop func() error, err error) {
	if dir == "" {
		return func() error { return nil }, nil
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, err
	}
	f, err := os.Create(filepath.Join(dir, "cpu.pprof"))
	if err != nil {
		return nil, err
	}
	if err := pprof.StartCPUProfile(f); err != nil {
		return nil, errors.Join(err, f.Close())
	}
	runtime.SetBlockProfileRate(int(blockRate))
	return func() error {
		pprof.StopCPUProfile()
		err := errors.Join(f.Close(), write(dir, "block"))
		runtime.SetBlockProfileRate(0)
		runtime.GC() // the heap's is of the last collection
		return errors.Join(err, write(dir, "heap"))
	}, nil
}

func write(dir, name string) error {
	f, err := os.Create(filepath.Join(dir, name+".pprof"))
	if err != nil {
		return err
	}
	return errors.Join(pprof.Lookup(name).WriteTo(f, 0), f.Close())
}
