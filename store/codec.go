package store

import (
	"encoding/binary"
	"fmt"
	"time"

	"github.com/holdfast-dev/holdfast/limits"
	"github.com/holdfast-dev/holdfast/reserve"
)

// version is the first byte of every value. A format that an older program could misread gets
// the next one; older programs then leave the key alone (FAULTS row 54).
const version = 1

// Bounds of what a value may hold. A value beyond them was not written by us.
const (
	maxItems  = 4096 // places, charges, labels, limits counted
	maxSlices = 128  // counts of one limit; windows keeps 61
)

// Every format is canonical: a value that decodes is, byte for byte, what encoding the result
// gives. So varints are the shortest, lists that have an order are in it, and what has a
// shorter spelling has no other. There is one exception, text in JSON.
//
//	slot    1 | hold 16 | ttl s | since | beat − since | beats | name | host
//	counts  1 | n × (limit | generation | high | level | ring)
//	ring    n | if n > 0: high − newest slice | from old to new: cost<<1, or empty slices<<1|1
//	replay  1 | state | at | body 16 | principal
//	ticket  1 | parts | id 16 | replica | subject | action | cost | principal | since | until − since | keyed: body 16 | owner
//	rollup  1 | started | refused | committed | released | expired | forced | charged
//	tally   1 | more | n × (scope | rollup without its version)
//	mark    1 | at | amount | used | action
//	parcel  1 | n × (id | type | at | n × limit | body)
//	seq     1 | n
//	secret  1 | bytes
//	record  codec_record.go        limit, override, file, plan, block, note, webhook, delivery, duty, replica: 1 (a limit: or 2) | JSON
//
// Numbers that cannot be below zero are unsigned varints, others zigzag ones; times are
// milliseconds since the Unix epoch, zigzag; text is its length and its bytes.

// encode appends the bytes of v, the value of a key of kind.
// Errors: a value of another type, or one that no right program writes; nothing was sent.
func encode(b []byte, kind reserve.RefKind, v any) ([]byte, error) {
	e := encoder{b: b}
	var fits bool
	switch v := v.(type) {
	case *reserve.Slot:
		fits = kind == reserve.RefSlot || kind == reserve.RefHold
		e.slot(v)
	case *reserve.Record:
		fits = kind == reserve.RefOpen || kind == reserve.RefEnded
		e.record(v)
	case reserve.Counts:
		fits = kind == reserve.RefUsage
		e.counts(v)
	case *reserve.Replay:
		fits = kind == reserve.RefReplay
		e.replay(v)
	case *reserve.Ticket:
		fits = kind == reserve.RefTicket
		e.ticket(v)
	case *reserve.Rollup:
		fits = kind == reserve.RefRollup
		e.b = append(e.b, version)
		e.rollup(v)
	case *reserve.Tally:
		fits = kind == reserve.RefTally
		e.tally(v)
	case *reserve.Exceeded:
		fits = kind == reserve.RefExceeded
		e.exceeded(v)
	case *reserve.Webhook:
		fits = kind == reserve.RefWebhook
		e.b = appendWebhook(e.b, v)
	case *reserve.Delivery:
		fits = kind == reserve.RefDelivery
		e.b = appendDelivery(e.b, v)
	case *reserve.Duty:
		fits = kind == reserve.RefDuty
		e.b = appendDuty(e.b, v)
	case *reserve.Parcel:
		fits = kind == reserve.RefParcel
		e.parcel(v)
	case *reserve.Note:
		fits = kind == reserve.RefTrail
		e.b = appendNote(e.b, v)
	case reserve.Seq:
		fits = kind == reserve.RefCatalog
		e.b = append(e.b, version)
		e.unsigned(int64(v))
	case reserve.Secret:
		fits = kind == reserve.RefSecret && len(v) > 0
		e.b = append(append(e.b, version), v...)
	case *limits.Limit:
		fits = kind == reserve.RefLimit
		e.b = appendLimit(e.b, v)
	case *limits.Override:
		fits = kind == reserve.RefOverride
		e.b = appendOverride(e.b, v)
	case *limits.File:
		fits = kind == reserve.RefFile
		e.b = appendFile(e.b, v)
	case *limits.SubjectPlan:
		fits = kind == reserve.RefPlan
		e.b = appendSubjectPlan(e.b, v)
	case *limits.Block:
		fits = kind == reserve.RefBlock
		e.b = appendBlock(e.b, v)
	case *reserve.Replica:
		fits = kind == reserve.RefReplica
		e.b = appendReplica(e.b, v)
	}
	if !fits {
		return b, fmt.Errorf("store: a %T is no value of a key of kind %d", v, kind)
	}
	return e.b, e.err
}

