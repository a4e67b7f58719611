// SPDX-License-Identifier: Apache-2.0

package exec

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/berth-project/berth/compute-agent/hypervisor"
	"github.com/berth-project/berth/pkg/compute"
)

const one = compute.InstanceID("00000000-0000-4000-8000-000000000001")

// says is a driver with a command that runs this text for the verb, and does well with the others.
func says(t *testing.T, verb, text string) *Driver {
	t.Helper()
	d, err := open(t.Context(), Options{Command: []string{script(t, `#!/bin/sh
case $1 in
`+verb+`) `+text+` ;;
capabilities) echo '{"version":1}' ;;
list) echo '{"version":1,"machines":[]}' ;;
esac
`)}, Timeout: time.Minute})
	if err != nil {
		t.Fatal(err)
	}
	return d
}

// wrong wants an error of that class that says all of this.
func wrong(t *testing.T, err error, class compute.FailureClass, all ...string) {
	t.Helper()
	var e *hypervisor.Error
	if !errors.As(err, &e) || e.Class != class {
		t.Errorf("%v has not the class %s", err, class)
		return
	}
	for _, part := range all {
		if !strings.Contains(err.Error(), part) {
			t.Errorf("%q is not in %q", part, err)
		}
	}
	if len(err.Error()) > 4<<10 || strings.ContainsAny(err.Error(), "\x1b\n\x00") {
		t.Errorf("%d bytes, which begin with %.300q", len(err.Error()), err)
	}
}

func TestWhatACommandMayDoWrong(t *testing.T) {
	for name, c := range map[string]struct {
		text  string
		class compute.FailureClass
		says  []string
	}{
		"garbage":         {`echo hello`, compute.FailureHost, []string{`"hello\n"`, "nothing else"}},
		"nothing":         {`:`, compute.FailureHost, []string{`""`}},
		"half":            {`echo '{"version":1,"totals":{"VC'`, compute.FailureHost, []string{"JSON"}},
		"two documents":   {`echo '{"version":1}'; echo '{}'`, compute.FailureHost, []string{"after top-level"}},
		"another version": {`echo '{"version":2}'`, compute.FailureHost, []string{`"version" is 2`}},
		"no end":          {`yes`, compute.FailureHost, []string{"more than 4194304 bytes"}},
		"no end of errors": {
			`yes oops | head -c 9000000 >&2; exit 3`, compute.FailureHost, []string{"exit status 3", "oops / oops"},
		},
		"terminal codes": {`printf '\033[2J\000\377bad\n' >&2; exit 1`, compute.FailureHost, []string{"bad"}},
		"a signal":       {`kill -s KILL $$`, compute.FailureHost, []string{"signal", "killed"}},
		"the request": {
			`echo no such image >&2; exit 65`, compute.FailureRequest, []string{"it said: no such image"},
		},
		"its own patience": {`exit 124`, compute.FailureTimeout, nil},
		"no totals":        {`echo '{"version":1}'`, compute.FailureHost, []string{`"totals"`}},
		"negative": {
			`echo '{"version":1,"totals":{"VCPU":-1}}'`, compute.FailureHost, []string{`"totals" has -1 of VCPU`},
		},
		"unknown class": {
			`echo '{"version":1,"totals":{"CPU":1}}'`, compute.FailureHost, []string{`"CPU"`, "CUSTOM_"},
		},
		"bad trait": {
			`echo '{"version":1,"totals":{"VCPU":1},"traits":["a"]}'`, compute.FailureHost, []string{`trait "a"`},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			d := says(t, "inventory", c.text)
			_, err := d.Inventory(t.Context())
			wrong(t, err, c.class, append(c.says, d.o.Command[0]+" inventory")...)
		})
	}
}

func TestListIsChecked(t *testing.T) {
	machine := `{"version":1,"instance":"` + string(one) +
		`","project":"p","attempt":1,"claim":"c","resources":{"VCPU":1}}`
	for name, c := range map[string][2]string{
		"no machines": {`{"version":1}`, `"machines" is missing`},
		"no metadata": {`{"version":1,"machines":[{"state":"prepared"}]}`, "first line that prepare has read"},
		"other shape": {
			`{"version":1,"machines":[{"machine":[],"state":"prepared"}]}`, "first line that prepare has read",
		},
		"no claim": {
			`{"version":1,"machines":[{"machine":` + strings.Replace(machine, `"c"`, `""`, 1) +
				`,"state":"prepared"}]}`,
			"first line that prepare has read",
		},
		"bad id": {
			`{"version":1,"machines":[{"machine":` + strings.Replace(machine, "8000", "x", 1) +
				`,"state":"prepared"}]}`,
			"first line that prepare has read",
		},
		"no state": {`{"version":1,"machines":[{"machine":` + machine + `}]}`, `"state"`},
		"no power": {`{"version":1,"machines":[{"machine":` + machine + `,"state":"launched"}]}`, `"power"`},
		"unknown power": {
			`{"version":1,"machines":[{"machine":` + machine + `,"state":"launched","power":"on"}]}`, `"on"`,
		},
		"twice": {`{"version":1,"machines":[{"machine":` + machine + `,"state":"prepared"},` +
			`{"machine":` + machine + `,"state":"prepared"}]}`, "twice"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, err := says(t, "list", "echo '"+c[0]+"'").List(t.Context())
			wrong(t, err, compute.FailureHost, c[1], " list ")
		})
	}
}

