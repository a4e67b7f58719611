// SPDX-License-Identifier: Apache-2.0

// Package pace says how long Kafka's clients wait, and how often they ask and log.
package pace
