// SPDX-License-Identifier: Apache-2.0

package wire

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/berth-project/berth/pkg/compute"
)

func TestInstanceKey(t *testing.T) {
	p, id, err := ParseInstanceKey(KeyInstance(sampleProject, sampleInstance))
	if err != nil || p != sampleProject || id != sampleInstance {
		t.Errorf("%s, %s, %v", p, id, err)
	}
	for _, key := range []string{
		"", "web-shop", "/" + string(sampleInstance), "web-shop/", "web-shop/a/" + string(sampleInstance),
	} {
		if _, _, err := ParseInstanceKey([]byte(key)); compute.KindOf(err) != compute.KindInvalid {
			t.Errorf("%q: %v", key, err)
		}
	}
}

// The keys are what compaction goes by: they may never change.
func TestKeys(t *testing.T) {
	fence, hello, drain := sampleRequest(compute.OpFence), sampleReport(compute.ReportHello), compute.Command{
		Op: compute.CommandFenced,
	}
	got := map[string]string{}
	for name, rec := range map[string]Record{
		"request": EncodeRequest(sampleRequest(compute.OpDelete)), "fence": EncodeRequest(fence),
		"report": EncodeReport(sampleReport(compute.ReportGone)), "hello": EncodeReport(hello),
		"instance": EncodeInstance(sampleInstanceRecord()), "rejected": EncodeRejected(sampleRejected()),
		"build": EncodeBuild(sampleBuild()), "command": EncodeCommand(sampleCommand(compute.CommandGrant)),
		"fenced": EncodeCommand(drain),
		"beacon": EncodeBeacon(sampleBeacon()), "queue": EncodeQueue(sampleQueue()),
		"advice": EncodeAdvice(sampleAdvice()),
		"flavor": EncodeFlavor(sampleFlavor()), "capability": EncodeCapability(sampleCapability()),
		"quota": EncodeQuota(sampleQuota()), "token": EncodeToken(sampleToken()),
		"audit": EncodeAudit(sampleAudit()),
	} {
		got[name] = string(rec.Key)
	}
	want := map[string]string{
		"request": "web-shop", "fence": "host-17", "report": "web-shop", "hello": "host-17",
		"instance": "web-shop/" + string(sampleInstance), "rejected": "web-shop",
		"build": string(sampleInstance), "command": string(sampleInstance), "fenced": "",
		"beacon": "host-17", "queue": "m1.small.disk-ssd.gpu-a100", "advice": "",
		"flavor": "flavor/m1.small", "capability": "capability/gpu", "quota": "quota/_default",
		"token": "abcdefghij234567", "audit": "deploy-42",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

func TestCatalogRemoved(t *testing.T) {
	for key, want := range map[string]CatalogEntry{
		string(KeyFlavor("m1.small")): {FlavorName: "m1.small", Removed: true},
		string(KeyCapability("gpu")):  {Axis: "gpu", Removed: true},
		string(KeyQuota("web-shop")):  {Project: "web-shop", Removed: true},

		string(KeyGroup("web-shop", "web")): {Project: "web-shop", GroupName: "web", Removed: true},
	} {
		got, err := DecodeCatalog(Tombstone([]byte(key)))
		if diff := cmp.Diff(want, got); diff != "" || err != nil {
			t.Errorf("%s: %v %s", key, err, diff)
		}
	}
}
