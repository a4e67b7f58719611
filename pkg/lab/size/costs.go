// SPDX-License-Identifier: Apache-2.0

package size

import (
	"time"

	"github.com/berth-project/berth/pkg/compute"
)

// Costs are what the model charges, on a processor like those that were measured
// (Xeon, 2.5 GHz). docs/SIZE.md says how well they fit. A share fetch costs Listed for each
// queue and Contended for each on which others wait; each cost is a random value of an exponential
// distribution. Client, ClientWake, Boot and Decide are spent on the broker's processors where
// all share two (TestCalibration); else only Decide and Client count, on the conductor's own.
type Costs struct {
	Request   time.Duration // broker, a request that finds it busy
	Wake      time.Duration // broker, more for one that finds it idle: a thread is woken
	Listed    time.Duration // broker, a queue that a share fetch lists
	Contended time.Duration // broker, more for one on which others wait too
	Woken     time.Duration // broker, a new record of a queue: this × √(waiters − 1) × what each of them lists
	Append    time.Duration // broker, a partition that a produce request writes to
	Record    time.Duration // broker, a record written or read
	Replica   time.Duration // broker, a produce request for each further replica

	Pause   time.Duration // broker, all its processors: its collector of garbage
	Between time.Duration // of work on each of its processors, from one pause to the next
	// Standing is the share of a processor that a broker, and all that reads beacons, uses
	// whether or not anything happens: a time in each second.
	Standing time.Duration
	// Transaction is what one costs a broker, for each turn. Zero: the product has none;
	// some of the rows that this is checked against had.
	Transaction time.Duration

	Client     time.Duration // a client, a request of a broker that is busy
	ClientWake time.Duration // a client, more where the broker is idle
	Boot       time.Duration // API node, journal and codec, a boot
	Decide     time.Duration // conductor, an input
}

// DefaultCosts are fitted to the rows of TestCalibration.
func DefaultCosts() Costs {
	const µs = time.Microsecond
	return Costs{
		// The two bursts of claims, in which everything is busy.
		Request: 72 * µs, Client: 55 * µs,
		// A request costs a broker 0.3 ms at 100 boots/s; Berth's 11.4 ms a boot.
		Wake: 300 * µs, ClientWake: 200 * µs,
		// The bursts with 2 and with 10 queues listed. One agent that lists 100 is not slow.
		Listed: 10 * µs, Contended: 33 * µs,
		// Claims with 10 listed: saturated at 500/s with 100 waiters, at 226/s with 1,000. Proportional
		// to waiters × listed, as Kafka's code says, would fit only one of the two.
		Woken: 22 * µs,
		// Guesses, small beside the rest.
		Append: 15 * µs, Record: 3 * µs, Replica: 60 * µs,
		// p99 of the rows without saturation.
		Pause: 12 * time.Millisecond, Between: 150 * time.Millisecond,
		// What is left of the processor at 10 boots/s.
		Standing: 100 * time.Millisecond,
		// Berth at 500/s; 24,000 to 29,000 requests/s of a conductor's loop alone.
		Boot: 1900 * µs, Decide: 30 * µs,
	}
}

func (c Costs) check() error {
	for _, x := range c.Each() {
		if *x.At < 0 || *x.At > time.Second {
			return compute.Invalid("cost", x.Name+"="+x.At.String(), "give 0 to 1s")
		}
	}
	return nil
}

// Cost is one of them, by name.
type Cost struct {
	Name string
	At   *time.Duration
}

// Each names them, for the flags that set one.
func (c *Costs) Each() []Cost {
	return []Cost{
		{"request", &c.Request}, {"wake", &c.Wake}, {"listed", &c.Listed},
		{"contended", &c.Contended}, {"woken", &c.Woken},
		{"append", &c.Append}, {"record", &c.Record}, {"replica", &c.Replica},
		{"pause", &c.Pause}, {"between", &c.Between}, {"standing", &c.Standing}, {"transaction", &c.Transaction},
		{"client", &c.Client}, {"client-wake", &c.ClientWake}, {"boot", &c.Boot}, {"decide", &c.Decide},
	}
}
