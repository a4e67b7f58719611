// SPDX-License-Identifier: Apache-2.0

package bench

import (
	"fmt"
	"strings"
	"syscall"

	"github.com/berth-project/berth/pkg/compute"
)

const (
	// filesOfAgent are what one agent has open at each broker, its journal
	// included. Up to 8.5 were seen with one broker while a thousand hosts began with
	// a thousand queues.
	filesOfAgent = 9
	// filesOfRest are what everything else has open.
	filesOfRest = 500
)

// raiseFiles lets this process open as many files as it may, and refuses a run
// that would need more.
func raiseFiles(o Options) (uint64, error) {
	var limit syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &limit); err != nil {
		return 0, fmt.Errorf("find out how many files may be open: %w", err)
	}
	if limit.Cur < limit.Max {
		limit.Cur = limit.Max
		if err := syscall.Setrlimit(syscall.RLIMIT_NOFILE, &limit); err != nil {
			return 0, fmt.Errorf("raise how many files may be open to %d: %w", limit.Max, err)
		}
	}
	return limit.Cur, enoughFiles(o, limit.Cur)
}

func enoughFiles(o Options, limit uint64) error {
	each := filesOfAgent * max(1, o.Replication, 1+strings.Count(o.Kafka, ","))
	hosts := o.Hosts
	switch {
	case o.Apart && o.Kafka != "":
		hosts = min(hosts, o.HostsEach)
	case !o.Apart && o.Kafka == "":
		each *= 2 // both ends of every connection are in this process
	}
	if needs := uint64(hosts*each + filesOfRest); needs > limit {
		return &compute.Error{
			Kind: compute.KindInvalid, Field: "hosts", Value: fmt.Sprint(o.Hosts),
			Message: fmt.Sprintf("needs about %d open files, and a process may open %d", needs, limit),
			Remedy: fmt.Sprintf(
				"raise the hard limit (ulimit -Hn), or give at most --hosts %d",
				(int(limit)-filesOfRest)/each,
			),
		}
	}
	return nil
}

// fileSystem says what kind of file system a folder is on: whether a sync costs
// anything depends on it.
func fileSystem(dir string) string {
	var s syscall.Statfs_t
	if err := syscall.Statfs(dir, &s); err != nil {
		return "unknown"
	}
	switch uint32(s.Type) {
	case 0xef53:
		return "ext4"
	case 0x58465342:
		return "xfs"
	case 0x9123683e:
		return "btrfs"
	case 0x01021994:
		return "tmpfs"
	case 0x794c7630:
		return "overlayfs"
	case 0x6969:
		return "nfs"
	}
	return fmt.Sprintf("%#x", uint32(s.Type))
}
