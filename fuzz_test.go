// SPDX-License-Identifier: Apache-2.0

package berth

import (
	"go/ast"
	"regexp"
	"strings"
	"testing"
)

// fuzzed says, for each function that makes something of what comes from
// outside, which fuzz target of its package feeds it anything. A "-" is for what
// only sees what a fuzzed one has let through, or what Berth itself made.
var fuzzed = map[string]string{
	"pkg/wire.DecodeRequest": "FuzzDecodeRequest", "pkg/wire.DecodeReport": "FuzzDecodeReport",
	"pkg/wire.DecodeInstance": "FuzzDecodeInstance",
	"pkg/wire.DecodeRejected": "FuzzDecodeRejected", "pkg/wire.DecodeBuild": "FuzzDecodeBuild",
	"pkg/wire.DecodeCommand": "FuzzDecodeCommand",
	"pkg/wire.DecodeBeacon":  "FuzzDecodeBeacon", "pkg/wire.DecodeQueue": "FuzzDecodeQueue",
	"pkg/wire.DecodeAdvice":  "FuzzDecodeAdvice",
	"pkg/wire.DecodeCatalog": "FuzzDecodeCatalog", "pkg/wire.DecodeConsole": "FuzzDecodeConsole",
	"pkg/wire.DecodeAudit":      "FuzzDecodeAudit",
	"pkg/wire.DecodeToken":      "FuzzDecodeToken",
	"pkg/wire.ParseInstanceKey": "FuzzParseInstanceKey", "pkg/wire.unmarshalJSON": "FuzzDecodeRequest",
	"pkg/wire.decode": "FuzzDecodeRequest", "pkg/wire.decodeBody": "FuzzDecodeRequest",
	"pkg/wire.unmarshal": "FuzzDecodeRequest",

	"pkg/wire/rest.UnmarshalText": "FuzzDuration", "pkg/wire/rest.parseClass": "FuzzProblem",
	"pkg/compute.ParseState": "FuzzNames", "pkg/compute.ParseKind": "FuzzNames",
	"pkg/compute.ParseGroupPolicy": "FuzzNames", "pkg/compute.UnmarshalText": "FuzzNames",
	"pkg/compute.ParsePriority": "FuzzNames", "pkg/compute.ParseAfterwards": "FuzzNames",
	"pkg/compute.ParseNoCapacity": "FuzzNames", "pkg/compute.ParseWeigher": "FuzzNames",
	"pkg/auth.ParseToken": "FuzzParseToken", "pkg/events.ParsePositions": "FuzzPositions",
	"pkg/events.ParseID": "FuzzID",
	"pkg/unpack.parse":   "FuzzRecord", "pkg/kafka/internal/fetch.Parse": "FuzzFetched", "pkg/kafka/loop.parse": "-",
	"pkg/kafka/loop.parseCursor": "FuzzCursor", "pkg/kafka/loop.parseReset": "FuzzCursor",
	"pkg/kafka/loop.parseMetadata": "FuzzCursor", "pkg/kafka/loop.ParseSyncAssignment": "FuzzAssignor",
	"pkg/kafka/share.parseTopicID": "FuzzTopicID", "pkg/api.parseCursor": "FuzzMarker",
	"pkg/api.parseFields":    "FuzzMarker",
	"pkg/follow/franz.parse": "-", "pkg/follow/sarama.parse": "-", "pkg/follow/kafkago.parse": "-",
	"pkg/follow/kafkago.parseSpan":                 "-", // of what the client has decoded
	"compute-agent/hypervisor/qemu/qmp.decode":     "FuzzDecode",
	"compute-agent/hypervisor/libvirt.decodeStamp": "FuzzStamp",
	"compute-agent/hypervisor/exec.decode":         "FuzzAnswers",
	"pkg/config.parse":                             "FuzzLoad", "pkg/config.decode": "FuzzLoad",

	"pkg/secretfile.Parse": "FuzzParse", "pkg/secretfile.DecodeSecret": "FuzzParse",

	"pkg/hostkey.decodeSeal": "FuzzSeal", "pkg/hostkey.parseMaster": "FuzzFiles",
	"pkg/hostkey.parseKey": "FuzzFiles", "pkg/hostkey.ParseMasterID": "FuzzFiles",
	"pkg/hostkey.ParseWithdrawn": "FuzzFiles",

	"pkg/publishkey.ParseProjects": "FuzzHeader", "pkg/publishkey.parseSigner": "FuzzHeader",
	"pkg/publishkey.parseLine": "FuzzFiles",

	"pkg/sealed.parse": "FuzzSealed",

	"pkg/localkafka.parseCount": "FuzzParseCount",
	"pkg/lab/bench.ParseSweep":  "FuzzParseSweep", "pkg/lab/bench.parseWhole": "FuzzParseSweep",
	"pkg/lab/bench.parseNumber": "FuzzParseSweep", "pkg/lab/bench.parseSpan": "FuzzParseSweep",

	"pkg/cli.ParseMemory": "FuzzSizes", "pkg/cli.parseDisk": "FuzzSizes", "pkg/cli.parseSize": "FuzzSizes",
	"pkg/cli.parseCapability": "FuzzPairs", "pkg/cli.ParseFormat": "FuzzPairs", "pkg/cli.parseAmounts": "FuzzPairs",
	"pkg/compute.ParseSelector": "FuzzSelector", "pkg/forward.ParseSecret": "FuzzForward",

	"pkg/cli.ParsePairs": "FuzzPairs", "pkg/cli.ParseLife": "FuzzSizes",
}

// decoder is how a function is called that reads what others wrote.
var decoder = regexp.MustCompile(`^(Decode|decode|Parse|parse|Unmarshal|unmarshal)([A-Z]|$)`)

func TestEveryDecoderIsFuzzed(t *testing.T) {
	targets, decoders := map[string]bool{}, map[string]bool{}
	eachFile(t, func(_ *testing.T, f source) {
		for _, d := range f.ast.Decls {
			fn, ok := d.(*ast.FuncDecl)
			if !ok {
				continue
			}
			name := f.folder + "." + fn.Name.Name
			if f.test && strings.HasPrefix(fn.Name.Name, "Fuzz") {
				targets[name] = true
			}
			if !f.test && decoder.MatchString(fn.Name.Name) {
				decoders[name] = true
			}
		}
	})
	for name := range decoders {
		target, ok := fuzzed[name]
		folder, _, _ := strings.Cut(name, ".")
		if !ok || target != "-" && !targets[folder+"."+target] {
			t.Errorf("%s reads what others wrote, and no fuzz target %q of its package feeds it", name, target)
		}
	}
	for name := range fuzzed {
		if !decoders[name] {
			t.Errorf("%s is in the list and not in the code", name)
		}
	}
	for _, name := range []string{
		"pkg/api.FuzzHTTP", "pkg/api.FuzzMarker", "pkg/api/strict.FuzzJSON", "pkg/client.FuzzAnswer",
		"compute-agent/journal.FuzzValue", "compute-agent/hypervisor/host.FuzzProc", "pkg/wire/rest.FuzzBoot",
		"pkg/wire/rest.FuzzCatalog", "pkg/compute.FuzzSums", "pkg/auth/oidc.FuzzClaims",
	} {
		if !targets[name] {
			t.Errorf("%s is gone", name)
		}
	}
	if len(decoders) < 20 {
		t.Errorf("only %d decoders were found", len(decoders))
	}
}
