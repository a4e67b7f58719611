// SPDX-License-Identifier: Apache-2.0

package rest

import (
	"time"

	"github.com/berth-project/berth/pkg/compute"
)

// Rejected is a record that could not be read, made no sense or was not believed.
type Rejected struct {
	At        time.Time          `json:"at" doc:"When it was refused, by the clock of the process that did."`
	Record    string             `json:"record" doc:"Where the record is: topic, partition and offset." example:"requests/3/41"`
	Topic     string             `json:"topic" doc:"Without the cell's prefix." example:"requests"`
	Partition int32              `json:"partition"`
	Offset    int64              `json:"offset"`
	Reason    compute.ReasonCode `json:"reason" example:"Malformed"`
	Detail    string             `json:"detail,omitempty" doc:"Why, for people."`
	Remedy    string             `json:"remedy" doc:"What to look at."`
	Project   compute.Project    `json:"project,omitempty" doc:"Whose it says that it is."`
	Host      compute.HostID     `json:"host,omitempty" doc:"Likewise."`
}

// RejectedPage is a part of what was refused.
type RejectedPage struct {
	Items        []Rejected `json:"items" nullable:"false" doc:"The newest first."`
	Next         string     `json:"next,omitempty" doc:"Give this as marker to get older ones; absent on the last page."`
	Read         int        `json:"read" doc:"How many records were looked at for this page."`
	Garbled      int        `json:"garbled,omitempty" doc:"How many of them are no rejections."`
	StoppedEarly bool       `json:"stopped_early,omitempty" doc:"No more are looked at for one page; next goes on, with older ones that may be wanted too."`
}
