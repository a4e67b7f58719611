// SPDX-License-Identifier: Apache-2.0

// Package sealed encrypts user data for its way through Kafka, where conductors and whoever else reads the topics do
// not need it. API nodes seal it when they accept a boot, and agents open it right before they prepare the machine:
//
//	key of a file ──HKDF; cell, project, instance──▶ key of the instance ──AES-256-GCM──▶ sealed user data
//	 API nodes and agents alone                                                            of the boot and the build
//
// Since each instance has a key of its own, what was sealed for one opens for no other: whoever copies it into a boot
// of another instance, or of another project under the same id, gets a boot that fails. And no key is used often enough
// for two random nonces to meet.
//
// Files are those of pkg/hostkey: a line each, the newest last. The newest seals, all open, and what is sealed says
// under which of them. Decision 0052 says why.
package sealed
