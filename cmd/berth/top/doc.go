// SPDX-License-Identifier: Apache-2.0

// Package top shows queues and hosts in a terminal, again and again.
//
//	look ─▶ Cell ─▶ page ─▶ lines of text, as wide and as high as the terminal
//
// What is shown follows from what an API node answered, the keys that were pressed and the size of the terminal alone
// (page); the rest asks and draws (model).
package top
