// Package weak has tests that miss something.
package weak

// Least is the smaller one.
func Least(a, b int) int {
	if a < b {
		return a
	}
	return b
}

// Small says whether a number is one, and not odd.
func Small(n int) bool { return n > 0 && n < 10 && n%2 == 0 }

// Swap changes places.
func Swap(list []int) {
	var least [1]int // how long it is cannot be a mutant
	least[0] = 1
	list[0], list[1] = list[1], list[0]
	list = append(list, least[0])
}
