// SPDX-License-Identifier: Apache-2.0

//go:build synctests

package schedule

// Several says that worlds of several brokers are played as such. kgo holds a lock while
// it asks a broker for a producer id; with several brokers others wait for that lock, and
// as long as anything waits for a sync.Mutex virtual time stands still. The build tag
// synctests has kgo use locks for which it goes on.
const Several = true
