package store

import "github.com/holdfast-dev/holdfast/reserve"

// Packer is reserve.Packer by the formats of the store's values. It knows no etcd.
type Packer struct{}

// Pack is reserve.Packer's.
func (Packer) Pack(kind reserve.RefKind, value any) (text string, ok bool) {
	var room [256]byte // most values fit
	b, err := encode(room[:0], kind, value)
	return string(b), err == nil
}

// Unpack is reserve.Packer's. Errors: those of a value that is read from etcd.
func (Packer) Unpack(r reserve.Ref, text string) (any, error) { return decodeText(r, text) }
