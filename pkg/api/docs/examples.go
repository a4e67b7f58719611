// SPDX-License-Identifier: Apache-2.0

package docs

import (
	"encoding/json"
	"net/http"
	"strings"

	"github.com/danielgtaylor/huma/v2"
)

// Example is a call of one operation that a cell answers as the operation says.
type Example struct {
	Operation string
	Path      string // with its query
	Body      string // JSON; empty: none
}

// ID is that of the instance in the examples.
const ID = "5f0c6f0e-3c41-4a53-9d0b-0f6c1b7a2d11"

// Examples are all operations, in an order in which they can be called one after the other. They are in docs/API.md and
// in /openapi.json; TestPageOfTheAPI in cmd/berth has a cell answer each.
func Examples() []Example {
	return []Example{
		{Operation: "healthy", Path: "/healthz"},
		{Operation: "ready", Path: "/readyz"},
		{Operation: "whoami", Path: "/v1/whoami"},

		{Operation: "add-capability", Path: "/v1/capabilities",
			Body: `{"axis": "disk", "values": [{"value": "ssd"}, {"value": "hdd"}]}`},
		{Operation: "add-flavor", Path: "/v1/flavors", Body: `{"name": "m1.small", "capabilities": ["disk"],` +
			` "resources": {"VCPU": 1, "MEMORY_MB": 2048, "DISK_GB": 20}}`},
		{Operation: "list-capabilities", Path: "/v1/capabilities"},
		{Operation: "show-capability", Path: "/v1/capabilities/disk"},
		{Operation: "list-flavors", Path: "/v1/flavors?limit=100"},
		{Operation: "show-flavor", Path: "/v1/flavors/m1.small"},
		{Operation: "list-queues", Path: "/v1/queues?flavor=m1.small"},
		{Operation: "show-queue", Path: "/v1/queues/m1.small.disk-ssd"},
		{Operation: "show-capacity", Path: "/v1/capacity?by=disk"},
		{Operation: "set-quota", Path: "/v1/quotas/web", Body: `{"limits": {"INSTANCES": 10, "VCPU": 40}}`},
		{Operation: "change-quota", Path: "/v1/quotas/web", Body: `{"limits": {"INSTANCES": 20, "VCPU": null}}`},
		{Operation: "show-quota", Path: "/v1/quotas/web"},
		{Operation: "list-quotas", Path: "/v1/quotas"},
		{Operation: "create-group", Path: "/v1/groups?project=web", Body: `{"name": "front", "policy": "anti-affinity"}`},
		{Operation: "set-group", Path: "/v1/groups/front?project=web",
			Body: `{"policy": "anti-affinity", "max_per_host": 2, "spread": "disk", "max_skew": 1}`},
		{Operation: "change-group", Path: "/v1/groups/front?project=web", Body: `{"max_skew": 2}`},
		{Operation: "list-groups", Path: "/v1/groups?project=web"},
		{Operation: "show-group", Path: "/v1/groups/front?project=web"},
		{Operation: "boot-group", Path: "/v1/groups/front/boot?project=web",
			Body: `{"boots": [{"name": "front-1", "flavor": "m1.small"}, {"name": "front-2", "flavor": "m1.small"}]}`},
		{Operation: "delete-group", Path: "/v1/groups/front?project=web"},
		{Operation: "create-reservation", Path: "/v1/reservations?project=web",
			Body: `{"name": "nightly", "flavor": "m1.small", "count": 2, "for": "2h"}`},
		{Operation: "list-reservations", Path: "/v1/reservations?project=web"},
		{Operation: "show-reservation", Path: "/v1/reservations/nightly?project=web"},
		{Operation: "delete-reservation", Path: "/v1/reservations/nightly?project=web"},
		{Operation: "boot", Path: "/v1/instances", Body: `{"project": "web", "id": "` + ID + `",` +
			"\n       " + `"name": "web-1", "flavor": "m1.small", "with": {"disk": "ssd"}}`},
		{Operation: "boot-set", Path: "/v1/sets?project=web", Body: `{"boots": [{"name": "db-1", "flavor": "m1.small"},` +
			"\n       " + `{"name": "db-2", "flavor": "m1.small", "with": {"disk": "ssd"}}]}`},
		{Operation: "show-instance", Path: "/v1/instances/" + ID + "?project=web"},
		{Operation: "list-instances", Path: "/v1/instances?project=web&state=active"},
		{Operation: "explain-instance", Path: "/v1/instances/" + ID + "/explain?project=web"},
		{Operation: "explain-boot", Path: "/v1/explain?project=web&flavor=m1.small&with=disk%3Dssd"},
		{Operation: "ask-placements", Path: "/v1/placements?project=web",
			Body: `{"atomic": true, "mix": [{"flavor": "m1.small", "count": 5}, {"flavor": "m1.small", "with": {"disk": "ssd"}}]}`},
		{Operation: "show-console", Path: "/v1/instances/" + ID + "/console?project=web&offset=-4096"},
		{Operation: "follow-events", Path: "/v1/events?project=web&follow=false"},
		{Operation: "show-story", Path: "/v1/instances/" + ID + "/events?project=web"},
		{Operation: "list-rejected", Path: "/v1/rejected?project=web&since=2026-01-01T00:00:00Z"},
		{Operation: "stop-instance", Path: "/v1/instances/" + ID + "/stop?project=web",
			Body: `{"command": "night-1"}`},
		{Operation: "start-instance", Path: "/v1/instances/" + ID + "/start?project=web", Body: `{}`},
		{Operation: "reboot-instance", Path: "/v1/instances/" + ID + "/reboot?project=web",
			Body: `{"hard": true, "command": "kernel-2"}`},
		{Operation: "change-instance", Path: "/v1/instances/" + ID + "?project=web",
			Body: `{"name": "web-2", "metadata": {"team": "shop"}}`},
		{Operation: "delete-instance", Path: "/v1/instances/" + ID + "?project=web"},
		{Operation: "list-hosts", Path: "/v1/hosts"},
		{Operation: "show-host", Path: "/v1/hosts/host-01"},
		{Operation: "list-host-instances", Path: "/v1/hosts/host-01/instances"},
		{Operation: "drain-host", Path: "/v1/hosts/host-01/drain", Body: `{"reason": "new kernel"}`},
		{Operation: "disable-host", Path: "/v1/hosts/host-01/disable", Body: `{"reason": "noisy fan"}`},
		{Operation: "enable-host", Path: "/v1/hosts/host-01/enable", Body: `{}`},
		{Operation: "evacuate-host", Path: "/v1/hosts/host-02/evacuate", Body: `{"fenced": true}`},
		{Operation: "forget-host", Path: "/v1/hosts/host-02/forget", Body: `{"fenced": true}`},
		{Operation: "create-token", Path: "/v1/tokens", Body: `{"role": "member", "project": "web", "name": "ci-bot"}`},
		{Operation: "list-tokens", Path: "/v1/tokens"},
		{Operation: "revoke-token", Path: "/v1/tokens/$TOKEN_ID"},
		{Operation: "list-audit", Path: "/v1/audit?project=web&since=2026-01-01T00:00:00Z"},
		{Operation: "remove-flavor", Path: "/v1/flavors/m1.small"},
		{Operation: "remove-capability", Path: "/v1/capabilities/disk"},
	}
}

