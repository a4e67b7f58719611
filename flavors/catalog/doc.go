// SPDX-License-Identifier: Apache-2.0

// Package catalog decides what operators may offer: flavors, capabilities and
// quotas that are each right, fit together, and make queues that Kafka can
// hold. It is pure: it says yes with the Change to write down, or no with the
// reason.
//
// What is in the log is taken as it is (Catalog.Apply never refuses), because
// every reader must come to the same catalog whatever it knows; what may get
// into the log is decided here (Catalog.AddFlavor and the like).
package catalog
