// SPDX-License-Identifier: Apache-2.0

package rejected

import (
	"fmt"
	"strings"

	"github.com/berth-project/berth/pkg/compute"
	"github.com/berth-project/berth/pkg/wire"
	"github.com/berth-project/berth/pkg/wire/rest"
)

// Show is a rejection without what was in the record.
func Show(t wire.Topics, j compute.Rejected) rest.Rejected {
	topic := strings.TrimPrefix(j.Topic, t.Prefix)
	v := rest.Rejected{
		At: j.At.UTC(), Record: fmt.Sprintf("%s/%d/%d", topic, j.Partition, j.Offset), Topic: topic,
		Partition: j.Partition, Offset: j.Offset, Reason: j.Reason.Code, Detail: j.Reason.Detail, Host: j.Reason.Host,
		Remedy: remedy(j.Reason.Code, j.Topic == t.Requests()),
	}
	stream, ofHost := t.HostOf(j.Topic)
	switch {
	case ofHost && v.Host == "":
		v.Host = stream
	case j.Topic == t.Hosts() && v.Host == "" && compute.HostID(j.Key).Check() == nil:
		v.Host = compute.HostID(j.Key)
	case j.Topic == t.Requests() || j.Topic == t.Reports():
		if p := compute.Project(j.Key); p.Check() == nil {
			v.Project = p
		}
	}
	return v
}

// remedy is what to look at, by why a record was refused.
func remedy(why compute.ReasonCode, request bool) string {
	switch {
	case why == compute.Unsigned && request:
		return "give the program that writes it a key (berth publisher enroll), and the API nodes theirs; " +
			"all conductors need the same masters"
	case why == compute.Unsigned:
		return "give its agent a host_key_file (berth host enroll); all conductors need the same masters"
	case why == compute.Forged:
		return "was the key file changed or copied lately? If not, somebody tries: berth acl check shows who may write there"
	case why == compute.Replayed:
		return "a few after an outage are first tries that came late; many are somebody's"
	case why == compute.ForeignProject:
		return "enroll the publisher for this project: berth publisher enroll NAME --projects …"
	case why == compute.LeftAlone:
		return "its host says so again once a day: give the host its name back, or see who uses the machine, and end it there"
	case why == compute.Malformed && request:
		return "correct the program that writes it, or use one of this version: docs/PUBLISHING.md says what is read"
	case why == compute.Malformed:
		return "look for a program of another version, or one that is wrong"
	}
	return "it was read, and made no sense any more: berth events and berth explain show how the instance is"
}
