package limits

import "fmt"

// String is the word of the wire.
func (s Share) String() string { return word(shares, int(s)) }

// String is the word of the wire.
func (o OnExpiry) String() string { return word(expiries, int(o)) }

// String is the word of the wire.
func (o Overage) String() string { return word(overages, int(o)) }

// ParseShare reads each or all. Errors: *InvalidError.
func ParseShare(s string) (Share, error) {
	i, err := parseWord(shares, "/share", s)
	return Share(i), err
}

// ParseOnExpiry reads refund or charge. Errors: *InvalidError.
func ParseOnExpiry(s string) (OnExpiry, error) {
	i, err := parseWord(expiries, "/onExpiry", s)
	return OnExpiry(i), err
}

// ParseOverage reads record or reject. Errors: *InvalidError.
func ParseOverage(s string) (Overage, error) {
	i, err := parseWord(overages, "/overage", s)
	return Overage(i), err
}

var (
	shares   = [2]string{Each: "each", All: "all"}
	expiries = [2]string{RefundOnExpiry: "refund", ChargeOnExpiry: "charge"}
	overages = [2]string{RecordOverage: "record", RejectOverage: "reject"}
)

func word(words [2]string, i int) string {
	if i >= len(words) {
		return fmt.Sprintf("unknown(%d)", i)
	}
	return words[i]
}

func parseWord(words [2]string, field, s string) (int, error) {
	for i, w := range words {
		if s == w {
			return i, nil
		}
	}
	return 0, &InvalidError{[]Fault{{field, fmt.Sprintf("must be %s or %s", words[0], words[1])}}}
}
