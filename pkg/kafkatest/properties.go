// SPDX-License-Identifier: Apache-2.0

package kafkatest

import "strings"

// Properties are the settings of a Java properties file that has each in one line.
func Properties(text string) map[string]string {
	out := map[string]string{}
	for line := range strings.Lines(text) {
		line = strings.TrimSpace(line)
		if key, value, ok := strings.Cut(line, "="); ok && !strings.HasPrefix(line, "#") {
			out[key] = value
		}
	}
	return out
}
