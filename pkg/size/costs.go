package size

import (
	"time"

	"github.com/berth-project/berth/pkg/compute"
)

// Costs are what the model charges, on a processor like those that were measured
// (Xeon, 2.5 GHz). docs/SIZE.md says where each is from and how well they fit.
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
		Request: 72 * µs, Wake: 300 * µs, Listed: 10 * µs, Contended: 33 * µs, Woken: 22 * µs,
		Append: 15 * µs, Record: 3 * µs, Replica: 60 * µs,
		Pause: 12 * time.Millisecond, Between: 150 * time.Millisecond,
		Client: 55 * µs, ClientWake: 200 * µs, Standing: 100 * time.Millisecond, Boot: 1900 * µs, Decide: 30 * µs,
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

// Each names them, for who wants to set one.
func (c *Costs) Each() []Cost {
	return []Cost{
		{"request", &c.Request}, {"wake", &c.Wake}, {"listed", &c.Listed}, {"contended", &c.Contended}, {"woken", &c.Woken},
		{"append", &c.Append}, {"record", &c.Record}, {"replica", &c.Replica},
		{"pause", &c.Pause}, {"between", &c.Between}, {"standing", &c.Standing}, {"transaction", &c.Transaction},
		{"client", &c.Client}, {"client-wake", &c.ClientWake}, {"boot", &c.Boot}, {"decide", &c.Decide},
	}
}
