// SPDX-License-Identifier: Apache-2.0

package wire

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/berth-project/berth/pkg/compute"
	pb "github.com/berth-project/berth/pkg/wire/berthv1"
)

// changed is a request to boot with something changed in its message.
func changed(change func(*pb.Request)) Record {
	rec := EncodeRequest(sampleRequest(compute.OpBoot))
	m := &pb.Request{}
	if err := proto.Unmarshal(rec.Value, m); err != nil {
		panic(err)
	}
	change(m)
	out := seal(rec.Key, m, "")
	return out
}

func header(rec Record, key, value string) Record {
	rec.Headers = append(rec.Headers, Header{Key: key, Value: []byte(value)})
	return rec
}

func keyed(rec Record, key string) Record {
	rec.Key = []byte(key)
	return rec
}

func TestRefused(t *testing.T) {
	request, report, command := of(DecodeRequest), of(DecodeReport), of(DecodeCommand)
	boot := EncodeRequest(sampleRequest(compute.OpBoot))
	claim := sampleReport(compute.ReportClaim)
	large := changed(func(m *pb.Request) { m.GetBoot().UserData = make([]byte, MaxRequest) })
	for _, c := range []struct {
		name         string
		rec          Record
		decode       func(Record) (any, error)
		field, value string
	}{
		{"later schema", header(boot, HeaderSchema, fmt.Sprint(Schema+1)), request, HeaderSchema, fmt.Sprint(Schema + 1)},
		{
			"later schema of an instance", header(EncodeInstance(sampleInstanceRecord()), HeaderSchema, fmt.Sprint(Schema+1)),
			of(DecodeInstance), HeaderSchema, fmt.Sprint(Schema + 1),
		},
		{
			"later schema of the catalog", header(EncodeFlavor(sampleFlavor()), HeaderSchema, fmt.Sprint(Schema+1)),
			of(DecodeCatalog), HeaderSchema, fmt.Sprint(Schema + 1),
		},
		{"schema zero", header(boot, HeaderSchema, "0"), request, HeaderSchema, "0"},
		{"schema no number", header(boot, HeaderSchema, "one"), request, HeaderSchema, "one"},
		{"tombstone", Tombstone([]byte("web-shop")), request, "value", ""},
		{
			"tombstone of an instance", Tombstone(KeyInstance(sampleProject, sampleInstance)),
			of(DecodeInstance), "value", "",
		},
		{"no protobuf", Record{Value: []byte("\xff\xff")}, request, "value", "2 bytes"},
		{"JSON unannounced", Record{Value: []byte(`{"project":"p"}`)}, request, "value", "15 bytes"},
		{
			"content type", header(boot, HeaderContentType, "text/plain; charset=utf-8"), request,
			HeaderContentType, "text/plain",
		},
		{"too large", large, request, "value", fmt.Sprintf("%d bytes", len(large.Value))},
		{"other project's key", keyed(boot, "web"), request, "key", "web"},
		{"other project's key of a report", keyed(EncodeReport(claim), "web"), report, "key", "web"},
		{
			"other instance's key", keyed(EncodeInstance(sampleInstanceRecord()), "web-shop/x"),
			of(DecodeInstance), "key", "web-shop/x",
		},
		{"other host's key", keyed(EncodeBeacon(sampleBeacon()), "host-1"), of(DecodeBeacon), "key", "host-1"},
		{"other queue's key", keyed(EncodeQueue(sampleQueue()), "m1"), of(DecodeQueue), "key", "m1"},
		{"other flavor's key", keyed(EncodeFlavor(sampleFlavor()), "flavor/m1"), of(DecodeCatalog), "key", "flavor/m1"},
		{
			"other axis' key", keyed(EncodeCapability(sampleCapability()), "capability/disk"),
			of(DecodeCatalog), "key", "capability/disk",
		},
		{"other project's quota", keyed(EncodeQuota(sampleQuota()), "quota/p"), of(DecodeCatalog), "key", "quota/p"},
		{"catalog without a name", keyed(EncodeFlavor(sampleFlavor()), "flavor/"), of(DecodeCatalog), "key", "flavor/"},
		{
			"catalog of something else", keyed(EncodeFlavor(sampleFlavor()), "image/x"), of(DecodeCatalog),
			"key", "image/x",
		},
		{"no operation", changed(func(m *pb.Request) { m.Operation = nil }), request, "operation", "none"},
		{"project", changed(func(m *pb.Request) { m.Project = "No" }), request, "project", "No"},
		{"instance", changed(func(m *pb.Request) { m.Instance = "1" }), request, "instance id", "1"},
		{"flavor", changed(func(m *pb.Request) { m.GetBoot().Flavor = "a/b" }), request, "flavor", "a/b"},
		{"enum", changed(func(m *pb.Request) { m.GetBoot().OnNoCapacity = 9 }), request, "boot.on_no_capacity", "9"},
		{
			"duration",
			changed(func(m *pb.Request) { m.GetBoot().Deadline = &durationpb.Duration{Seconds: 1, Nanos: -1} }),
			request, "boot.deadline", "1 s -1 ns",
		},
		{
			"deadline",
			changed(func(m *pb.Request) { m.GetBoot().Deadline = &durationpb.Duration{Seconds: -1} }), request,
			"deadline", "-1s",
		},
		{"time", changed(func(m *pb.Request) { m.At = &timestamppb.Timestamp{Nanos: -1} }), request, "at", "0 s -1 ns"},
		{
			"user data",
			changed(func(m *pb.Request) { m.GetBoot().UserData = make([]byte, compute.MaxUserData+1) }),
			request, "user_data", "262145 bytes",
		},
		{
			"sealed user data",
			changed(func(m *pb.Request) {
				m.GetBoot().UserData, m.GetBoot().SealedUserData = nil, make([]byte, compute.MaxSealed+1)
			}).InSchema(2),
			request, "sealed_user_data", "262178 bytes",
		},
		{
			"user data twice",
			changed(func(m *pb.Request) { m.GetBoot().SealedUserData = []byte("sealed") }).InSchema(2),
			request, "sealed_user_data", "6 bytes",
		},
		{
			"command id", changed(func(m *pb.Request) { m.Command = strings.Repeat("x", MaxID+1) }), request,
			"command", "129 bytes",
		},
		{"fence without a host", seal(nil, &pb.Request{Operation: &pb.Request_Fence{}}, ""), request, "host", ""},
		{"report of nothing", seal(nil, &pb.Report{Host: "host-17"}, ""), report, "op", "0"},
		{"report of a later schema", seal(nil, &pb.Report{Host: "host-17", Op: 77}, ""), report, "op", "77"},
		{"report of no host", seal(nil, &pb.Report{Op: pb.ReportOp_REPORT_OP_HELLO}, ""), report, "host", ""},
		{
			"claim id",
			EncodeReport(compute.Report{
				Op: compute.ReportHello, Host: "h", Claim: compute.ClaimID(strings.Repeat("x", 200)),
			}),
			report, "claim", "200 bytes",
		},
		{
			"journal id",
			EncodeReport(compute.Report{
				Op: compute.ReportHello, Host: "h", Journal: compute.JournalID(strings.Repeat("x", 200)),
			}),
			report, "journal", "200 bytes",
		},
		{"command of nothing", seal(nil, &pb.Command{}, ""), command, "op", "0"},
		{"build without a build", seal(nil, &pb.Command{Op: pb.CommandOp_COMMAND_OP_BUILD}, ""), command, "build", ""},
		{"power without power", seal(nil, &pb.Command{Op: pb.CommandOp_COMMAND_OP_POWER}, ""), command, "power", ""},
		{"host without a wish", seal(nil, &pb.Command{Op: pb.CommandOp_COMMAND_OP_HOST}, ""), command, "desired", ""},
		{
			"power op",
			seal(nil, &pb.Command{Op: pb.CommandOp_COMMAND_OP_POWER, Power: &pb.PowerCommand{}}, ""), command,
			"power.op", "0",
		},
		{"state", seal(nil, &pb.Instance{State: 40}, ""), of(DecodeInstance), "state", "40"},
		{
			"failure class", seal(nil, &pb.Instance{Failures: []*pb.Failure{{Class: 40}}}, ""),
			of(DecodeInstance), "failures.class", "40",
		},
		{"host state", seal(nil, &pb.Beacon{Host: "h"}, ""), of(DecodeBeacon), "state", "0"},
		{"host", seal(nil, &pb.Beacon{State: 1}, ""), of(DecodeBeacon), "host", ""},
		{"queue state", seal(nil, &pb.Queue{}, ""), of(DecodeQueue), "state", "0"},
	} {
		t.Run(c.name, func(t *testing.T) {
			_, err := c.decode(c.rec)
			var e *compute.Error
			if !errors.As(err, &e) {
				t.Fatalf("%v, wanted a *compute.Error", err)
			}
			if e.Kind != compute.KindInvalid || e.Field != c.field || e.Value != c.value || e.Remedy == "" {
				t.Errorf("kind %v, field %q, value %q, remedy %q; wanted invalid, %q, %q and a remedy",
					e.Kind, e.Field, e.Value, e.Remedy, c.field, c.value)
			}
			if !strings.HasPrefix(e.Op, "read ") {
				t.Errorf("op %q does not say what was read", e.Op)
			}
		})
	}
}

