// SPDX-License-Identifier: Apache-2.0

package main

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/berth-project/berth/compute-agent/home"
)

// systemMarks is where agents of this machine say whose the machines of their commands are.
const systemMarks = "/var/lib/berth/exec"

// home is where the owner of a command's machines is written down and locked. A command keeps its machines where only
// it knows; so the mark lies where every agent finds it that is given the same command, whatever its other settings
// are.
func (e execConfig) home() home.Place {
	var words []string
	for _, word := range e.Command {
		if filepath.IsAbs(word) {
			word = filepath.Clean(word) // a folder is the same with a slash behind it
		}
		words = append(words, word)
	}
	key := sha256.Sum256([]byte(strings.Join(words, "\x00")))
	return home.Place{
		Dir: e.marks(), Name: "exec-" + hex.EncodeToString(key[:8]) + ".", Of: strings.Join(words, " "),
	}
}

// marks is the folder of the marks: what the settings say, else the machine's, else, where this process may not write
// there, its user's.
func (e execConfig) marks() string {
	if e.Marks != "" {
		return e.Marks
	}
	if user, err := userState(); err == nil && !mayMake(systemMarks) {
		return filepath.Join(user, "berth", "exec")
	}
	return systemMarks
}

// userState is where programs of this user keep what survives a restart.
func userState() (string, error) {
	if dir := os.Getenv("XDG_STATE_HOME"); filepath.IsAbs(dir) {
		return dir, nil
	}
	dir, err := os.UserHomeDir()
	return filepath.Join(dir, ".local", "state"), err
}

// mayMake says whether this process may write to a folder, or make it.
func mayMake(dir string) bool {
	for ; ; dir = filepath.Dir(dir) {
		err := unix.Access(dir, unix.W_OK)
		if !errors.Is(err, fs.ErrNotExist) || dir == "/" {
			return err == nil
		}
	}
}
