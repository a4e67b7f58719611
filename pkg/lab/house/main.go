// SPDX-License-Identifier: Apache-2.0

// Command house counts what makes a code base hard to read: large packages, long
// functions and lines, comments about persons where a process is meant, words of pages. Run it in
// the root of the repository; each row says what is counted.
//
//	go run ./pkg/lab/house
package main

import (
	"fmt"
	"os"
)

func main() {
	rows, err := count(os.DirFS("."))
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	fmt.Println("| what | counted |")
	fmt.Println("|---|---|")
	for _, r := range rows {
		fmt.Printf("| %s | %s |\n", r.what, r.counted)
	}
}
