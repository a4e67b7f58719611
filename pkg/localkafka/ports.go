// SPDX-License-Identifier: Apache-2.0

package localkafka

import (
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"sync"
	"syscall"
)

// FreePorts finds ports that nothing listens on, below those that Linux gives to connections: one of those could be
// taken before the broker listens. No other process of this user is given them by FreePorts while this one runs. A
// program of another kind may still take one; the broker then fails to start, and says so.
func FreePorts(n int) ([]int, error) { return freePorts(n, 1) }

// FreePairs finds n such ports of which the next is free as well, for a broker whose controller listens there.
func FreePairs(n int) ([]int, error) { return freePorts(n, 2) }

// freePorts finds n runs of so many ports in a row, and answers the first of each.
func freePorts(n, inRow int) ([]int, error) {
	const lowest, highest = 10_000, 32_000
	var firsts []int
	var failed error
	for tries := 0; len(firsts) < n; tries++ {
		if tries > 100*n {
			return nil, failed
		}
		first := lowest + inRow*rand.IntN((highest-lowest)/inRow)
		if err := takeAll(first, inRow); err != nil {
			failed = err
			continue
		}
		firsts = append(firsts, first)
	}
	return firsts, nil
}

// takeAll reserves ports in a row that nothing listens on.
func takeAll(first, inRow int) error {
	for port := first; port < first+inRow; port++ {
		if !reserved.add(port) {
			return fmt.Errorf("port %d is another cluster's", port)
		}
		l, err := net.Listen("tcp", net.JoinHostPort("127.0.0.1", strconv.Itoa(port)))
		if err != nil {
			return err
		}
		if err := l.Close(); err != nil {
			return err
		}
	}
	return nil
}

// reservations are the ports that a process was given. Two would else be given the same one, as seconds go by before a
// broker listens.
type reservations struct {
	mu    sync.Mutex
	ports map[int]bool
	file  *os.File // has a byte for each port, locked by the process that was given it; nil: there can be none
}

var reserved = reservations{ports: map[int]bool{}}

func (r *reservations) add(port int) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.file == nil {
		name := filepath.Join(os.TempDir(), fmt.Sprintf("berth-ports-%d", os.Getuid()))
		r.file, _ = os.OpenFile(name, os.O_CREATE|os.O_RDWR, 0o600)
	}
	if r.ports[port] {
		return false
	}
	if r.file != nil {
		lock := syscall.Flock_t{Type: syscall.F_WRLCK, Start: int64(port), Len: 1}
		if syscall.FcntlFlock(r.file.Fd(), syscall.F_SETLK, &lock) != nil {
			return false
		}
	}
	r.ports[port] = true
	return true
}
