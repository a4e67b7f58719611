package qemu

import (
	"strings"
	"testing"
)

func TestOptionsAreChecked(t *testing.T) {
	good := Options{Dir: "/var/lib/berth/qemu", Images: "/var/lib/berth/images"}
	if err := good.Check(); err != nil {
		t.Fatal(err)
	}
	for field, spoil := range map[string]func(*Options){
		"dir":           func(o *Options) { o.Dir = "relative" },
		"images":        func(o *Options) { o.Images = "" },
		"machine":       func(o *Options) { o.Machine = "microvm" },
		"accel":         func(o *Options) { o.Accel = "hvf" },
		"network":       func(o *Options) { o.Network = "bridge:a,script=/bin/sh" },
		"console_bytes": func(o *Options) { o.ConsoleBytes = 1 },
		"users":         func(o *Options) { o.Users = "900-1000" },
		"min_free":      func(o *Options) { o.MinFree = -1 },
	} {
		o := good
		spoil(&o)
		if err := o.Check(); err == nil || !strings.Contains(err.Error(), field) {
			t.Errorf("%s: %v", field, err)
		}
	}
	long := good
	long.Dir = "/" + strings.Repeat("x", 61)
	if err := long.Check(); err == nil || !strings.Contains(err.Error(), "shorter by 1 letters") {
		t.Errorf("a folder that is too long: %v", err)
	}
	long.Dir = long.Dir[:61]
	if err := long.Check(); err != nil {
		t.Errorf("a folder as long as may be: %v", err)
	}
}
