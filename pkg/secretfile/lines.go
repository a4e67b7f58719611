// SPDX-License-Identifier: Apache-2.0

package secretfile

import (
	"encoding/hex"
	"fmt"
	"strings"

	"github.com/berth-project/berth/pkg/compute"
)

// Load reads a file of lines as Parse does, with the errors of Read.
func Load[T any](field, file, remedy string, parse func(words []string) (T, bool)) ([]T, error) {
	text, err := Read(field, file)
	if err != nil {
		return nil, err
	}
	return Parse(field, file, remedy, text, parse)
}

// Parse reads lines, each of words with spaces between them. What is empty or begins with # is no line. The error of
// a bad one says where it is and the remedy, and never what it is: it may be a secret.
func Parse[T any](
	field, file, remedy string, text []byte, parse func(words []string) (T, bool)) (all []T, err error,
) {
	for n, line := range strings.Split(strings.ReplaceAll(string(text), "\r", ""), "\n") {
		words := strings.Fields(line)
		if len(words) == 0 || strings.HasPrefix(words[0], "#") {
			continue
		}
		one, ok := parse(words)
		if !ok {
			return nil, compute.Invalid(field, fmt.Sprintf("%s:%d", file, n+1), remedy)
		}
		all = append(all, one)
	}
	return all, nil
}

// DecodeSecret reads 32 bytes as 64 hexadecimal digits, and refuses what is no secret: all zeros is what is left of a
// file that was not written.
func DecodeSecret(text string) (secret [32]byte, ok bool) {
	raw, err := hex.DecodeString(text)
	if err != nil || len(raw) != len(secret) {
		return secret, false
	}
	secret = [32]byte(raw)
	return secret, secret != [32]byte{}
}
