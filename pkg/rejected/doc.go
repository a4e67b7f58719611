// SPDX-License-Identifier: Apache-2.0

// Package rejected reads which records were refused, the newest first: page by page over all partitions of the topic
// rejected, and no more of it than a page needs.
//
// It shows where a record is, why it was refused, what helps, and whose it says that it is, and nothing else of what is
// in it: whoever wrote the record may have made that up.
package rejected
