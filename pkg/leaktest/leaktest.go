// SPDX-License-Identifier: Apache-2.0

// Package leaktest fails a package's tests if they leave goroutines behind.
package leaktest

import (
	"fmt"
	"os"
	"time"

	"go.uber.org/goleak"
)

// patience is how long goroutines may take to end. goleak itself looks for half a second; Kafka's and HTTP's clients do
// not wait for what they have under way, and on a busy machine that takes longer.
const patience = time.Minute

// Main runs tests, and answers the code to exit with: theirs, or 1 if they passed and left goroutines behind.
func Main(run func() int, ignored ...goleak.Option) int {
	code := run()
	if code != 0 {
		return code
	}
	if err := Find(ignored...); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return 0
}

// Find names the goroutines that stay.
func Find(ignored ...goleak.Option) error {
	err := goleak.Find(ignored...)
	for lost := time.Now().Add(patience); err != nil && time.Now().Before(lost); {
		err = goleak.Find(ignored...)
	}
	return err
}
