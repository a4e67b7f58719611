// SPDX-License-Identifier: Apache-2.0

package size

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"github.com/berth-project/berth/compute-agent/offer"
	"github.com/berth-project/berth/pkg/compute"
	"github.com/berth-project/berth/queues/advise"
	"github.com/berth-project/berth/queues/save"
)

// world is a cell while it is simulated.
type world struct {
	o      Options
	agenda agenda
	now    int64
	rand   chance

	brokers    []station
	machines   []station // of conductors
	hosts      []host
	queues     []queue
	order      []int32                     // of queues, by chance
	at         map[compute.QueueName]int32 // places in queues
	fetches    []fetch
	unused     []int32 // fetches that are closed
	conductors []conductor
	publishers []publisher // of each source for each broker; the last source is the API
	sent       int64       // requests of publishers
	seen       []int64     // of each broker, when observers last read

	instances []instance
	due       int // requests that came so far
	granted   int
	active    int
	doubled   int
	began     int64 // when the first request came
	last      int64 // when something was last granted

	inventory compute.Inventory
	advisor   *advise.Advisor
	news      *bulletin
	saver     *save.Saver
	said      []save.Told // all that hosts were ever told of savings
	fill      fill

	count [whats]int64
	idle  []float64 // of each broker, busy before the first request
	work  []float64 // of each broker and conductor, busy while requests came; see measure
	quiet [whats]int64
}

// instance is one request.
type instance struct {
	queue    int32
	project  int32
	host     int32 // that was granted it; -1: none
	queued   bool  // admitted
	accepted int64
	granted  int64
}

// fresh is a world at its beginning.
func fresh(o Options) *world {
	w := &world{o: o, rand: chance(o.Seed), at: map[compute.QueueName]int32{}, advisor: advise.New(o.Advice)}
	w.now = -int64(warm)
	w.brokers = make([]station, o.Brokers)
	for i := range w.brokers {
		w.brokers[i] = station{
			processors: o.Processors,
			free:       w.now,
			pause:      float64(o.Costs.Pause),
			between:    float64(o.Costs.Between) * o.Processors,
		}
	}
	w.seen = make([]int64, o.Brokers)
	w.conductors, w.machines = make([]conductor, o.Conductors), make([]station, o.Conductors)
	for i := range w.seen {
		w.seen[i] = w.now
	}
	for i := range w.machines {
		w.machines[i] = station{processors: 1, free: w.now}
	}
	w.publishers = make([]publisher, (o.Conductors+1)*o.Brokers)
	w.makeQueues()
	w.makeHosts()
	w.saver = save.New(o.Savings, waiting{w.advisor, w})
	w.instances = make([]instance, o.Requests)
	for i := range w.instances {
		w.instances[i] = instance{
			queue:   int32(w.rand.below(o.Queues)),
			project: int32(w.rand.below(o.Projects)),
			host:    -1,
		}
	}
	return w
}

func (w *world) makeQueues() {
	var list []compute.Queue
	for i := range w.o.Queues {
		size := i % len(w.o.Sizes)
		q := queue{
			name:   compute.QueueName(fmt.Sprintf("q%05d", i)),
			size:   size,
			broker: int32(i % w.o.Brokers),
			seed:   mix(uint64(i) + 1),
			needs:  compute.Resources{compute.VCPU: int64(w.o.Sizes[size])},
		}
		w.queues, w.at[q.name] = append(w.queues, q), int32(i)
		list = append(list, compute.Queue{Name: q.name, Resources: q.needs, State: compute.QueueOpen})
	}
	w.advisor.SetQueues(list)
	w.order = make([]int32, len(w.queues))
	for i := range w.order {
		w.order[i] = int32(i)
	}
	slices.SortFunc(w.order, func(a, b int32) int { return cmp.Compare(w.queues[a].seed, w.queues[b].seed) })
}

func (w *world) makeHosts() {
	w.inventory = compute.Inventory{Totals: compute.Resources{compute.VCPU: int64(w.o.size())}}
	room := offer.Terms{}.Offer(w.inventory, nil, nil).Room()
	w.hosts = make([]host, w.o.Hosts)
	for i := range w.hosts {
		w.hosts[i] = host{
			id:   compute.HostID(fmt.Sprintf("h%06d", i)),
			room: room,
			seed: mix(uint64(i) ^ w.o.Seed<<32 ^ 0x5eed), saving: -1,
		}
	}
	if w.o.Waiters > 0 {
		for q := range w.o.Queues {
			for j := range min(w.o.Waiters, w.o.Hosts) {
				h := &w.hosts[(q*w.o.Waiters+j)%w.o.Hosts]
				h.fixed = append(h.fixed, int32(q))
			}
		}
	}
}

// clock is a time as the cores want it.
func clock(at int64) time.Time { return time.Unix(1<<30, 0).Add(time.Duration(at)) }

