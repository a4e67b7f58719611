// SPDX-License-Identifier: Apache-2.0

package publishkey

import (
	"encoding/hex"
	"fmt"
	"slices"
	"strings"

	"github.com/berth-project/berth/pkg/compute"
	"github.com/berth-project/berth/pkg/hostkey"
	"github.com/berth-project/berth/pkg/secretfile"
)

// Projects are those that a publisher may write requests for: their names in order, with commas between them, or All.
type Projects string

// All is every project, and what is about hosts besides.
const All Projects = "*"

// maxProjects is how long a list may be, in bytes: it is in each request.
const maxProjects = 1 << 10

// ParseProjects reads a list in any order.
func ParseProjects(text string) (Projects, error) {
	if text == string(All) {
		return All, nil
	}
	names := strings.Split(text, ",")
	for _, name := range names {
		if err := compute.Project(name).Check(); err != nil {
			return "", compute.Invalid("projects", text, "give names of projects with commas between them, or *")
		}
	}
	slices.Sort(names)
	all := strings.Join(slices.Compact(names), ",")
	if len(all) > maxProjects {
		return "", compute.Invalid("projects", all[:40]+"…", "give shorter lists to several publishers, or *")
	}
	return Projects(all), nil
}

// Allow says whether a request of a project may be written. One about a host has no project: only All allow it.
func (p Projects) Allow(project compute.Project) bool {
	if p == All {
		return true
	}
	for name := range strings.SplitSeq(string(p), ",") {
		if project != "" && name == string(project) {
			return true
		}
	}
	return false
}

// Key is what one publisher signs with.
type Key struct {
	name     compute.PublisherName
	projects Projects
	master   hostkey.MasterID
	secret   [32]byte
}

// forPublisher is what keys are derived for. A name has no spaces, so name and projects cannot run into each other.
const forPublisher = "berth publisher key v1\x00"

// Derive is the key of a publisher for some projects. The same publisher has the same key for them every time.
func Derive(m hostkey.Master, name compute.PublisherName, projects Projects) Key {
	return Key{
		name: name, projects: projects, master: m.ID(),
		secret: m.Secret(forPublisher + string(name) + " " + string(projects)),
	}
}

// Name is whose key it is.
func (k Key) Name() compute.PublisherName { return k.name }

// Projects are those it is for.
func (k Key) Projects() Projects { return k.projects }

// String names publisher, projects and master: a secret is never printed.
func (k Key) String() string {
	return fmt.Sprintf("key of publisher %s for %s under master %s", k.name, k.projects, k.master)
}

// GoString is the same for %#v.
func (k Key) GoString() string { return k.String() }

// Line is the key as it stands in a file, and secret.
func (k Key) Line() string {
	return fmt.Sprintf("%s %s %s %s", k.name, k.projects, k.master, hex.EncodeToString(k.secret[:]))
}

// Load reads a key from a file of lines that "berth publisher enroll" printed; the last one counts, for a new key is
// written below the one before. field is the setting that names the file. One that others may read is refused.
func Load(field, file string) (Key, error) {
	keys, err := secretfile.Load(field, file, keyRemedy, parseLine)
	if err != nil {
		return Key{}, err
	}
	if len(keys) == 0 {
		return Key{}, compute.Invalid(field, file, keyRemedy)
	}
	return keys[len(keys)-1], nil
}

const keyRemedy = "put a line there that berth publisher enroll printed"

func parseLine(words []string) (k Key, ok bool) {
	if len(words) != 4 {
		return Key{}, false
	}
	k, ok = parseSigner(words[0], words[1], words[2])
	secret, fine := secretfile.DecodeSecret(words[3])
	k.secret = secret
	return k, ok && fine
}

// parseSigner reads who signs: everything of a key but its secret.
func parseSigner(name, projects, master string) (k Key, ok bool) {
	p, err := ParseProjects(projects)
	id, known := hostkey.ParseMasterID(master)
	k = Key{name: compute.PublisherName(name), projects: p, master: id}
	return k, k.name.Check() == nil && err == nil && string(p) == projects && known
}
