// SPDX-License-Identifier: Apache-2.0

package size

import "time"

// Progress is how far a run is.
type Progress struct {
	At      time.Duration // since the first request
	Hosts   int
	Granted int
	Of      int
}

// often is how many events go by between two words of progress.
const often = 1 << 19

// Run simulates one cell. say hears of progress now and then; an error of it ends the
// run with that error.
func Run(o Options, say func(Progress) error) (Result, error) {
	if err := o.Check(); err != nil {
		return Result{}, err
	}
	w := fresh(o)
	w.begin()
	if err := w.run(say); err != nil {
		return Result{}, err
	}
	return w.result(), nil
}

func (w *world) run(say func(Progress) error) error {
	for n := 1; !w.over(); n++ {
		if n%often == 0 {
			if err := say(Progress{time.Duration(w.now), w.o.Hosts, w.granted, len(w.instances)}); err != nil {
				return err
			}
		}
		e := w.agenda.next()
		w.now = e.at
		w.happen(e)
	}
	return nil
}

// over says whether nothing is left to do, or has been done for long.
func (w *world) over() bool {
	if len(w.agenda.events) == 0 || w.now-max(0, w.last) > int64(max(w.o.Stall, 10*w.o.Life)) {
		return true
	}
	return w.active == len(w.instances) || w.o.Mode == Claims && w.granted == len(w.instances)
}

func (w *world) happen(e event) {
	switch e.kind {
	case arrive:
		w.arrive()
	case turn:
		w.turn(int(e.a))
	case decided:
		w.decided(int(e.a))
	case written:
		w.written(int(e.a))
	case published:
		w.published(e.a)
	case asked:
		w.asked(e.a, e.b)
	case expire:
		w.expire(e.a, e.b)
	case taken:
		w.taken(e.a, e.b)
	case prepared:
		w.prepared(e.a, e.b)
	case claimed:
		w.deliver(input{claim, e.a, e.b})
	case granted:
		w.agenda.add(w.now+int64(w.o.Launch), launched, e.a, e.b)
	case launched:
		w.launched(e.a, e.b)
	case started:
		w.deliver(input{done, e.a, e.b})
	case readAdvice:
		w.readAdvice(e.a)
	case beacon:
		w.beacon(e.a)
	case standing:
		w.stay()
	case tick:
		w.tell()
	case ended:
		w.ended(e.a, e.b)
	case told:
		w.toldSaving(e.a, int(e.b))
	case spend:
		w.spend(e.a)
	case steady:
		w.watch()
	}
}
