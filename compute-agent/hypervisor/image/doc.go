// SPDX-License-Identifier: Apache-2.0

// Package image finds the images of a host and makes machines' disks of them.
package image
