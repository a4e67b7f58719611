// SPDX-License-Identifier: Apache-2.0

package journal

import (
	"encoding/json"
	"errors"
	"fmt"

	"go.etcd.io/bbolt"

	"github.com/berth-project/berth/pkg/compute"
)

// version is the form of the values this code writes. It reads this one and all
// before it.
const version = 1

// The buckets, and the keys of metaBucket.
const (
	metaBucket   = "meta"
	entryBucket  = "entries" // by instance id
	givenBucket  = "given"   // by a rising number
	failedBucket = "failed"  // likewise

	idKey       = "id"
	positionKey = "position"
	hostKey     = "host"
	nameKey     = "name" // of the host whose journal it is
)

func bucket(tx *bbolt.Tx, name string) *bbolt.Bucket { return tx.Bucket([]byte(name)) }

// versioned is how every value lies in the file.
type versioned struct {
	V int             `json:"v"`
	X json.RawMessage `json:"x"`
}

func put(b *bbolt.Bucket, key string, x any) error {
	body, err := json.Marshal(x)
	if err != nil {
		return err
	}
	value, err := json.Marshal(versioned{V: version, X: body})
	if err != nil {
		return err
	}
	return b.Put([]byte(key), value)
}

// get says whether the key is there.
func get(b *bbolt.Bucket, key string, x any) (bool, error) {
	value := b.Get([]byte(key))
	if value == nil {
		return false, nil
	}
	return true, read(key, value, x)
}

func read(key string, value []byte, x any) error {
	var v versioned
	if err := json.Unmarshal(value, &v); err != nil {
		return fmt.Errorf("%w: %q: %w", errValue, key, err)
	}
	if v.V < 1 || v.V > version {
		return &compute.Error{
			Op: "read journal", Kind: compute.KindInvalid, Field: key, Value: fmt.Sprint("version ", v.V),
			Message: fmt.Sprintf("is newer than %d, the newest this agent reads", version),
			Remedy:  "run the agent that wrote it, or a later one",
		}
	}
	if err := json.Unmarshal(v.X, x); err != nil {
		return fmt.Errorf("%w: %q: %w", errValue, key, err)
	}
	return nil
}

// Read gives everything that is written down. What it answers is the caller's.
func (j *Journal) Read() (State, error) {
	s := State{ID: j.id, Entries: map[compute.InstanceID]Entry{}}
	err := contain(j.db.Path(), func() error {
		return j.db.View(func(tx *bbolt.Tx) error { return s.read(tx) })
	})
	return s, err
}

func (s *State) read(tx *bbolt.Tx) error {
	meta := bucket(tx, metaBucket)
	var err error
	if s.Positioned, err = get(meta, positionKey, &s.Position); err != nil {
		return err
	}
	if _, err = get(meta, hostKey, &s.Host); err != nil {
		return err
	}
	err = bucket(tx, entryBucket).ForEach(func(key, value []byte) error {
		var e Entry
		if err := read(string(key), value, &e); err != nil {
			return err
		}
		if string(key) != string(e.Instance) {
			return fmt.Errorf("%w: entry %q is about %q", errValue, key, e.Instance)
		}
		s.Entries[e.Instance] = e
		return nil
	})
	if err != nil {
		return err
	}
	return errors.Join(readAll(bucket(tx, givenBucket), &s.Given), readAll(bucket(tx, failedBucket), &s.Failed))
}

// readAll reads a list, oldest first.
func readAll[T any](b *bbolt.Bucket, list *[]T) error {
	return b.ForEach(func(key, value []byte) error {
		var x T
		err := read(string(key), value, &x)
		*list = append(*list, x)
		return err
	})
}

// Write makes the change durable before it answers. After an error nobody knows
// whether it is: the caller must not act on it, and had better end.
func (j *Journal) Write(c Change) error {
	if c.Empty() {
		return nil
	}
	err := contain(j.db.Path(), func() error {
		return j.db.Update(func(tx *bbolt.Tx) error { return errors.Join(j.noteHost(tx), c.write(tx)) })
	})
	if err == nil && j.written != nil {
		j.written()
	}
	var e *compute.Error
	if errors.As(err, &e) {
		e.Op = "write journal"
	}
	return err
}

// noteHost has the file say whose it is, if it does not yet.
func (j *Journal) noteHost(tx *bbolt.Tx) error {
	meta := bucket(tx, metaBucket)
	if j.host == "" || meta.Get([]byte(nameKey)) != nil {
		return nil
	}
	return put(meta, nameKey, j.host)
}

func (c Change) write(tx *bbolt.Tx) error {
	meta, entries := bucket(tx, metaBucket), bucket(tx, entryBucket)
	for _, e := range c.Put {
		if err := put(entries, string(e.Instance), e); err != nil {
			return err
		}
	}
	for _, id := range c.Forget {
		if err := entries.Delete([]byte(id)); err != nil {
			return err
		}
	}
	if c.Position != nil {
		if err := put(meta, positionKey, *c.Position); err != nil {
			return err
		}
	}
	if c.Host != nil {
		if err := put(meta, hostKey, *c.Host); err != nil {
			return err
		}
	}
	return errors.Join(addAll(bucket(tx, givenBucket), c.GiveBack), addAll(bucket(tx, failedBucket), c.Fail))
}

// Remembered is how many claims that were given back are remembered, and how many that failed. Others are unknown to
// this host: a grant of one that was given back ends the same way, and of one that failed nobody hears why.
const Remembered = 1000

// addAll adds to a list of which the oldest are forgotten.
func addAll[T any](b *bbolt.Bucket, all []T) error {
	for _, x := range all {
		n, err := b.NextSequence()
		if err != nil {
			return err
		}
		if err := put(b, fmt.Sprintf("%020d", n), x); err != nil {
			return err
		}
		if n > Remembered {
			if err := b.Delete(fmt.Appendf(nil, "%020d", n-Remembered)); err != nil {
				return err
			}
		}
	}
	return nil
}
