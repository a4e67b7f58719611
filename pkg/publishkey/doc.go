// SPDX-License-Identifier: Apache-2.0

// Package publishkey says who wrote a request, and for which projects that publisher may. Kafka does not tell
// readers who wrote a record, and its ACLs know topics and no projects; so a request carries the publisher's name,
// its projects and a MAC (HMAC-SHA256) by a key that is derived from a master, the name and the projects:
//
//	master ──HKDF, name, projects──▶ key ──HMAC──▶ header berth-publisher
//	 conductors                    publisher        of each request
//
// Since the projects are in the key, no list of publishers is kept anywhere. Masters and their files are those of
// pkg/hostkey; keys of hosts and of publishers differ though the master be the same.
//
// The MAC covers topic, key, value and the headers that say how the value is read, but not the partition: a request
// about a host goes to every one. It does not say when: a replayed request is what it was, and decision 0053 says
// what that does.
package publishkey