// begin foresees what happens by itself.
func (w *world) begin() {
	for h := range w.hosts {
		x := &w.hosts[h]
		if w.o.Mode == Berth {
			w.advisor.Observe(w.says(x), clock(w.now))
			w.advisor.Reaches(x.id, true)
			w.agenda.add(w.now+int64(x.seed%uint64(w.o.Beacon)), beacon, int32(h), 0)
			x.beacon = w.now + int64(x.seed%uint64(w.o.Beacon))
		}
		w.agenda.add(w.now+int64(mix(x.seed)%uint64(w.o.Pace)), readAdvice, int32(h), 0)
	}
	if w.o.Mode == Berth {
		w.tell()
		w.stay()
	}
	if w.o.Mode == Claims && w.o.Rate == 0 { // all is there before anybody asks
		w.arrive()
		return
	}
	w.agenda.add(0, arrive, 0, 0)
	if w.o.Life > 0 {
		w.agenda.add(w.settled(), steady, 0, 0)
	}
}

// arrive takes the next requests in.
func (w *world) arrive() {
	if w.due == 0 {
		w.began = w.now
		for i := range w.brokers {
			w.idle = append(w.idle, w.brokers[i].busy/float64(warm)/w.brokers[i].processors)
			w.brokers[i].busy = 0
		}
		for i := range w.machines {
			w.machines[i].busy = 0
		}
		w.quiet, w.count = w.count, [whats]int64{}
	}
	n := min(w.o.Burst, len(w.instances))
	if w.o.Rate == 0 {
		n = len(w.instances)
	}
	for range min(n, len(w.instances)-w.due) {
		i := int32(w.due)
		w.due++
		switch {
		case w.o.Mode == Claims && w.o.Rate == 0:
			w.instances[i].accepted = w.now
			w.enqueue(w.instances[i].queue, i)
		case w.o.Mode == Claims:
			w.instances[i].accepted = w.now
			w.publish(
				w.o.Conductors,
				int(w.queues[w.instances[i].queue].broker),
				item{buildOf, w.instances[i].queue, i},
			)
		case w.o.Rate == 0:
			w.instances[i].accepted = w.now
			w.conductor(i).requests.push(input{boot, -1, i})
		default:
			w.own()
			w.publish(w.o.Conductors, w.leader(i), item{requestOf, 0, i})
		}
	}
	if w.o.Rate == 0 {
		w.wakeAll()
	} else if w.due == len(w.instances) {
		w.measure()
	} else {
		w.agenda.add(int64(float64(w.due)/w.o.Rate*float64(time.Second)), arrive, 0, 0)
	}
}

// measure says how busy brokers and conductors were while requests came, or, where all
// came at once, until the last was granted.
func (w *world) measure() {
	span := max(1, float64(w.now-w.began))
	for _, all := range [][]station{w.brokers, w.machines} {
		for _, s := range all {
			w.work = append(w.work, s.busy/s.processors/span)
		}
	}
}

// slice is how much of the standing work is done at once.
const slice = 10 * time.Millisecond

// stay charges what goes on whatever happens.
func (w *world) stay() {
	for b := range w.brokers {
		w.brokers[b].do(w.now, float64(w.o.Costs.Standing)*slice.Seconds())
	}
	w.agenda.add(w.now+int64(slice), standing, 0, 0)
}

// own charges half of what Berth itself does for a boot, where that is on the same
// processors.
func (w *world) own() {
	if w.o.Shared && w.o.Mode == Berth {
		w.brokers[0].do(w.now, w.rand.spread(w.o.Costs.Boot/2))
	}
}

// partition of an instance's project, and the broker that leads it.
func (w *world) partition(i int32) int { return int(w.instances[i].project) % w.o.Partitions }
func (w *world) leader(i int32) int    { return w.partition(i) % w.o.Brokers }
func (w *world) conductor(i int32) *conductor {
	return &w.conductors[w.partition(i)%w.o.Conductors]
}

// what a request to a broker is for.
type what uint8

const (
	forRequest what = iota // API: a boot
	forTurn                // conductor: inputs read
	forWrite               // conductor: what it decided
	forEffects             // conductor: builds and grants
	forFetch               // agent: share fetch
	forAck                 // agent
	forReport              // agent: claim, started
	forStream              // agent: a grant read
	forAdvice              // agent: advice, and reads that end without
	forBeacon              // agent
	forRead                // API: instances and requests
	whats
)

func (x what) String() string {
	return [...]string{
		"request", "turn", "write", "effects", "share fetch", "ack", "report", "stream", "advice", "beacon", "read",
	}[x]
}

// ask charges a broker one request, and says when it is answered.
func (w *world) ask(for_ what, broker int, more float64) int64 {
	w.count[for_]++
	s, c := &w.brokers[broker], &w.o.Costs
	work := c.Request
	if s.idle(w.now) {
		work += c.Wake
	}
	if w.o.Shared {
		if work += c.Client; s.idle(w.now) {
			work += c.ClientWake
		}
	}
	return s.do(w.now, w.rand.spread(work)+more) + 2*int64(w.o.Hop)
}

// writes is what a produce request costs beyond a request.
func (w *world) writes(partitions, records int) float64 {
	c := &w.o.Costs
	replicas := float64(c.Replica) * float64(w.o.Replication-1)
	return float64(c.Append)*float64(partitions) + float64(c.Record)*float64(records) + replicas
}
