package store

import (
	"encoding/binary"
	"time"

	"github.com/holdfast-dev/holdfast/reserve"
	"github.com/holdfast-dev/holdfast/windows"
)

// slot: the beat is kept as what it is after the grant, which is 0 until the first heartbeat.
func (e *encoder) slot(s *reserve.Slot) {
	e.b = append(append(e.b, version), s.Hold[:]...)
	e.seconds(s.TTL)
	e.time(s.Since)
	e.signed(s.Beat.UnixMilli() - s.Since.UnixMilli())
	e.unsigned(s.Beats)
	e.text(s.Name)
	e.text(s.Host)
}

func (d *decoder) slot() *reserve.Slot {
	s := &reserve.Slot{Hold: d.digest(), TTL: d.seconds()}
	since := d.signed()
	s.Since = time.UnixMilli(since).UTC()
	s.Beat = time.UnixMilli(since + d.signed()).UTC()
	s.Beats = d.unsigned()
	s.Name, s.Host = d.text(), d.text()
	return s
}

func (e *encoder) replay(r *reserve.Replay) {
	e.b = append(e.b, version, byte(r.State))
	e.time(r.At)
	e.b = append(e.b, r.Body[:]...)
	e.text(r.Principal)
}

func (d *decoder) replay() *reserve.Replay {
	return &reserve.Replay{State: d.state(), At: d.time(), Body: d.digest(), Principal: d.text()}
}

func (d *decoder) state() reserve.State {
	s := reserve.State(d.byte())
	if s < reserve.Held || s > reserve.Aborted {
		d.bad = true
	}
	return s
}

func (e *encoder) counts(c reserve.Counts) {
	e.b = append(e.b, version)
	e.length(len(c), maxItems)
	for i := range c {
		if i > 0 && c[i].Limit <= c[i-1].Limit {
			e.fail("counts out of order at limit", c[i].Limit)
		}
		e.text(c[i].Limit)
		e.unsigned(c[i].Generation)
		e.signed(int64(c[i].Use.High))
		e.unsigned(c[i].Use.Level)
		e.ring(c[i].Use.High, c[i].Use.Counts)
	}
}

func (d *decoder) counts() reserve.Counts {
	const least = 5 // bytes of an entry: each field's one
	c := make(reserve.Counts, d.length(maxItems, least))
	for i := range c {
		c[i] = reserve.LimitCount{Limit: d.text(), Generation: d.unsigned()}
		c[i].Use.High = windows.Slice(d.signed())
		c[i].Use.Level = d.unsigned()
		c[i].Use.Counts = d.ring(c[i].Use.High)
		if i > 0 && c[i].Limit <= c[i-1].Limit {
			d.bad = true
		}
		if d.bad {
			return nil
		}
	}
	return c
}

// maxSpan bounds how many slices lie from the oldest to the newest, so that it can be doubled.
const maxSpan = 1 << 62

// ring writes the counts of one limit. A run of empty slices is one number, which for a
// rolling window is one byte; so are costs up to 63, and costs up to 8,191 are two.
func (e *encoder) ring(high windows.Slice, counts []windows.Count) {
	e.length(len(counts), maxSlices)
	if len(counts) == 0 {
		return
	}
	oldest, newest := counts[0].Slice, counts[len(counts)-1].Slice
	if uint64(newest)-uint64(oldest) >= maxSpan {
		e.fail("counts that span slices to", newest)
	}
	e.signed(int64(high - newest)) // wraps, as it does when read
	for i, c := range counts {
		if i > 0 {
			gap := uint64(c.Slice) - uint64(counts[i-1].Slice) - 1
			if c.Slice <= counts[i-1].Slice {
				e.fail("counts out of order at slice", c.Slice)
			}
			if gap > 0 {
				e.b = binary.AppendUvarint(e.b, gap<<1|1)
			}
		}
		if c.Cost <= 0 {
			e.fail("cost", c.Cost)
		}
		e.b = binary.AppendUvarint(e.b, uint64(c.Cost)<<1)
	}
}

// ring reads counts from old to new, with slices counted from the first, and shifts them when
// the newest is known.
func (d *decoder) ring(high windows.Slice) []windows.Count {
	n := d.length(maxSlices, 1)
	if n == 0 {
		return nil
	}
	newest := high - windows.Slice(d.signed())
	counts := make([]windows.Count, n)
	var at uint64
	for i := range counts {
		v := d.uvarint()
		if v&1 == 1 {
			gap := v >> 1
			if i == 0 || gap == 0 || gap >= maxSpan {
				d.bad = true
			}
			at += gap
			v = d.uvarint()
		}
		if v&1 == 1 || v == 0 || at >= maxSpan {
			d.bad = true
		}
		if d.bad {
			return nil
		}
		counts[i] = windows.Count{Slice: windows.Slice(at), Cost: int64(v >> 1)}
		at++
	}
	shift := newest - counts[n-1].Slice
	for i := range counts {
		counts[i].Slice += shift
	}
	if counts[0].Slice > newest { // it wrapped
		d.bad = true
	}
	return counts
}
