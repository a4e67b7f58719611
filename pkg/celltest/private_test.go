// SPDX-License-Identifier: Apache-2.0

package celltest

import (
	"context"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"

	"github.com/berth-project/berth/pkg/cell"
	"github.com/berth-project/berth/pkg/compute"
)

// What `berth dev --data` keeps is for nobody else, whatever the umask: user data and
// keys are in it. A folder that others may read is refused, with the way out.
func TestDevDataIsPrivate(t *testing.T) {
	data := filepath.Join(t.TempDir(), "some", "data")
	p := spawnWith(t, "sh", "-c", `umask 000; exec "$0" "$@"`, berth(t),
		"dev", "--data", data, "--hosts", "2", "--listen", "127.0.0.1:0")
	p.says("Ctrl-C stops it")
	text, _ := p.out.text()
	api := regexp.MustCompile(`BERTH_API=(\S+)`).FindStringSubmatch(text)[1]
	secret := filepath.Join(t.TempDir(), "secret")
	if err := os.WriteFile(secret, []byte("password"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, line := range []string{
		"flavor add m1.small --vcpus 1 --memory 2GiB --disk 20GiB",
		"boot --flavor m1.small --name web --wait --user-data " + secret,
	} {
		if code, out, errs := ran(t, append(strings.Fields(line), "--api", api)...); code != 0 {
			t.Fatalf("berth %s: exit code %d: %s%s", line, code, out, errs)
		}
	}
	if err := p.cmd.Process.Signal(syscall.SIGINT); err != nil {
		t.Fatal(err)
	}
	<-p.done
	files := 0
	if err := filepath.WalkDir(data, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		info, err := d.Info()
		if err != nil {
			return err
		}
		if files++; info.Mode().Perm()&0o077 != 0 {
			t.Errorf("%s has mode %s", path, info.Mode())
		}
		return nil
	}); err != nil || files < 10 {
		t.Errorf("%d files: %v", files, err)
	}

	for _, mode := range []os.FileMode{0o755, 0o770, 0o720} {
		if err := os.Chmod(data, mode); err != nil {
			t.Fatal(err)
		}
		never := func(context.Context, string) error { t.Error("it runs all the same"); return nil }
		err := cell.WithEverything(t.Context(), cell.EverythingOptions{Data: data, Listen: "127.0.0.1:0"}, never)
		if compute.KindOf(err) != compute.KindInvalid || !strings.Contains(err.Error(), "chmod -R go-rwx "+data) {
			t.Errorf("%s: %v", mode, err)
		}
	}
}

// spawnWith starts a program that ends as the berth binary.
func spawnWith(t *testing.T, program string, args ...string) *process {
	t.Helper()
	p := &process{t: t, name: program, out: &lines{news: make(chan struct{})}, done: make(chan struct{})}
	p.cmd = exec.Command(program, args...)
	p.cmd.Stdout, p.cmd.Stderr = p.out, p.out
	if err := p.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	go func() {
		_ = p.cmd.Wait() // how it ended is asked of ProcessState
		close(p.done)
	}()
	t.Cleanup(p.kill)
	return p
}
