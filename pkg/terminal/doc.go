// SPDX-License-Identifier: Apache-2.0

// Package terminal says what may be printed where: how wide a terminal is, how wide text is on it, and whether colours
// are wanted. A file, a pipe and a test get plain text of any width.
package terminal
