// SPDX-License-Identifier: Apache-2.0

package image

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"time"

	"github.com/berth-project/berth/compute-agent/hypervisor"
	"github.com/berth-project/berth/pkg/compute"
)

// HasDisk says whether a machine of this image and these resources has a disk of
// its own.
func (img Image) HasDisk(r compute.Resources) bool { return img.Disk != "" || r[compute.DiskGB] > 0 }

// Make makes a machine's own disk, of the flavor's size, on top of the image's:
// a qcow2 file. Without any disk it makes none.
func (s *Store) Make(ctx context.Context, file, name string, img Image, r compute.Resources) error {
	gb := r[compute.DiskGB]
	if need := (img.Bytes + 1<<30 - 1) >> 30; img.Disk != "" && gb > 0 && gb < need {
		return hypervisor.Reject("DISK_GB %d: image %q needs %d: choose a larger flavor", gb, name, need)
	}
	args := []string{"create", "-q", "-f", "qcow2"}
	if img.Disk != "" {
		args = append(args, "-b", img.Disk, "-F", img.Format)
	}
	args = append(args, file)
	switch {
	case gb > 0:
		args = append(args, fmt.Sprint(gb, "G"))
	case img.Disk == "":
		return nil
	}
	if err := own(file); err != nil {
		return err
	}
	return Run(ctx, s.program, args...)
}

// own makes a file that is the guest's alone from the first: a process that has opened it reads it for good. qemu-img
// keeps the mode of a file that is there.
func own(file string) error {
	f, err := os.OpenFile(file, os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	return errors.Join(f.Chmod(0o600), f.Close())
}

// Run runs a program. Its error is the last complaint that the program printed.
func Run(ctx context.Context, program string, args ...string) error {
	var said hypervisor.Said
	cmd := exec.CommandContext(ctx, program, args...)
	cmd.Stdout, cmd.Stderr = &said, &said
	cmd.WaitDelay = time.Second // what a script has begun may hold the pipe
	err := cmd.Run()
	if errors.Is(err, exec.ErrWaitDelay) {
		err = nil // it was through, and well
	}
	switch lines := said.Lines(); {
	case err == nil:
		return nil
	case lines == "":
		return fmt.Errorf("%s %s: %w", filepath.Base(program), args[0], err)
	default:
		return fmt.Errorf("%s %s: %w: %s", filepath.Base(program), args[0], err, lines)
	}
}