// Curl is the example as one types it, in a shell that has the address of a node in BERTH_API and, if the caller signs
// in, a token in BERTH_TOKEN.
func (e Example) Curl(method string, signsIn bool) string {
	var out strings.Builder
	out.WriteString("curl ")
	if method != http.MethodGet && (method != http.MethodPost || e.Body == "") {
		out.WriteString("-X " + method + " ")
	}
	out.WriteString(`"$BERTH_API` + e.Path + `"`)
	if signsIn {
		out.WriteString(" \\\n  -H \"Authorization: Bearer $BERTH_TOKEN\"")
	}
	if e.Body != "" {
		out.WriteString(" \\\n  -H 'Content-Type: application/json' \\\n  -d '" +
			strings.ReplaceAll(e.Body, "'", `'\''`) + "'")
	}
	return out.String()
}

// sample is a code sample as Redoc and its like know it.
type sample struct {
	Lang   string `json:"lang"`
	Label  string `json:"label"`
	Source string `json:"source"`
}

// Annotate gives the operations of a document their examples.
func Annotate(doc *huma.OpenAPI) {
	examples := map[string]Example{}
	for _, e := range Examples() {
		examples[e.Operation] = e
	}
	for _, at := range doc.Paths {
		for _, op := range []*huma.Operation{at.Get, at.Post, at.Put, at.Patch, at.Delete} {
			if op == nil {
				continue
			}
			if e, ok := examples[op.OperationID]; ok {
				e.annotate(op)
			}
		}
	}
}

func (e Example) annotate(op *huma.Operation) {
	if op.Extensions == nil {
		op.Extensions = map[string]any{}
	}
	op.Extensions["x-codeSamples"] = []sample{{"Shell", "curl", e.Curl(op.Method, len(op.Security) > 0)}}
	if e.Body != "" {
		op.RequestBody.Content["application/json"].Example = json.RawMessage(e.Body)
	}
}

// Tags are what operations are about, in the order in which people come to them.
func Tags() []*huma.Tag {
	return []*huma.Tag{
		{Name: "instances", Description: "Boot machines, follow them, change and delete them; say why one waits."},
		{Name: "flavors", Description: "Sizes of machines."},
		{Name: "capabilities", Description: "What a boot may choose besides its flavor."},
		{Name: "queues", Description: "Where boots wait, and how many more there is room for."},
		{Name: "quotas", Description: "What projects use, and may."},
		{Name: "reservations", Description: "Room that hosts hold for boots to come."},
		{Name: "groups", Description: "Rules about where instances of a project may run beside each other."},
		{Name: "hosts", Description: "What hosts have and do; drain, disable and enable them."},
		{Name: "access", Description: "Tokens, who did what, and which records were refused."},
		{Name: "health", Description: "Whether this node works. Nobody has to sign in."},
	}
}
