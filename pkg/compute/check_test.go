// SPDX-License-Identifier: Apache-2.0

package compute

import (
	"errors"
	"fmt"
	"io"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// id is the nth of some instance ids.
func id(n int) InstanceID { return InstanceID(fmt.Sprintf("00000000-0000-4000-8000-%012d", n)) }

// refuses says whether a check refuses for a field, and nothing else; empty: it takes it.
func refuses(t *testing.T, what string, err error, field string) {
	t.Helper()
	var e *Error
	errors.As(err, &e)
	switch {
	case field == "" && err != nil:
		t.Errorf("%s: %v", what, err)
	case field != "" && (e == nil || e.Kind != KindInvalid || e.Field != field):
		t.Errorf("%s: %v, want an error of %s", what, err, field)
	}
}

func TestRequestCheck(t *testing.T) {
	boot, name := Boot{Flavor: "f"}, "n"
	good := map[RequestOp]Request{
		OpBoot: {Boot: &boot}, OpDelete: {}, OpStop: {}, OpStart: {}, OpReboot: {}, OpChange: {Change: &Change{Name: &name}},
		OpBootSet: {Set: []SetBoot{{id(1), boot}, {id(2), boot}}},
		OpReserve: {Reserve: &Reserve{Name: "r", Until: time.Unix(1, 0), Boot: boot, Instances: []InstanceID{id(1), id(2)}}},
	}
	for op, r := range good {
		r.Op, r.Project, r.Instance = op, "p", id(1)
		refuses(t, op.String(), r.Check(), "")
		none := r
		none.Project = ""
		refuses(t, op.String()+" without a project", none.Check(), "project")
		none = r
		none.Instance = "no id"
		field := "instance id"
		if op == OpBootSet || op == OpReserve {
			field = "instance"
		}
		refuses(t, op.String()+" without an instance", none.Check(), field)
	}
	for _, op := range []RequestOp{OpFence, OpForget, OpConfirm} {
		refuses(t, op.String(), Request{Op: op, Host: "h"}.Check(), "")
		refuses(t, op.String(), Request{Op: op, Project: "p", Instance: id(1)}.Check(), "host")
	}
	for field, r := range map[string]Request{
		"boot": {Op: OpBoot}, "flavor": {Op: OpBoot, Boot: &Boot{}}, "change": {Op: OpChange}, "metadata": {
			Op: OpChange, Change: &Change{Set: map[string]string{"": "a"}},
		},
		"reserve": {Op: OpReserve}, "reservation": {Op: OpReserve, Reserve: &Reserve{}}, "set": {Op: OpBootSet},
		"operation": {},
	} {
		r.Project, r.Instance = "p", id(1)
		refuses(t, "no "+field, r.Check(), field)
	}
	for op := OpNone; op <= OpReserve; op++ {
		if of := op == OpFence || op == OpForget || op == OpConfirm; op.OfHost() != of {
			t.Errorf("%s is of a host: %t", op, op.OfHost())
		}
	}
}

func TestSetCheck(t *testing.T) {
	boots := func(ids ...InstanceID) (all []SetBoot) {
		for _, i := range ids {
			all = append(all, SetBoot{i, Boot{Flavor: "f"}})
		}
		return all
	}
	many := func(n int) (ids []InstanceID) {
		for i := range n {
			ids = append(ids, id(i+1))
		}
		return ids
	}
	spoilt := func(edit func(*Boot)) []SetBoot {
		all := boots(id(1), id(2))
		edit(&all[1].Boot)
		return all
	}
	for what, c := range map[string]struct {
		set   []SetBoot
		field string
	}{
		"one":              {boots(id(1)), "set"},
		"two":              {boots(id(1), id(2)), ""},
		"as many":          {boots(many(MaxSet)...), ""},
		"more":             {boots(many(MaxSet + 1)...), "set"},
		"one twice":        {boots(id(1), id(3), id(2), id(1)), "set"},
		"no id":            {boots(id(1), "x"), "instance id"},
		"no flavor":        {spoilt(func(b *Boot) { b.Flavor = "" }), "flavor"},
		"of a reservation": {spoilt(func(b *Boot) { b.Reserving("r") }), "reservation"},
		"preemptible":      {spoilt(func(b *Boot) { b.Preempt(Preemptible{Then: ThenDelete}) }), "preemptible"},
	} {
		refuses(t, what, Request{Set: c.set}.checkSet(), c.field)
	}
	err := Request{Set: spoilt(func(b *Boot) { b.Flavor = "" })}.checkSet()
	if !strings.HasPrefix(fmt.Sprint(err), "boot 2 of the set: ") {
		t.Error(err)
	}
	err = Request{Set: spoilt(func(b *Boot) { b.Reserving("r") })}.checkSet()
	if !strings.HasPrefix(fmt.Sprint(err), "boot 2 of the set: ") {
		t.Error(err)
	}
}

func TestReserveCheck(t *testing.T) {
	from := time.Unix(1e9, 0)
	some := func(n int) (ids []InstanceID) {
		for i := range n {
			ids = append(ids, id(n-i))
		}
		return ids
	}
	for what, c := range map[string]struct {
		edit  func(*Reserve)
		field string
	}{
		"all is well":   {func(*Reserve) {}, ""},
		"no name":       {func(v *Reserve) { v.Name = "" }, "reservation"},
		"none":          {func(v *Reserve) { v.Instances = nil }, "count"},
		"one":           {func(v *Reserve) { v.Instances = some(1) }, ""},
		"many":          {func(v *Reserve) { v.Instances = some(MaxReserved) }, ""},
		"too many":      {func(v *Reserve) { v.Instances = some(MaxReserved + 1) }, "count"},
		"one twice":     {func(v *Reserve) { v.Instances = []InstanceID{id(2), id(1), id(2)} }, "instances"},
		"the first":     {func(v *Reserve) { v.Instances = []InstanceID{id(1), id(2), id(1)} }, "instances"},
		"no id":         {func(v *Reserve) { v.Instances = []InstanceID{id(1), "x"} }, "instance id"},
		"no end":        {func(v *Reserve) { v.Until = time.Time{} }, "until"},
		"short":         {func(v *Reserve) { v.From, v.Until = from, from.Add(LeastReserveTime) }, ""},
		"too short":     {func(v *Reserve) { v.From, v.Until = from, from.Add(LeastReserveTime-1) }, "for"},
		"long":          {func(v *Reserve) { v.From, v.Until = from, from.Add(MaxReserveTime) }, ""},
		"too long":      {func(v *Reserve) { v.From, v.Until = from, from.Add(MaxReserveTime+1) }, "for"},
		"avoids":        {func(v *Reserve) { v.Boot.Avoid = []HostID{"h"} }, "boot"},
		"in a group":    {func(v *Reserve) { v.Boot.Rules = InGroup("g") }, "boot"},
		"in another":    {func(v *Reserve) { v.Boot.Reserving("r") }, "boot"},
		"in a set":      {func(v *Reserve) { v.Boot.InSet(Set{ID: id(1)}) }, "boot"},
		"fails at once": {func(v *Reserve) { v.Boot.OnNoCapacity = FailAtOnce }, "on_no_capacity"},
		"user data":     {func(v *Reserve) { v.Boot.UserData = "a" }, "boot"},
		"sealed":        {func(v *Reserve) { v.Boot.Sealed = "a" }, "boot"},
		"both":          {func(v *Reserve) { v.Boot.UserData, v.Boot.Sealed = "a", "a" }, "boot"},
		"keys":          {func(v *Reserve) { v.Boot.SSHKeys = []string{"a"} }, "boot"},
		"keys and data": {func(v *Reserve) { v.Boot.SSHKeys, v.Boot.UserData = []string{"a"}, "a" }, "boot"},
		"no flavor":     {func(v *Reserve) { v.Boot.Flavor = "" }, "flavor"},
	} {
		v := Reserve{Name: "r", Until: from, Boot: Boot{Flavor: "f"}, Instances: some(3)}
		c.edit(&v)
		refuses(t, what, v.Check(), c.field)
	}
}

// A boot that takes a placeholder says nothing else of where it may be.
func TestCheckOfATaker(t *testing.T) {
	for what, edit := range map[string]func(*Boot){
		"":            func(*Boot) {},
		"host":        func(b *Boot) { b.Host = "h" },
		"group":       func(b *Boot) { b.Rules.Group = "g" },
		"preemptible": func(b *Boot) { b.Preempt(Preemptible{Then: ThenDelete}) },
		"priority":    func(b *Boot) { b.Rules.Priority = PriorityHigh },
		"avoid":       func(b *Boot) { b.Avoid = []HostID{"h"} },
	} {
		b := Boot{Flavor: "f"}
		b.Reserving("r")
		edit(&b)
		err := b.Check()
		if what == "" {
			refuses(t, "a taker", err, "")
			continue
		}
		if refuses(t, what, err, "reservation"); !strings.Contains(fmt.Sprint(err), "leave out "+what+":") {
			t.Error(err)
		}
	}
	b := Boot{Flavor: "f"}
	b.Reserving("No Name")
	refuses(t, "no name", b.Check(), "reservation")
}

func TestBootCheck(t *testing.T) {
	for what, c := range map[string]struct {
		edit  func(*Boot)
		field string
	}{
		"as long as may be": {func(b *Boot) { b.Deadline = MaxDeadline }, ""},
		"longer":            {func(b *Boot) { b.Deadline = MaxDeadline + 1 }, "deadline"},
		"a group":           {func(b *Boot) { b.Rules = InGroup("g") }, ""},
		"no group":          {func(b *Boot) { b.Rules = InGroup("No Group") }, "group"},
		"no priority":       {func(b *Boot) { b.Rules = RulesOf("", Set{}, 9) }, "priority"},
		"data":              {func(b *Boot) { b.UserData = "ab" }, ""},
		"sealed data":       {func(b *Boot) { b.Sealed = "ab" }, ""},
		"both":              {func(b *Boot) { b.UserData, b.Sealed = "a", "b" }, "sealed_user_data"},
		"its host avoided":  {func(b *Boot) { b.Host, b.Avoid = "h", []HostID{"h"} }, "avoid"},
		"another avoided":   {func(b *Boot) { b.Host, b.Avoid = "h", []HostID{"i"} }, ""},
		"a value":           {func(b *Boot) { b.With = Choices{"gpu": "No Value"} }, "capability value"},
	} {
		b := Boot{Flavor: "f"}
		c.edit(&b)
		refuses(t, what, b.Check(), c.field)
	}
}

func TestReportAndLookCheck(t *testing.T) {
	report := Report{Host: "h", Project: "p", Instance: id(1)}
	for what, c := range map[string]struct {
		edit  func(*Report)
		field string
	}{
		"none":         {func(r *Report) { r.Op = ReportNone }, "report"},
		"the first":    {func(r *Report) { r.Op = ReportClaim }, ""},
		"the last":     {func(r *Report) { r.Op = ReportPreempt }, ""},
		"a later one":  {func(r *Report) { r.Op = ReportPreempt + 1 }, "report"},
		"no host":      {func(r *Report) { r.Op, r.Host = ReportClaim, "" }, "host"},
		"no project":   {func(r *Report) { r.Op, r.Project = ReportClaim, "" }, "project"},
		"no instance":  {func(r *Report) { r.Op, r.Instance = ReportClaim, "" }, "instance id"},
		"hello":        {func(r *Report) { *r = Report{Op: ReportHello, Host: "h"} }, ""},
		"nobody's":     {func(r *Report) { *r = Report{Op: ReportHello} }, "host"},
		"of a project": {func(r *Report) { r.Op = ReportGone }, ""},
	} {
		r := report
		c.edit(&r)
		refuses(t, what, r.Check(), c.field)
	}
	for _, c := range []struct {
		look  Look
		field string
	}{
		{Look{Queue: "q"}, ""}, {Look{}, "look.queue"}, {Look{Queue: "q", Hold: MaxHold, Save: MaxSave}, ""},
		{Look{Queue: "q", Hold: MaxHold + 1}, "look.hold"}, {Look{Queue: "q", Hold: -1}, "look.hold"},
		{Look{Queue: "q", Save: MaxSave + 1}, "look.save"}, {Look{Queue: "q", Save: -1}, "look.save"},
	} {
		refuses(t, fmt.Sprint(c.look), c.look.Check(), c.field)
	}
	ask := ConsoleAsk{ID: "a", Limit: 1, Deadline: time.Unix(1, 0)}
	for _, c := range []struct {
		edit  func(*ConsoleAsk)
		field string
	}{
		{func(*ConsoleAsk) {}, ""}, {func(a *ConsoleAsk) { a.ID = "" }, "console.id"},
		{func(a *ConsoleAsk) { a.Limit = 0 }, "limit"}, {func(a *ConsoleAsk) { a.Limit = MaxConsole }, ""},
		{func(a *ConsoleAsk) { a.Limit = MaxConsole + 1 }, "limit"},
		{func(a *ConsoleAsk) { a.Deadline = time.Time{} }, "console.deadline"},
	} {
		a := ask
		c.edit(&a)
		refuses(t, fmt.Sprint(a), a.Check(), c.field)
	}
	refuses(t, "PCI", PCIAddress("0000:3b:00.1").Check(), "")
	refuses(t, "PCI", PCIAddress("3b:00.1").Check(), "PCI address")
}

func TestTokens(t *testing.T) {
	for what, c := range map[string]struct {
		edit  func(*Token)
		field string
	}{
		"of a project": {func(*Token) {}, ""},
		"of a cell":    {func(k *Token) { k.Role, k.Project = RoleAdmin, "" }, ""},
		"of both":      {func(k *Token) { k.Role = RoleOperator }, "project"},
		"of neither":   {func(k *Token) { k.Project = "" }, "project"},
		"no id":        {func(k *Token) { k.ID = "No" }, "token"},
		"no role":      {func(k *Token) { k.Role = "" }, "role"},
		"a long name":  {func(k *Token) { k.Name = strings.Repeat("n", MaxTokenName) }, ""},
		"too long":     {func(k *Token) { k.Name = strings.Repeat("n", MaxTokenName+1) }, "name"},
		"no text":      {func(k *Token) { k.Name = "\xff" }, "name"},
		"a line break": {func(k *Token) { k.Name = "a\nb" }, "name"},
	} {
		k := Token{ID: "abc1", Role: RoleReader, Project: "p"}
		c.edit(&k)
		refuses(t, what, k.Check(), c.field)
	}
	if a, b := (Token{ID: "x"}).Caller(), (Token{ID: "x", Name: "ci"}).Caller(); a != "token:x" || b != "token:ci" {
		t.Errorf("they are called %s and %s", a, b)
	}
}

func TestRoles(t *testing.T) {
	for n, r := range Roles() {
		if r.Check() != nil || r.OfCell() != (n > 1) || r.AtLeast("") || Role("").AtLeast(r) || r.AtLeast("none") {
			t.Errorf("%s: %v, of the cell: %t", r, r.Check(), r.OfCell())
		}
		for m, least := range Roles() {
			if r.AtLeast(least) != (n >= m) {
				t.Errorf("%s is at least %s: %t", r, least, r.AtLeast(least))
			}
		}
	}
	refuses(t, "none", Role("").Check(), "role")
	if Role("").AtLeast("") {
		t.Error("no role is had")
	}
}

func TestErrors(t *testing.T) {
	reason := &Reason{Code: HostLost}
	long := strings.Repeat("v", 120)
	for want, e := range map[string]*Error{
		`op: f "v": is odd; mend it: EOF`: {Op: "op", Field: "f", Value: "v", Message: "is odd", Remedy: "mend it",
			Cause: io.EOF},
		"is odd":                           {Message: "is odd", Value: "v"},
		`f "v" is not valid`:               {Field: "f", Value: "v"},
		"HostLost":                         {Reason: reason, Kind: KindQuota},
		"quota; wait":                      {Kind: KindQuota, Remedy: "wait"},
		"f \"" + long + "\" is not valid":  {Field: "f", Value: long},
		"f \"" + long + "…\" is not valid": {Field: "f", Value: long + "v"},
	} {
		if e.Error() != want {
			t.Errorf("%q, want %q", e.Error(), want)
		}
	}
	for want, e := range map[string]*Error{
		`f "v" is not valid; r`: Invalid("f", "v", "r"),
		`f "v": cannot be used; give a file that this process may read: EOF`: Unreadable("f", "v", io.EOF),
		`f "v": does not exist; r`:               NotFound("f", "v", "r"),
		`f "v": m; r`:                            Conflict("f", "v", "m", "r"),
		"op: cannot be done now; try again: EOF": Unavailable("op", io.EOF),
	} {
		if e.Error() != want || e.Cause != nil && !errors.Is(e, io.EOF) {
			t.Errorf("%q, want %q", e.Error(), want)
		}
	}
	kinds := []Kind{Invalid("", "", "").Kind, Unreadable("", "", nil).Kind, NotFound("", "", "").Kind,
		Conflict("", "", "", "").Kind, Unavailable("", nil).Kind}
	want := []Kind{KindInvalid, KindInvalid, KindNotFound, KindConflict, KindUnavailable}
	if diff := cmp.Diff(want, kinds); diff != "" {
		t.Error(diff)
	}
	if !DiskFull(fmt.Errorf("a: %w", syscall.ENOSPC)) || !DiskFull(syscall.EDQUOT) || DiskFull(io.EOF) {
		t.Error("disks that are full")
	}
	for k := range kindNames {
		if got := ParseKind(Kind(k).String()); got != Kind(k) {
			t.Errorf("%s is read as %s", Kind(k), got)
		}
	}
	if ParseKind("new") != KindInternal || KindOf(io.EOF) != KindInternal {
		t.Error("kinds that are not known")
	}
}

func TestResourcesCheck(t *testing.T) {
	many := Resources{}
	for n := range MaxClasses {
		many[ResourceClass(fmt.Sprint("CUSTOM_", n))] = 1
	}
	more := many.Clone()
	more[VCPU] = 1
	for _, c := range []struct {
		r     Resources
		field string
	}{
		{Resources{VCPU: 1, MemoryMB: MaxAmount, DiskGB: 1, "CUSTOM_A": 1}, ""}, {many, ""}, {more, "resources"}, {nil, ""},
		{Resources{VCPU: 0}, "VCPU"}, {Resources{VCPU: MaxAmount + 1}, "VCPU"}, {Resources{"A": 1}, "resource class"},
		{Resources{VCPU: 1, MemoryMB: -1, DiskGB: 0}, "DISK_GB"}, {Resources{VCPU: 0, MemoryMB: 1, DiskGB: 1}, "VCPU"},
	} {
		for range 20 { // maps come in any order
			refuses(t, fmt.Sprint(c.r), c.r.Check(), c.field)
		}
	}
}
