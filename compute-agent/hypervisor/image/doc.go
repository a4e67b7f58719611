// Package image finds the images of a host and makes machines' disks of them.
package image
