// SPDX-License-Identifier: Apache-2.0

// Package auth authenticates callers of the API and says what each role may do: principals and their
// roles, authenticators (of tokens here, others elsewhere), and the table of what each operation needs.
package auth
