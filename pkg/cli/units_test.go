// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"testing"

	"pgregory.net/rapid"

	"github.com/berth-project/berth/pkg/compute"
)

func TestSizes(t *testing.T) {
	for text, want := range map[string]int64{
		"0MiB": 0, "512MiB": 512, "2GiB": 2048, "2 GiB": 2048, "1TiB": 1 << 20, "1048576TiB": 1 << 40,
	} {
		if got, err := ParseMemory("memory", text); got != want || err != nil {
			t.Errorf("%s: %d, %v", text, got, err)
		}
	}
	for text, want := range map[string]int64{"20GiB": 20, "2TiB": 2048, "2048MiB": 2} {
		if got, err := parseDisk("disk", text); got != want || err != nil {
			t.Errorf("%s: %d, %v", text, got, err)
		}
	}
	for text, want := range map[string]string{
		"":           `memory "" is not valid; give a whole number with its unit, as in 512MiB or 2GiB`,
		"GiB":        `memory "GiB" is not valid; give a whole number with its unit, as in 512MiB or 2GiB`,
		"2":          `memory "2" is not valid; give its unit: 2MiB, 2GiB or 2TiB`,
		"2GB":        `memory "2GB" is not valid; write 2GiB (units are MiB, GiB and TiB)`,
		"2g":         `memory "2g" is not valid; write 2GiB (units are MiB, GiB and TiB)`,
		"2M":         `memory "2M" is not valid; write 2MiB (units are MiB, GiB and TiB)`,
		"2KiB":       `memory "2KiB" is not valid; give its unit: 2MiB, 2GiB or 2TiB`,
		"-1GiB":      `memory "-1GiB" is not valid; give a whole number with its unit, as in 512MiB or 2GiB`,
		"1e3MiB":     `memory "1e3MiB" is not valid; give a whole number with its unit, as in 512MiB or 2GiB`,
		"1048577TiB": `memory "1048577TiB" is not valid; that is more than anything may have`,

		"99999999999999999999MiB": `memory "99999999999999999999MiB" is not valid; ` +
			`give a whole number with its unit, as in 512MiB or 2GiB`,
	} {
		if _, err := ParseMemory("memory", text); err == nil || err.Error() != want {
			t.Errorf("%s:\n got %v\nwant %s", text, err, want)
		}
	}
	if _, err := parseDisk("disk", "1536MiB"); err == nil ||
		err.Error() != `disk "1536MiB" is not valid; it is counted in whole GiB` {
		t.Error(err)
	}
}

// TestWhatIsShownCanBeTyped: a size that Berth prints, Berth reads.
func TestWhatIsShownCanBeTyped(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		n := rapid.Int64Range(0, compute.MaxAmount).Draw(rt, "n")
		if got, err := ParseMemory("memory", HumanSize(compute.MemoryMB, n)); got != n || err != nil {
			rt.Fatalf("%d is shown as %s, read as %d, %v", n, HumanSize(compute.MemoryMB, n), got, err)
		}
		disk := n >> 10
		if got, err := parseDisk("disk", HumanSize(compute.DiskGB, disk)); got != disk || err != nil {
			rt.Fatalf("%d is shown as %s, read as %d, %v", disk, HumanSize(compute.DiskGB, disk), got, err)
		}
	})
}

func TestHumanResources(t *testing.T) {
	got := humanResources(
		compute.Resources{compute.VCPU: 2, compute.MemoryMB: 1536, compute.DiskGB: 2048, "CUSTOM_B": 1, "CUSTOM_A": 3},
	)
	if want := "2 vCPU, 1536MiB, 2TiB disk, 3 CUSTOM_A, 1 CUSTOM_B"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
}
