// SPDX-License-Identifier: Apache-2.0

// Package audit writes down who changed what over the API, and what was refused.
//
// The entry of a change goes to Kafka beside the change: both are handed over together and waited for together, so
// that it costs no round trip. Entries of refusals are bounded, so that rubbish cannot fill a disk of Kafka; how many
// were left out is in the next one.
package audit