// An image that this host lacks, or cannot use, counts against that image alone, and only prepare has one.
func TestFaultOfAnImage(t *testing.T) {
	spec := hypervisor.Spec{Instance: one, Project: "p", Attempt: 1, Claim: "c", Resources: some}
	for status, ofImage := range map[string]bool{"66": true, "1": false} {
		err := says(t, "prepare", `echo no such copy >&2; exit `+status).Prepare(t.Context(), spec)
		wrong(t, err, compute.FailureHost, "prepare", "it said: no such copy")
		if hypervisor.OfImage(err) != ofImage {
			t.Errorf("exit status %s: %v", status, err)
		}
	}
	_, err := says(t, "list", `exit 66`).List(t.Context())
	wrong(t, err, compute.FailureHost, "exit status 66")
	if hypervisor.OfImage(err) {
		t.Errorf("list has no image: %v", err)
	}
}

// A command that exits with 0 is not believed.
func TestLiesAreFound(t *testing.T) {
	spec := hypervisor.Spec{Instance: one, Project: "p", Attempt: 1, Claim: "c", Resources: some}
	wrong(t, says(t, "prepare", ":").Prepare(t.Context(), spec), compute.FailureHost, "prepare", "list does not give")
	machine := `{"version":1,"instance":"` + string(one) +
		`","project":"p","attempt":1,"claim":"c","resources":{"VCPU":1}}`
	always := func(state string) *Driver {
		return says(
			t, "list",
			`echo '{"version":1,"machines":[{"machine":`+machine+`,"state":"`+state+`","power":"running"}]}'`,
		)
	}
	wrong(t, always("prepared").Launch(t.Context(), one, 1, "c"), compute.FailureHost, "launch", "list does not give")
	wrong(t, always("launched").Stop(t.Context(), one, 0), compute.FailureHost, "stop", "list does not give")
	wrong(t, always("launched").Destroy(t.Context(), one), compute.FailureHost, "destroy", "list still gives")
}

// A call that takes too long takes all its processes along.
func TestAHangIsKilled(t *testing.T) {
	dir := t.TempDir()
	d := says(t, "inventory", `echo $$ >`+dir+`/all; sleep 1000 & echo $! >>`+dir+`/all; `+
		`mkfifo `+dir+`/no; echo waits >&2; read x <`+dir+`/no`)
	b := &bench{t: t}
	dead := func() {
		t.Helper()
		b.gone(filepath.Join(dir, "all"))
		b.ok(os.Remove(filepath.Join(dir, "no")))
		b.ok(os.Remove(filepath.Join(dir, "all")))
	}
	begun := func() bool { _, err := os.Stat(filepath.Join(dir, "no")); return err == nil }

	ctx, cancel := context.WithCancel(t.Context())
	answer := make(chan error, 1)
	go func() { _, err := d.Inventory(ctx); answer <- err }()
	b.await("the call", begun)
	cancel()
	if err := <-answer; !errors.Is(err, context.Canceled) || !strings.Contains(err.Error(), "inventory") {
		t.Errorf("broken off, it answers %v", err)
	}
	dead()

	for within := 2 * time.Second; ; within *= 2 { // so long as five programs take to start
		d.o.Timeout = within
		if _, err := d.Inventory(t.Context()); within > time.Minute || strings.Contains(fmt.Sprint(err), "it said: waits") {
			says := "inventory did not end within " + within.String()
			wrong(t, err, compute.FailureTimeout, says, "driver.exec.timeout", "it said: waits")
			break
		}
		b.ok(errors.Join(os.RemoveAll(filepath.Join(dir, "no")), os.RemoveAll(filepath.Join(dir, "all"))))
	}
	dead()
}

// What a call leaves behind with its output still open fails it, and is killed.
func TestHeldOutput(t *testing.T) {
	pid := filepath.Join(t.TempDir(), "pid")
	d := says(t, "inventory", `sleep 1000 & echo $! >`+pid+`; echo '{"version":1,"totals":{"VCPU":1}}'`)
	_, err := d.Inventory(t.Context())
	wrong(t, err, compute.FailureHost, "inventory has ended", "holds its stdout", "redirect")
	(&bench{t: t}).gone(pid)
}

