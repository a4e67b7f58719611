// SPDX-License-Identifier: Apache-2.0

package doctor

import (
	"errors"

	"github.com/berth-project/berth/pkg/compute"
)

// notKnown is the finding about something that could not be asked for. Where Kafka does not let this user ask, it says
// which right is missing and with which user the doctor sees more; else the finding's own fix stays.
func (f Finding) notKnown(why error) Finding {
	f.Is = "not known: " + why.Error()
	var denied *compute.Error
	if errors.As(why, &denied) && denied.Kind == compute.KindForbidden {
		f.Is, f.Fix = "not known: "+denied.Message, denied.Remedy
	}
	return f.with(Warn)
}

func forbidden(err error) bool { return err != nil && compute.KindOf(err) == compute.KindForbidden }
