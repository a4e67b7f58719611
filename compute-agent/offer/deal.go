package offer

import "math"

// Deal deals queues to a host. Their chances are laid end to end, in an order of the host's own, and it
// gets those that hold one of the points u, u+1, u+2, …, where u is drawn by lot: each with its chance, and as many as the chances
// add up to, a part of one more or less.
//
// Were each drawn by itself, hosts would wait on three queues or on none where one was meant. A
// fetch that ends costs a broker the queues it lists times those that others list
// beside them, so what counts is the mean of the squares, which is least where all list the same number.
type Deal float64

// NewDeal deals by a lot of which every bit is by chance.
func NewDeal(lot uint64) Deal { return Deal(part(lot)) }

// Next says whether the host gets the next queue.
func (d *Deal) Next(chance float64) bool {
	before := math.Floor(float64(*d))
	*d += Deal(chance)
	return math.Floor(float64(*d)) > before
}

// part is a lot as a part of one.
func part(lot uint64) float64 { return float64(lot>>11) / (1 << 53) }
