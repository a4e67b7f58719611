// SPDX-License-Identifier: Apache-2.0

package wire

import (
	"github.com/google/uuid"

	"github.com/berth-project/berth/pkg/compute"
)

// keySpace is Berth's name space of UUIDs (version 4, drawn once). It never
// changes: with another one, a key that is repeated would be another machine.
const keySpace = "8a2d2b0e-5c0b-4a43-9f0c-6f0f5f3c6f1d"

// KeyedInstance is the id of the instance that a project asked for under a key
// of its own choice: the same for the same project and key, in every process
// and at any time. It is UUIDv5(UUIDv5(name space of Berth, project), key).
func KeyedInstance(p compute.Project, key string) compute.InstanceID {
	project := uuid.NewSHA1(uuid.MustParse(keySpace), []byte(p))
	return compute.InstanceID(uuid.NewSHA1(project, []byte(key)).String())
}
