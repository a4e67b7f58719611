// SPDX-License-Identifier: Apache-2.0

package measure

import (
	"context"
	"encoding/json"
	"strings"
	"testing"
)

// sizes runs `berth sim size`.
func sizes(t *testing.T, args ...string) (out, said string, code int) {
	t.Helper()
	code, out, said = typed(t.Context(), append([]string{"sim", "size"}, args...), NewSim())
	return out, said, code
}

func TestSimSize(t *testing.T) {
	small := []string{"--hosts", "500", "--requests", "5000", "--within", "20s", "--handles", "12000"}
	out, said, code := sizes(t, append(small, "-o", "json")...)
	if code != 0 {
		t.Fatalf("exit %d: %s", code, said)
	}
	var r sized
	if err := json.Unmarshal([]byte(out), &r); err != nil {
		t.Fatal(err)
	}
	if r.One.Granted != 5000 || r.One.Left != 0 || len(r.One.Brokers) != 3 || r.One.GrantedMS.P50 <= 0 ||
		r.Options.CostsMS["request"] != 0.072 {
		t.Errorf("got %s", out)
	}
	// 5 × hosts + 2 × 142 + 10,000 ≤ 12,000
	if r.Cells == nil || r.Cells.Rate != 250 || r.Cells.Handles != 2 || r.Cells.Needed < 2 ||
		r.Cells.Each.Hosts != 250 {
		t.Errorf("cells: %s", out)
	}
	if again, _, _ := sizes(t, append(small, "-o", "json")...); again != out {
		t.Error("the same flags give something else")
	}
	table, _, code := sizes(t, small...)
	for _, want := range []string{
		"500 hosts, 5000 requests, all queued at once, 100 queues; a cell is 3 brokers of 8 processors, 3 conductors",
		"5000 in ", "accepted→granted:", "broker 1:", "broker 3:", "Cells for 250 boots/s together",
		"for handles:     2 (12000 a broker)", "Each of them: 250 hosts, 125 boots/s",
	} {
		if code != 0 || !strings.Contains(table, want) {
			t.Errorf("exit %d, no %q in:\n%s", code, want, table)
		}
	}
}

func TestSimSizeFlags(t *testing.T) {
	base := []string{"--hosts", "50", "--requests", "200", "--rate", "100", "--cells=false"}
	cheap, _, code := sizes(t, base...)
	dear, _, _ := sizes(t, append(base, "--cost", "request=5ms", "--weigher", "pack")...)
	if code != 0 || cheap == dear || strings.Contains(cheap, "Cells") ||
		!strings.Contains(cheap, "granted:            200 in ") {
		t.Errorf("exit %d:\n%s\n%s", code, cheap, dear)
	}
	for args, want := range map[string]string{
		"--hosts 0": "hosts", "--weigher heavy": "give spread or pack", "--cost speed=1ms": "there are request=",
		"--cost request=fast": "give a time", "--within 0s": "within", "--replication 9": "give 1 to 3",
		"--sizes 0": "sizes",
	} {
		if _, said, code := sizes(t, strings.Fields(args)...); code != 2 || !strings.Contains(said, want) {
			t.Errorf("%s: exit %d, said %q, want %q in it", args, code, said, want)
		}
	}
}

func TestSimSizeInterrupted(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	code, out, said := typed(ctx, []string{"sim", "size", "--hosts", "2000", "--requests", "100000"}, NewSim())
	if code != 1 || out != "" || !strings.Contains(said, "was interrupted") ||
		!strings.Contains(said, "one cell, 2000 hosts: ") {
		t.Errorf("exit %d, %q, %q", code, out, said)
	}
}
