// SPDX-License-Identifier: Apache-2.0

package sse

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"strconv"
	"strings"
	"time"
)

// ContentType of a stream.
const ContentType = "text/event-stream"

// Event is one block of a stream.
type Event struct {
	ID    string // empty: as before
	Name  string
	Data  []byte
	Retry time.Duration // how long to wait before coming again; 0: as before
}

// Write writes a block, with which its reader is told at once. ID and Name must have no line breaks.
func (e Event) Write(w io.Writer) error {
	var b bytes.Buffer
	if e.Retry > 0 {
		fmt.Fprintf(&b, "retry: %d\n", e.Retry.Milliseconds())
	}
	if e.ID != "" {
		fmt.Fprintf(&b, "id: %s\n", e.ID)
	}
	if e.Name != "" {
		fmt.Fprintf(&b, "event: %s\n", e.Name)
	}
	if e.Data != nil {
		for line := range bytes.SplitSeq(e.Data, []byte("\n")) {
			fmt.Fprintf(&b, "data: %s\n", line)
		}
	}
	b.WriteByte('\n')
	_, err := w.Write(b.Bytes())
	return err
}

// Comment writes a line that readers pass over.
func Comment(w io.Writer, text string) error {
	_, err := fmt.Fprintf(w, ": %s\n", text)
	return err
}

// Reader reads a stream.
type Reader struct{ lines *bufio.Scanner }

// NewReader reads from r. No line may be longer than most bytes.
func NewReader(r io.Reader, most int) *Reader {
	lines := bufio.NewScanner(r)
	lines.Buffer(make([]byte, 0, min(most, 4096)), most)
	return &Reader{lines}
}

// Next reads the next block that says anything. What is cut off within a block is no block; the error is io.EOF at
// the end.
func (r *Reader) Next() (Event, error) {
	var e Event
	said := false
	for r.lines.Scan() {
		line := r.lines.Text()
		if line == "" {
			if said {
				return e, nil
			}
			continue
		}
		field, value, _ := strings.Cut(line, ":")
		value = strings.TrimPrefix(value, " ")
		switch field {
		case "id":
			e.ID, said = value, true
		case "event":
			e.Name, said = value, true
		case "data":
			if e.Data != nil {
				e.Data = append(e.Data, '\n')
			}
			e.Data, said = append(e.Data, value...), true
			if e.Data == nil {
				e.Data = []byte{}
			}
		case "retry":
			if ms, err := strconv.ParseUint(value, 10, 31); err == nil {
				e.Retry, said = time.Duration(ms)*time.Millisecond, true
			}
		}
	}
	if err := r.lines.Err(); err != nil {
		return Event{}, err
	}
	return Event{}, io.EOF
}
