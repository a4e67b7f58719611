// SPDX-License-Identifier: Apache-2.0

package config

import (
	"fmt"
	"slices"
	"strings"

	"github.com/berth-project/berth/pkg/compute"
)

// Between refuses a number of a setting that is not from least to most.
func Between(key string, n, least, most int) error {
	if n >= least && n <= most {
		return nil
	}
	return compute.Invalid(key, fmt.Sprint(n), fmt.Sprintf("give a number from %d to %d", least, most))
}

// OneOf refuses a value of a setting that is not known. An empty one stands for the default.
func OneOf(key, value string, known ...string) error {
	if value == "" || slices.Contains(known, value) {
		return nil
	}
	return compute.Invalid(key, value, "give one of "+strings.Join(known, ", "))
}
