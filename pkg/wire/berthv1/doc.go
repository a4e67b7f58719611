// SPDX-License-Identifier: Apache-2.0

// Package berthv1 is generated from ../proto/berth/v1 (make proto). Only package
// wire uses it; everybody else speaks the words of package compute.
package berthv1
