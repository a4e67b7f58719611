// SPDX-License-Identifier: Apache-2.0

package qemu

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"syscall"

	"github.com/berth-project/berth/compute-agent/hypervisor"
	"github.com/berth-project/berth/compute-agent/hypervisor/console"
	"github.com/berth-project/berth/compute-agent/hypervisor/prepare"
	"github.com/berth-project/berth/pkg/compute"
)

// users is a range of user ids of which each machine has one to itself: a QEMU that its
// guest has broken out of may then touch that machine's files, and nobody else's. The
// zero value is no range: machines run as the agent's user.
type users struct{ first, last int }

var usersPattern = regexp.MustCompile(`^([0-9]{1,9})-([0-9]{1,9})$`)

// usersOf is what a setting says: "900000-900999".
func usersOf(text string) (users, error) {
	if text == "" {
		return users{}, nil
	}
	m := usersPattern.FindStringSubmatch(text)
	if m == nil {
		return users{}, errors.New("not a range")
	}
	first, _ := strconv.Atoi(m[1])
	last, _ := strconv.Atoi(m[2])
	if first < leastUser || last < first {
		return users{}, errors.New("not a range of users")
	}
	return users{first, last}, nil
}

// leastUser spares what the distribution's own programs run as.
const leastUser = 1000

func (u users) none() bool { return u == users{} }

func (u users) has(user int) bool { return !u.none() && u.first <= user && user <= u.last }

// free is the first of the range that no machine has.
func (u users) free(taken map[int]bool) (int, error) {
	for id := u.first; id <= u.last; id++ {
		if !taken[id] {
			return id, nil
		}
	}
	return 0, hypervisor.Refuse("users %d-%d: all %d are taken by machines or processes of this host: widen the "+
		"range in driver.qemu.users", u.first, u.last, u.last-u.first+1)
}

// born makes a machine's folder with its record, and gives it a user of its own if
// the host has some. No two are chosen at the same time.
func (d *Driver) born(r *record) error {
	if d.users.none() {
		return d.create(*r)
	}
	d.choosing.Lock()
	defer d.choosing.Unlock()
	ids, err := d.instances()
	if err != nil {
		return err
	}
	taken := map[int]bool{}
	for _, id := range ids {
		other, there, err := d.load(id)
		if err != nil {
			return err
		}
		if there {
			taken[other.Plan.User] = true
		}
	}
	if r.Plan.User, err = d.unused(taken); err != nil {
		return err
	}
	return d.create(*r)
}

// unused is the first user of the range that no machine has, and that runs nothing either: what another agent or a
// machine that was removed by hand has left could reach the new one's files.
func (d *Driver) unused(taken map[int]bool) (int, error) {
	for {
		user, err := d.users.free(taken)
		if err != nil {
			return 0, err
		}
		if left, err := d.host.ProcessesOf(user); err != nil || len(left) == 0 {
			return user, err
		}
		taken[user] = true
	}
}

// give lets a machine's user at what it needs of the folder, and at nothing else: it
// may look names up there, but make and remove none.
func (p plan) give(dir string) error {
	if p.User == 0 {
		return nil
	}
	err := errors.Join(os.Chown(dir, -1, p.User), os.Chmod(dir, 0o710)) // #nosec G302 -- to go through, by p.User
	for _, name := range []string{prepare.DiskFile, prepare.SeedFile, console.File, pidFile} {
		file := filepath.Join(dir, name)
		if name == console.File || name == pidFile { // which QEMU would make
			f, made := os.OpenFile(file, os.O_CREATE|os.O_RDWR, 0o600)
			if made == nil {
				made = f.Close()
			}
			err = errors.Join(err, made)
		}
		if chowned := os.Chown(file, p.User, p.User); !errors.Is(chowned, fs.ErrNotExist) {
			err = errors.Join(err, chowned)
		}
	}
	return err
}

// as is the user that a machine's process runs as; nil: the agent's.
func (p plan) as() *syscall.Credential {
	if p.User == 0 {
		return nil
	}
	return credential(p.User)
}

