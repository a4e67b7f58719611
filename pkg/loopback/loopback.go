// SPDX-License-Identifier: Apache-2.0

// Package loopback tells what stays on this machine from what crosses a network.
package loopback

import (
	"net"
	"net/url"
)

// Host says whether a host is reached on this machine alone: localhost, 127.0.0.0/8 or ::1. No name is looked up.
func Host(host string) bool {
	ip := net.ParseIP(host)
	return host == "localhost" || ip != nil && ip.IsLoopback()
}

// OrHTTPS says whether nobody on the way can read or change what is sent to a URL: it is https, or http on this
// machine.
func OrHTTPS(u *url.URL) bool {
	return u.Scheme == "https" || u.Scheme == "http" && Host(u.Hostname())
}