// Whatever somebody sends, the refusal is short enough to be written down.
func TestRefusalsAreShort(t *testing.T) {
	long := strings.Repeat("x", 100_000)
	for name, rec := range map[string]Record{
		"schema":       {Headers: []Header{{Key: HeaderSchema, Value: []byte(long)}}, Value: []byte{}},
		"content type": {Headers: []Header{{Key: HeaderContentType, Value: []byte(long)}}, Value: []byte{}},
		"JSON":         {Headers: []Header{{Key: HeaderContentType, Value: []byte(ContentJSON)}}, Value: []byte(long)},
		"JSON name": {
			Headers: []Header{{Key: HeaderContentType, Value: []byte(ContentJSON)}},
			Value:   []byte(`{"` + long + `":1}`),
		},
		"project": changed(func(m *pb.Request) { m.Project = long }),
		"key":     keyed(EncodeRequest(sampleRequest(compute.OpBoot)), long),
	} {
		_, err := DecodeRequest(rec)
		var e *compute.Error
		if !errors.As(err, &e) || len(e.Error()) > 1000 || len(e.Value) > maxShown {
			t.Errorf("%s: %.2000v", name, err)
		}
	}
}

func TestHeadersMayBeAbsent(t *testing.T) {
	rec := EncodeReport(sampleReport(compute.ReportClaim))
	rec.Headers, rec.Key = nil, nil
	if _, err := DecodeReport(rec); err != nil {
		t.Error(err)
	}
}

