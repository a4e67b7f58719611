// SPDX-License-Identifier: Apache-2.0

// Package rest holds the bodies of the HTTP API, once for the server and the
// client, and their translation from and to the words of package compute.
//
// What is here is a promise to scripts: fields are added, never renamed, and a
// field that does not apply is left out. Times are RFC 3339 in UTC, durations
// as in "10m0s", memory is in MiB, disk in GiB. The doc, enum and example tags
// feed the OpenAPI document.
package rest
