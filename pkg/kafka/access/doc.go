// SPDX-License-Identifier: Apache-2.0

// Package access says what each role of a cell may do on Kafka: one table
// (Rights), from which `berth acl` prints, sets and checks ACLs. TestRightsOnKafka
// has a whole cell work with these rights alone, and each role try what it may
// and may not do.
//
// What the table does not give is refused by Kafka: a broker with an authorizer
// allows nothing by itself. So an agent cannot read another host's commands,
// write a request, or change an instance's record.
package access
