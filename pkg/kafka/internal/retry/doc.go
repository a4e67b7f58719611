// SPDX-License-Identifier: Apache-2.0

// Package retry tries again what brokers cannot do yet.
package retry