// decode reads the value under r. Errors: reserve.ErrNewer, reserve.ErrCorrupt.
func decode(r reserve.Ref, value []byte) (any, error) {
	if len(value) == 0 || value[0] == 0 {
		return nil, reserve.ErrCorrupt
	}
	if value[0] > version && (r.Kind != reserve.RefLimit || value[0] > limitVersion) {
		return nil, reserve.ErrNewer
	}
	switch r.Kind {
	case reserve.RefLimit:
		return decodeLimit(value[1:])
	case reserve.RefOverride:
		return decodeOverride(value[1:])
	case reserve.RefFile:
		return decodeFile(value[1:])
	case reserve.RefPlan:
		return decodeSubjectPlan(value[1:])
	case reserve.RefBlock:
		return decodeBlock(value[1:])
	case reserve.RefTrail:
		return decodeNote(value[1:])
	case reserve.RefWebhook:
		return decodeWebhook(value[1:])
	case reserve.RefDelivery:
		return decodeDelivery(value[1:])
	case reserve.RefDuty:
		return decodeDuty(value[1:])
	case reserve.RefReplica:
		return decodeReplica(value[1:])
	case reserve.RefSecret:
		if len(value) == 1 {
			return nil, reserve.ErrCorrupt // nothing is no secret
		}
		return reserve.Secret(append([]byte(nil), value[1:]...)), nil
	}
	return decodeText(r, string(value))
}

// decodeText reads a value of this version that is no JSON. What it returns shares text's memory.
func decodeText(r reserve.Ref, text string) (v any, err error) {
	d := decoder{s: text, at: 1}
	switch r.Kind {
	case reserve.RefSlot, reserve.RefHold:
		v = d.slot()
	case reserve.RefOpen, reserve.RefEnded:
		v = d.record(r.ID)
	case reserve.RefUsage:
		v = d.counts()
	case reserve.RefReplay:
		v = d.replay()
	case reserve.RefTicket:
		v = d.ticket()
	case reserve.RefRollup:
		r := d.rollup()
		v = &r
	case reserve.RefTally:
		v = d.tally()
	case reserve.RefExceeded:
		v = d.exceeded()
	case reserve.RefParcel:
		v = d.parcel()
	case reserve.RefCatalog:
		v = reserve.Seq(d.unsigned())
	}
	if d.bad || d.at != len(d.s) {
		return nil, reserve.ErrCorrupt
	}
	return v, nil
}

// encoder appends to b and remembers the first thing that cannot be written.
type encoder struct {
	b   []byte
	err error
}

func (e *encoder) fail(what string, v any) {
	if e.err == nil {
		e.err = fmt.Errorf("store: %s %v cannot be written", what, v)
	}
}

func (e *encoder) unsigned(n int64) {
	if n < 0 {
		e.fail("number", n)
	}
	e.b = binary.AppendUvarint(e.b, uint64(n))
}

func (e *encoder) signed(n int64) { e.b = binary.AppendVarint(e.b, n) }

func (e *encoder) time(t time.Time) { e.signed(t.UnixMilli()) }

func (e *encoder) text(s string) {
	e.b = binary.AppendUvarint(e.b, uint64(len(s)))
	e.b = append(e.b, s...)
}

// seconds writes a length that must be whole seconds: a part of one that went missing would
// end a hold early.
func (e *encoder) seconds(d time.Duration) {
	if d < 0 || d%time.Second != 0 {
		e.fail("ttl", d)
	}
	e.b = binary.AppendUvarint(e.b, uint64(d/time.Second))
}

func (e *encoder) length(n, most int) {
	if n > most {
		e.fail("list of", n)
	}
	e.b = binary.AppendUvarint(e.b, uint64(n))
}

// decoder reads s from at; once bad it stays so and reads zeros. Text it returns shares the
// memory of s, so that a value costs one allocation for all its text.
type decoder struct {
	s   string
	at  int
	bad bool
}

func (d *decoder) byte() byte {
	if d.bad || d.at >= len(d.s) {
		d.bad = true
		return 0
	}
	d.at++
	return d.s[d.at-1]
}

// uvarint reads the shortest form only.
func (d *decoder) uvarint() (n uint64) {
	for shift := 0; shift < 64; shift += 7 {
		c := d.byte()
		if c < 0x80 {
			if c == 0 && shift > 0 || shift == 63 && c > 1 {
				break
			}
			return n | uint64(c)<<shift
		}
		n |= uint64(c&0x7f) << shift
	}
	d.bad = true
	return 0
}

func (d *decoder) unsigned() int64 {
	n := d.uvarint()
	if int64(n) < 0 {
		d.bad = true
		return 0
	}
	return int64(n)
}

func (d *decoder) signed() int64 {
	n := d.uvarint()
	return int64(n>>1) ^ -int64(n&1)
}

func (d *decoder) time() time.Time { return time.UnixMilli(d.signed()).UTC() }

func (d *decoder) seconds() time.Duration {
	const most = uint64(1<<63-1) / uint64(time.Second)
	n := d.uvarint()
	if n > most {
		d.bad = true
		return 0
	}
	return time.Duration(n) * time.Second
}

// take is the next n bytes; "" when there are not so many.
func (d *decoder) take(n uint64) string {
	if d.bad || n > uint64(len(d.s)-d.at) {
		d.bad = true
		return ""
	}
	if n == 0 {
		return "" // a slice of length 0 would keep the value in memory
	}
	s := d.s[d.at : d.at+int(n)]
	d.at += int(n)
	return s
}

func (d *decoder) text() string { return d.take(d.uvarint()) }

func (d *decoder) digest() (b [16]byte) {
	copy(b[:], d.take(uint64(len(b))))
	return b
}

// length reads the length of a list of items of at least least bytes, and refuses one that
// what is left cannot hold: so a few bytes never make us reserve much.
func (d *decoder) length(most, least int) int {
	n := d.uvarint()
	if n > uint64(most) || n*uint64(least) > uint64(len(d.s)-d.at) {
		d.bad = true
		return 0
	}
	return int(n)
}
