package limits

import (
	"math"
	"math/bits"
	"time"

	"github.com/holdfast-dev/holdfast/windows"
)

// Bounds of how fast a bucket refills, in units per second.
const (
	MinRefill = 1e-9
	MaxRefill = 1e9
)

// RefillFromFloat turns units per second, as the wire has them, into the nano-units per
// second of windows.Window, rounded to the nearest.
// Errors: *InvalidError with the field "/refillPerSecond" outside [MinRefill, MaxRefill], NaN
// and infinities included.
func RefillFromFloat(perSecond float64) (int64, error) {
	if !(perSecond >= MinRefill && perSecond <= MaxRefill) { // written so that NaN fails
		return 0, &InvalidError{[]Fault{{"/refillPerSecond", refillReason}}}
	}
	return int64(math.Round(perSecond * windows.NanoUnit)), nil
}

// RefillFloat is units per second for nano-units per second.
func RefillFloat(nanoUnits int64) float64 { return float64(nanoUnits) / windows.NanoUnit }

const refillReason = "must be 0.000000001 to 1000000000 units per second"

// refillsInTime reports whether an empty bucket of amount is full again within MaxRefillTime.
// The product of nano-units per second and seconds takes up to 88 bits.
func refillsInTime(amount, nanoUnits int64) bool {
	seconds := uint64(MaxRefillTime / time.Second)
	high, low := bits.Mul64(uint64(nanoUnits), seconds)
	return high > 0 || low >= uint64(amount)*windows.NanoUnit // amount ≤ 10^9: no overflow
}
