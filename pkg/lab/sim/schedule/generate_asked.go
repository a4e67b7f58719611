// SPDX-License-Identifier: Apache-2.0

package schedule

import (
	"encoding/base64"
	"encoding/binary"
	"fmt"
	"math/rand/v2"

	"github.com/berth-project/berth/pkg/compute"
)

// furnished gives most boots an image, metadata, keys and user data of their own, so
// that it shows which host was given a machine. It has numbers of its own and comes last, so
// that it furnishes whatever is booted.
func (g *generator) furnished() {
	g.Rand = rand.New(rand.NewPCG(g.s.Seed, 11))
	for _, l := range g.s.Load {
		if l.Op != LoadBoot {
			continue
		}
		b := l.Boot
		if g.chance(0.7) {
			b.Image = fmt.Sprintf("image-%d", 1+g.IntN(5))
		}
		if g.chance(0.6) {
			b.Metadata = map[string]string{"of": l.Name}
			for i := range g.IntN(4) {
				b.Metadata[fmt.Sprintf("key %d", i)] = pick(g, "", "ä\n\"", fmt.Sprint(g.Uint64()))
			}
		}
		for range pick(g, 0, 0, 1, 1, 2) {
			b.SSHKeys = append(b.SSHKeys, g.sshKey(l.Name))
		}
		if g.chance(0.5) {
			b.UserData = compute.UserData(g.bytes(1 + g.IntN(pick(g, 50, 50, 500, 20_000))))
		}
	}
}

func (g *generator) bytes(n int) []byte {
	b := make([]byte, n)
	for i := range b {
		b[i] = byte(g.IntN(256))
	}
	return b
}

// sshKey is a public key as people give it: nobody has the other half.
func (g *generator) sshKey(owner string) string {
	const kind = "ssh-ed25519"
	blob := binary.BigEndian.AppendUint32(nil, uint32(len(kind)))
	blob = binary.BigEndian.AppendUint32(append(blob, kind...), 32)
	return kind + " " + base64.StdEncoding.EncodeToString(append(blob, g.bytes(32)...)) + " " + owner + "@example"
}
