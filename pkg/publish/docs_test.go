// SPDX-License-Identifier: Apache-2.0

package publish_test

import (
	"os"
	"regexp"
	"strings"
	"testing"

	"google.golang.org/protobuf/reflect/protoreflect"

	"github.com/berth-project/berth/pkg/compute"
	"github.com/berth-project/berth/pkg/publish"
	"github.com/berth-project/berth/pkg/wire"
	pb "github.com/berth-project/berth/pkg/wire/berthv1"
)

func document(t *testing.T) string {
	t.Helper()
	text, err := os.ReadFile("../../docs/PUBLISHING.md")
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// Each JSON document in docs/PUBLISHING.md is a request, and every operation is there.
func TestDocumentedJSON(t *testing.T) {
	seen := map[compute.RequestOp]bool{}
	for _, block := range regexp.MustCompile("(?s)```json\n(.*?)```").FindAllStringSubmatch(document(t), -1) {
		for _, body := range split(block[1]) {
			rec := wire.Record{
				Value:   []byte(body),
				Headers: []wire.Header{{Key: "content-type", Value: []byte("application/json")}},
			}
			q, err := wire.DecodeRequest(rec)
			if err != nil {
				t.Errorf("%s: %v", body, err)
				continue
			}
			if _, err := publish.Record(q); err != nil {
				t.Errorf("%s: %v", body, err)
			}
			seen[q.Op] = true
		}
	}
	for op := compute.OpBoot; op <= compute.OpChange; op++ {
		if !seen[op] {
			t.Errorf("no example of %s", op)
		}
	}
}

// split takes documents that follow each other apart.
func split(block string) []string {
	if strings.HasPrefix(block, "{\n") {
		return []string{block}
	}
	return strings.Split(strings.TrimSpace(block), "\n")
}

// Every field that a request may have is in the table.
func TestEveryFieldIsDocumented(t *testing.T) {
	text := document(t)
	check := func(prefix string, m protoreflect.MessageDescriptor) {
		for i := range m.Fields().Len() {
			if name := "`" + prefix + string(m.Fields().Get(i).Name()) + "`"; !strings.Contains(text, name) {
				t.Errorf("%s is not in docs/PUBLISHING.md", name)
			}
		}
	}
	check("", (&pb.Request{}).ProtoReflect().Descriptor())
	check("boot.", (&pb.Boot{}).ProtoReflect().Descriptor())
	check("change.", (&pb.ChangeInstance{}).ProtoReflect().Descriptor())
}