// What is written to every partition is about no project; any key will do.
func TestKeysOfEveryPartition(t *testing.T) {
	for _, op := range []compute.RequestOp{compute.OpFence, compute.OpForget} {
		if _, err := DecodeRequest(keyed(EncodeRequest(sampleRequest(op)), "any")); err != nil {
			t.Errorf("%v: %v", op, err)
		}
	}
	if _, err := DecodeReport(keyed(EncodeReport(sampleReport(compute.ReportHello)), "any")); err != nil {
		t.Errorf("hello: %v", err)
	}
}

func TestTrace(t *testing.T) {
	for trace, want := range map[compute.Trace]compute.Trace{
		sampleTrace:                      sampleTrace,
		"":                               "",
		"two\nlines":                     "",
		"none":                           "",
		sampleTrace[1:]:                  "",
		sampleTrace + "-more":            "", // version 00 has nothing behind the flags
		"01" + sampleTrace[2:]:           "01" + sampleTrace[2:],
		"01" + sampleTrace[2:] + "-more": "01" + sampleTrace[2:] + "-more",
		"01" + sampleTrace[2:] + "more":  "",
		"01" + sampleTrace[2:] + "-\n":   "",
		compute.Trace(strings.ToUpper(string(sampleTrace))):                         "",
		compute.Trace(strings.ReplaceAll(string(sampleTrace), "-", "_")):            "",
		"01" + sampleTrace[2:] + "-" + compute.Trace(strings.Repeat("0", maxTrace)): "",
		compute.Trace(strings.Repeat("0", maxTrace+1)):                              "",
	} {
		q := sampleRequest(compute.OpDelete)
		q.Trace = ""
		rec := header(EncodeRequest(q), HeaderTrace, string(trace))
		got, err := DecodeRequest(rec)
		if err != nil || got.Trace != want {
			t.Errorf("%q is read as %q (%v), wanted %q", trace, got.Trace, err, want)
		}
		q.Trace = trace
		if sent := EncodeRequest(q).Header(HeaderTrace); string(sent) != string(want) {
			t.Errorf("%q is sent as %q, wanted %q", trace, sent, want)
		}
	}
}
