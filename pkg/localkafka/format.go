// SPDX-License-Identifier: Apache-2.0

package localkafka

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/base64"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
)

// format makes the node's data folder ready, once. Kafka's tool takes seconds to
// write two small files, of which one is the same for every node of a version: it
// is kept beside the jars.
func (n *node) format(ctx context.Context) error {
	if _, err := os.Stat(n.data("meta.properties")); err == nil {
		return nil
	}
	seed := filepath.Join(n.libs, bootstrap)
	if kept, err := os.ReadFile(seed); err == nil && !n.elsewhere {
		return n.formatWith(kept)
	}
	cmd := exec.CommandContext(ctx, "java", "-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", "-cp", n.classpath(),
		"kafka.tools.StorageTool", "format", "-t", clusterID, "-c", n.file("server.properties"))
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	if err := cmd.Run(); err != nil {
		return fmt.Errorf("format node %d: %w\n%s", n.id, err, tail(out.Bytes(), 2000))
	}
	if n.elsewhere {
		return nil
	}
	if _, err := os.Stat(n.data(bootstrap)); errors.Is(err, os.ErrNotExist) {
		return nil // from 4.4 on the tool does it otherwise: it runs each time
	}
	return keep(n.data(bootstrap), seed)
}

// bootstrap is the file with a new cluster's features.
const bootstrap = "bootstrap.checkpoint"

// formatWith does what Kafka's tool does.
func (n *node) formatWith(features []byte) error {
	if err := os.MkdirAll(n.data(""), 0o755); err != nil {
		return err
	}
	var id [16]byte
	rand.Read(id[:])
	id[0] &= 0x7f // Kafka's ids begin with no dash
	meta := fmt.Sprintf(
		"node.id=%d\ndirectory.id=%s\nversion=1\ncluster.id=%s\n",
		n.id,
		base64.RawURLEncoding.EncodeToString(id[:]),
		clusterID,
	)
	if err := os.WriteFile(n.data(bootstrap), features, 0o644); err != nil {
		return err
	}
	return os.WriteFile(n.data("meta.properties"), []byte(meta), 0o644)
}

// keep copies a file, whole or not at all, for other processes that may do the same.
func keep(from, to string) error {
	content, err := os.ReadFile(from)
	if err != nil {
		return err
	}
	temporary, err := os.CreateTemp(filepath.Dir(to), filepath.Base(to)+".")
	if err != nil {
		return err
	}
	_, err = temporary.Write(content)
	if err := errors.Join(err, temporary.Close()); err != nil {
		return err
	}
	return os.Rename(temporary.Name(), to)
}
