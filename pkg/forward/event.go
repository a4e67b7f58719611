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
	TypeRemoved = "berth.instance.removed" // its record is gone, long after it ended
	TypeBegins  = "berth.present.begins"   // what comes until the end of the present is all that there is
	TypePresent = "berth.instance.present" // how an instance is now
	TypeEnds    = "berth.present.ends"     // what was not told since the last beginning is deleted
	TypeGap     = "berth.gap"              // changes may be missing: the present comes next
)

// ContentType is that of a batch.
const ContentType = "application/cloudevents-batch+json; charset=utf-8"

// Event is a CloudEvent in JSON.
type Event struct {
	SpecVersion string    `json:"specversion"`
	ID          string    `json:"id"` // the same for what is posted again, by whatever forwarder of the same source
	Source      string    `json:"source"`
	Type        string    `json:"type"`
	Subject     string    `json:"subject,omitempty"` // the instance
	Time        time.Time `json:"time,omitzero"`
	ContentType string    `json:"datacontenttype,omitempty"`
	Data        any       `json:"data,omitempty"`

	behind string // the position behind it; empty: there is none to go on at
}

// eventOf is what is told as a CloudEvent; without a type it is nothing for a receiver. run names the present that is
// being told: it is told anew with other ids.
func eventOf(source, run string, t client.Told) Event {
	e := Event{SpecVersion: "1.0", Source: source, behind: t.ID}
	version := fmt.Sprintf("%s/%s/%d", t.Event.Project, t.Event.Instance, t.Event.Version)
	switch t.Kind {
	case client.ToldChange:
		e.Type, e.ID = TypeChanged, version
	case client.ToldRemoved:
		e.Type, e.ID = TypeRemoved, version+"/removed"
	case client.ToldPresent:
		e.Type, e.ID = TypePresent, run+"/"+version
	case client.ToldPresented:
		e.Type, e.ID, e.behind = TypeEnds, run+"/ends", t.Gap.ID
		return e
	case client.ToldGap:
		e.Type, e.ID, e.Data, e.ContentType = TypeGap, "gap/"+t.Gap.ID, t.Gap, "application/json"
		e.behind = "" // behind a gap all is told anew first
		return e
	default:
		return e
	}
	e.Subject, e.Time, e.Data, e.ContentType = string(t.Event.Instance), t.Event.At, t.Event, "application/json"
	return e
}
