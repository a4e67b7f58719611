// SPDX-License-Identifier: Apache-2.0

package forward

import (
	"fmt"
	"time"

	"github.com/berth-project/berth/pkg/client"
)

// What the events are, as CloudEvents have a type.
const (
	TypeChanged = "berth.instance.changed" // data is what GET /v1/events tells of a change
	TypePresent = "berth.instance.present" // how an instance is now: at the first start, and after each gap
	TypeRemoved = "berth.instance.removed" // its record is gone, long after it ended
	TypeGap     = "berth.gap"              // changes may be missing; how all instances are now comes next
)

// The kinds of what is told.
const (
	toldChange    = "change"
	toldPresent   = "present"
	toldPresented = "presented"
	toldRemoved   = "removed"
	toldGap       = "gap"
)

// ContentType is that of a batch.
const ContentType = "application/cloudevents-batch+json; charset=utf-8"

// Event is a CloudEvent in JSON.
type Event struct {
	SpecVersion string    `json:"specversion"`
	ID          string    `json:"id"` // the same for what is posted again; unique in its source
	Source      string    `json:"source"`
	Type        string    `json:"type"`
	Subject     string    `json:"subject,omitempty"` // the instance
	Time        time.Time `json:"time,omitzero"`
	ContentType string    `json:"datacontenttype"`
	Data        any       `json:"data"`

	behind string // the position behind it; empty: there is none to go on at
}

// eventOf is what is told as a CloudEvent; false: it is nothing for a receiver.
func eventOf(source string, t client.Told) (Event, bool) {
	e := Event{SpecVersion: "1.0", Source: source, ContentType: "application/json", behind: t.ID}
	switch t.Kind {
	case toldChange, toldRemoved, toldPresent:
		e.Subject, e.Time, e.Data = string(t.Event.Instance), t.Event.At, t.Event
	case toldGap:
		e.Data = t.Gap
	default:
		return e, false
	}
	e.Type = map[string]string{
		toldChange: TypeChanged, toldRemoved: TypeRemoved, toldPresent: TypePresent, toldGap: TypeGap,
	}[t.Kind]
	if e.ID = t.ID; t.Kind == toldPresent { // it is of no place in the log
		e.ID = fmt.Sprintf("%s/%s/%d", t.Event.Project, t.Event.Instance, t.Event.Version)
	}
	return e, true
}
