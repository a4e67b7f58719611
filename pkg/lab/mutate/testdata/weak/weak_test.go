package weak

import (
	"os"
	"testing"
)

func TestLeast(t *testing.T) {
	if Least(1, 2) != 1 || Least(2, 1) != 1 {
		t.Error("not the least")
	}
}

func TestSmall(t *testing.T) {
	if !Small(2) || Small(12) || Small(-2) {
		t.Error("not small")
	}
}

func TestSwap(t *testing.T) {
	list := []int{1, 2}
	if Swap(list); list[0] != 2 || list[1] != 1 {
		t.Error(list)
	}
}

func TestFails(t *testing.T) {
	if os.Getenv("MUTANT_WEAK_FAILS") != "" {
		t.Error("as it is told to")
	}
}
