// SPDX-License-Identifier: Apache-2.0

// Package api is an API node: it publishes what users want and shows what the
// records say. It decides nothing: whether a project may have a machine is the
// conductor's to say, where it goes the hosts'.
//
// It knows no Kafka. Records come in through the methods Instances, Requests,
// Queues, Hosts and Advice; they go out through the interfaces of Config.
// Everything it shows is rebuilt from the log, so any number of nodes may run.
//
// Every operation goes through one guard (access.go), which asks the table of package auth. It has more files
// than other packages: one for each kind of thing that is shown or asked for.
package api
