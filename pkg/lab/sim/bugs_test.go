// SPDX-License-Identifier: Apache-2.0

package sim

import (
	"os/exec"
	"path/filepath"
	"testing"
)

// The bugs that make sim-teeth plants can be planted in the code as it is: a change of lines that a
// patch changes needs the patch written anew.
func TestPlantedBugsApply(t *testing.T) {
	if err := exec.Command("git", "rev-parse", "HEAD").Run(); err != nil {
		t.Skipf("skipped: needs git and its repository: %v", err)
	}
	patches, err := filepath.Glob("testdata/bugs/*.patch")
	if err != nil || len(patches) < 16 {
		t.Fatalf("%d patches (%v)", len(patches), err)
	}
	for _, patch := range patches {
		cmd := exec.Command("git", "apply", "--check", filepath.Join("pkg/lab/sim", patch))
		cmd.Dir = filepath.Join("..", "..", "..")
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Errorf("%s: %s", filepath.Base(patch), out)
		}
	}
}