// credential is a user with its own group, and with that of KVM's device, if it has
// one.
func credential(user int) *syscall.Credential {
	c := &syscall.Credential{Uid: uint32(user), Gid: uint32(user)}
	var kvm syscall.Stat_t
	if syscall.Stat("/dev/kvm", &kvm) == nil && kvm.Gid != 0 && kvm.Mode&0o060 == 0o060 {
		c.Groups = []uint32{kvm.Gid}
	}
	return c
}

// usable refuses a range that this agent could not use, with how to mend it.
func (u users) usable(dirs map[string]string) error {
	if u.none() {
		return nil
	}
	if os.Geteuid() != 0 {
		return compute.Invalid("users", fmt.Sprintf("%d-%d", u.first, u.last),
			"run the agent as root, which alone can start programs as another user, or leave this empty")
	}
	var errs []error
	if who := u.shared("/etc/passwd", "/etc/subuid"); who != "" {
		errs = append(errs, compute.Invalid("users", fmt.Sprintf("%d-%d", u.first, u.last),
			who+": choose a range that nobody has, for all that a machine's user runs ends with the machine"))
	}
	for field, dir := range dirs {
		for at := dir; at != "/" && at != "."; at = filepath.Dir(at) {
			info, err := os.Stat(at)
			if err == nil && info.Mode()&0o001 == 0 {
				errs = append(errs, compute.Invalid(field, dir,
					"with users, others have to get through "+at+": chmod o+x "+at))
			}
		}
	}
	return errors.Join(errs...)
}

// shared names what else has some of the range: a user of the host, or one that has such ids for containers. A file
// that cannot be read says nothing.
func (u users) shared(passwd, subuid string) string {
	for file, columns := range map[string][2]int{passwd: {2, -1}, subuid: {1, 2}} {
		text, _ := os.ReadFile(file)
		for line := range strings.Lines(string(text)) {
			fields := strings.Split(strings.TrimSpace(line), ":")
			if len(fields) < 3 {
				continue
			}
			first, err := strconv.Atoi(fields[columns[0]])
			count := 1
			if columns[1] > 0 && err == nil {
				count, err = strconv.Atoi(fields[columns[1]])
			}
			if err == nil && first <= u.last && u.first < first+count {
				return fmt.Sprintf("%s has some of them by %s", fields[0], file)
			}
		}
	}
	return ""
}

// warnings say what a guest that breaks out of QEMU reaches, where the agent runs as this user.
func (u users) warnings(agent int) []string {
	switch {
	case !u.none():
		return nil
	case agent == 0:
		return []string{"machines run as root: a guest that breaks out of QEMU is root on this host; " +
			"give driver.qemu.users a range of users, or run the agent as another user"}
	}
	return []string{"all machines run as the agent's user: a guest that breaks out of QEMU reaches the disks of all; " +
		"give driver.qemu.users a range of users, for which the agent has to be root"}
}

// before warns of machines that were made before machines had users: those keep the agent's.
func (u users) before(userless int64, agent int) []string {
	if u.none() || userless == 0 {
		return nil
	}
	as := "the agent's user"
	if agent == 0 {
		as = "root"
	}
	return []string{fmt.Sprintf("machines that were made before driver.qemu.users was set run as %s: %d of them; "+
		"boot others in their place, and delete them", as, userless)}
}

// unlimited warns where one machine can take what all have.
func unlimited(memoryMB int64) []string {
	if memoryMB > 0 {
		return nil
	}
	return []string{"no cgroup limits the memory that machines have together: a QEMU that grows takes the host's; " +
		"give the agent's unit a MemoryMax= that leaves the host enough (systemctl edit berth-agent)"}
}

func (d *Driver) whom() string {
	switch {
	case !d.users.none():
		return fmt.Sprintf("users %d-%d", d.users.first, d.users.last)
	case os.Geteuid() == 0:
		return "as root"
	}
	return "as user " + strconv.Itoa(os.Geteuid())
}
