// SPDX-License-Identifier: Apache-2.0

// Package wire turns the words of package compute into Kafka records and back:
// topic names, keys, partitions, headers and the protobuf bodies of
// proto/berth/v1.
//
// Every decoder accepts any bytes and answers with a value or a
// *compute.Error of KindInvalid; none panics. What an older Berth wrote, a
// newer one reads: testdata holds the bytes of every version.
package wire
