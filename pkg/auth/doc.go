// SPDX-License-Identifier: Apache-2.0

// Package auth knows who calls the API and what each role may do: principals and their roles, what
// finds out who calls (tokens here, others elsewhere), and the table of what each operation needs.
package auth