// gone waits until the processes are dead that have their numbers in that file.
func (b *bench) gone(file string) {
	b.t.Helper()
	pids, err := os.ReadFile(file)
	b.ok(err)
	for _, pid := range strings.Fields(string(pids)) {
		b.await("the death of "+pid, func() bool {
			stat, err := os.ReadFile("/proc/" + pid + "/stat")
			return err != nil || strings.Contains(string(stat), ") Z ")
		})
	}
}

func TestTheCommandInheritsNothing(t *testing.T) {
	t.Setenv("SECRET", "x")
	d := says(t, "inventory", `env | grep -v -e '^PWD=' -e '^_=' -e '^SHLVL=' | sort | tr '\n' ' ' >&2; pwd >&2; `+
		`set -- $(cut -d' ' -f1,5,6 /proc/$$/stat); [ $1 = $2 ] && [ $1 = $3 ] && echo leads >&2; exit 1`)
	_, err := d.Inventory(t.Context())
	wrong(t, err, compute.FailureHost, "it said: BERTH_PROTOCOL=1 LC_ALL=C PATH=/usr/local/sbin:/usr/local/bin:"+
		"/usr/sbin:/usr/bin:/sbin:/bin / / leads")
}

func TestCommandThatCannotBeRun(t *testing.T) {
	dir := t.TempDir()
	plain := filepath.Join(dir, "plain")
	if err := os.WriteFile(plain, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{filepath.Join(dir, "none"), plain, dir, ""} {
		_, err := Open(t.Context(), Options{Command: []string{path}})
		var e *compute.Error
		if !errors.As(err, &e) || e.Field != "command" || e.Value != path || e.Remedy == "" {
			t.Errorf("%q: %v", path, err)
		}
	}
	_, err := Open(t.Context(), Options{Command: []string{script(t, "#!/no/such/shell\n")}})
	wrong(t, err, compute.FailureHost, "capabilities cannot be run", "interpreter")
	d := says(t, "inventory", ":")
	if err := os.Remove(d.o.Command[0]); err != nil {
		t.Fatal(err)
	}
	_, err = d.List(t.Context())
	wrong(t, err, compute.FailureHost, d.o.Command[0]+" list cannot be run", "no such file", "put it there")
}

func TestOptionsAreChecked(t *testing.T) {
	for field, o := range map[string]Options{
		"command": {Command: []string{"machines.sh"}},
		"timeout": {Command: []string{"/m"}, Timeout: time.Millisecond},
	} {
		if err := o.Check(); err == nil || !strings.Contains(err.Error(), field) {
			t.Errorf("%s: %v", field, err)
		}
	}
	if err := (Options{Command: []string{"/m", "-v"}}).Check(); err != nil {
		t.Error(err)
	}
}

// What others use of the host is listed and summed up.
func TestForeign(t *testing.T) {
	d := says(t, "inventory", `echo '{"version":1,"totals":{"VCPU":8},"traits":["B","A","B"],`+
		`"foreign":[{"name":"x","pid":7,"uses":{"VCPU":1}},{"uses":{"VCPU":2}}]}'`)
	inv, err := d.Inventory(t.Context())
	if err != nil || len(inv.Foreign) != 2 || inv.Foreign[0].Name != "x" || inv.Foreign[0].PID != 7 ||
		inv.Unmanaged[compute.VCPU] != 3 ||
		fmt.Sprint(inv.Traits) != "[A B]" {
		t.Errorf("%+v %v", inv, err)
	}
}

// The sample answers nothing rather than less than there is.
func TestSampleListsAllOrNothing(t *testing.T) {
	b := newBench(t)
	d := b.open(b.sample("", ""))
	b.ok(d.Prepare(
		t.Context(),
		hypervisor.Spec{Instance: one, Project: "p", Attempt: 1, Claim: "c", Resources: some, Image: "tiny"},
	))
	machine := filepath.Join(b.dir, string(one), "machine")
	b.ok(os.Remove(machine))
	b.ok(os.Mkdir(machine, 0o700)) // cannot be read, by root either
	_, err := d.List(t.Context())
	wrong(t, err, compute.FailureHost, "list failed", "cannot read")
	b.ok(os.RemoveAll(b.dir))
	_, err = d.List(t.Context())
	wrong(t, err, compute.FailureHost, "list failed", "there is no folder")
}

// A machine that is not there yet when the sample reads it, and there when it looks why it cannot, is no fault.
func TestSampleListsWhatComesMeanwhile(t *testing.T) {
	b := newBench(t)
	d := b.open(b.sample(`&& settled -s; }`, `[ ! -e "$home/late" ] || mv "$home/late" "$home/machine"`))
	b.ok(d.Prepare(
		t.Context(),
		hypervisor.Spec{Instance: one, Project: "p", Attempt: 1, Claim: "c", Resources: some, Image: "tiny"},
	))
	home := filepath.Join(b.dir, string(one))
	b.ok(os.Rename(filepath.Join(home, "machine"), filepath.Join(home, "late")))
	all, err := d.List(t.Context())
	b.ok(err)
	if len(all) != 1 || all[0].Instance != one {
		t.Errorf("the list has %+v", all)
	}
}

// One call at a time for an instance; the next one waits, or gives up.
func TestTurns(t *testing.T) {
	var locks locks
	over, err := locks.lock(t.Context(), one)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
	defer cancel()
	if _, err := locks.lock(ctx, one); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("two have a turn: %v", err)
	}
	other, err := locks.lock(t.Context(), "another")
	if err != nil {
		t.Fatal(err)
	}
	other()
	next := make(chan error)
	go func() {
		over, err := locks.lock(t.Context(), one)
		if err == nil {
			over()
		}
		next <- err
	}()
	over()
	if err := <-next; err != nil {
		t.Fatal(err)
	}
}

