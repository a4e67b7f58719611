// SPDX-License-Identifier: Apache-2.0

package localkafka

import (
	"bytes"
	"context"
	_ "embed"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
)

// Version is the Kafka that runs unless another is asked for.
const Version = "4.3.1"

//go:embed pom.xml
var pom []byte

// Jars answers the folder with the broker's jars of a version, fetching them
// with Maven the first time. Processes that ask at once wait for the first.
func Jars(ctx context.Context, version string) (string, error) {
	cache, err := os.UserCacheDir()
	if err != nil {
		return "", fmt.Errorf("find the user's cache folder: %w", err)
	}
	dir := filepath.Join(cache, "berth", "kafka-"+version)
	if _, err := os.Stat(filepath.Join(dir, "complete")); err == nil {
		return dir, nil
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return "", err
	}
	unlock, err := lock(filepath.Join(dir, "lock"))
	if err != nil {
		return "", err
	}
	defer unlock()
	if _, err := os.Stat(filepath.Join(dir, "complete")); err == nil {
		return dir, nil
	}
	return dir, fetch(ctx, dir, version)
}

func fetch(ctx context.Context, dir, version string) error {
	file := filepath.Join(dir, "pom.xml")
	if err := os.WriteFile(file, pom, 0o644); err != nil {
		return err
	}
	cmd := exec.CommandContext(ctx, "mvn", "-q", "-B", "-f", file, "dependency:copy-dependencies",
		"-Dkafka.version="+version, "-DoutputDirectory="+dir)
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	if err := cmd.Run(); err != nil {
		return fmt.Errorf("fetch Kafka %s with Maven: %w\n%s", version, err, tail(out.Bytes(), 2000))
	}
	return os.WriteFile(filepath.Join(dir, "complete"), nil, 0o644)
}

func lock(path string) (func(), error) {
	f, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR, 0o644)
	if err != nil {
		return nil, err
	}
	if err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX); err != nil {
		_ = f.Close()
		return nil, fmt.Errorf("lock %s: %w", path, err)
	}
	return func() { _ = f.Close() }, nil
}

func tail(b []byte, n int) []byte { return b[max(0, len(b)-n):] }