// Whatever a prepare that failed, or was broken off, has made is removed.
func TestPrepareIsUndone(t *testing.T) {
	spec := hypervisor.Spec{Instance: one, Project: "p", Attempt: 1, Claim: "c", Resources: some, Image: "tiny"}
	b := newBench(t)
	full := b.open(b.sample(`: >"$home/console"`, `echo no space >&2; exit 1`))
	wrong(t, full.Prepare(t.Context(), spec), compute.FailureHost, "it said: no space")
	if left := b.left(); len(left) > 0 {
		t.Errorf("it failed and left %v", left)
	}
	hangs := b.open(b.sample(`: >"$home/console"`, `mkfifo "$home/no"; read x <"$home/no"`))
	ctx, cancel := context.WithCancel(t.Context())
	answer := make(chan error, 1)
	go func() { answer <- hangs.Prepare(ctx, spec) }()
	b.await(
		"the middle of it",
		func() bool { _, err := os.Stat(filepath.Join(b.dir, string(one), "no")); return err == nil },
	)
	cancel()
	if err := <-answer; !errors.Is(err, context.Canceled) {
		t.Errorf("broken off, it answers %v", err)
	}
	if left := b.left(); len(left) > 0 {
		t.Errorf("it was broken off and left %v", left)
	}
}

// A call that an agent left behind when it died has its way before the next
// agent's begins, which finds the work done.
func TestACallThatWasLeftBehind(t *testing.T) {
	b := newBench(t)
	d := b.open(b.sample("", ""))
	b.ok(d.Prepare(
		t.Context(),
		hypervisor.Spec{Instance: one, Project: "p", Attempt: 1, Claim: "c", Resources: some, Image: "tiny"},
	))
	b.ok(d.Launch(t.Context(), one, 1, "c"))
	b.ok(d.Stop(t.Context(), one, 0))
	here, gate := filepath.Join(b.dir, ".here"), filepath.Join(b.dir, ".gate")
	b.ok(syscall.Mkfifo(gate, 0o600))
	keeper, err := os.OpenFile(gate, os.O_RDWR, 0)
	b.ok(err)
	defer keeper.Close()
	slow := b.sample(`if [ $verb != stop ] && ! alive`, `echo >>`+here+`; read x <`+gate)
	arrived := func() int { all, _ := os.ReadFile(here); return len(all) }
	answers := make(chan error, 2)
	for n := range 2 { // two agents, one after the other
		next := b.open(slow)
		go func() { answers <- next.Start(t.Context(), one) }()
		b.await("a start that waits", func() bool { return arrived() == n+1 || n == 1 && b.waitsForLock() })
	}
	_, err = keeper.WriteString("\n\n")
	b.ok(err)
	b.ok(<-answers)
	b.ok(<-answers)
	if n := b.launches(one); n != 1 {
		t.Errorf("two starts, and %d processes", n)
	}
}

// waitsForLock says whether a call of this bench waits for another.
func (b *bench) waitsForLock() bool {
	locks, err := filepath.Glob("/proc/[0-9]*/fd/9")
	b.ok(err)
	for _, fd := range locks {
		file, _ := os.Readlink(fd)
		name, _ := os.ReadFile(filepath.Join(filepath.Dir(filepath.Dir(fd)), "comm"))
		if strings.HasPrefix(file, b.dir) && string(name) == "flock\n" {
			return true
		}
	}
	return false
}
