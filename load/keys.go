package load

import (
	"fmt"
	"math/rand/v2"
)

// Bounds of Keys.
const (
	MaxSubjects = 100_000_000
	zipfSkew    = 1.1 // of the exponent: the first of 100,000 subjects gets about one request in nine
)

// Spread is how requests fall on subjects.
type Spread uint8

// The ways to spread.
const (
	Even Spread = iota // each subject as often as any other
	Zipf               // a few subjects get most
	Hot                // one subject gets all
)

// Keys chooses the subject of each request, numbered from 0.
type Keys struct {
	Spread   Spread
	Subjects int // 1 to MaxSubjects; Hot uses the first alone
}

func (k Keys) fault() error {
	if k.Subjects < 1 || k.Subjects > MaxSubjects {
		return fmt.Errorf("load: Subjects %d: want 1 to %d", k.Subjects, MaxSubjects)
	}
	return nil
}

// String says it in words.
func (k Keys) String() string {
	switch k.Spread {
	case Hot:
		return "one hot subject"
	case Zipf:
		return fmt.Sprintf("zipf over %d subjects", k.Subjects)
	default:
		return fmt.Sprintf("spread over %d subjects", k.Subjects)
	}
}

// Picker gives one worker its own stream of subjects, the same for the same seed.
func (k Keys) Picker(seed uint64) func() int {
	random := rand.New(rand.NewPCG(seed, 0x9e3779b97f4a7c15))
	switch {
	case k.Spread == Hot || k.Subjects == 1:
		return func() int { return 0 }
	case k.Spread == Zipf:
		zipf := rand.NewZipf(random, zipfSkew, 1, uint64(k.Subjects-1))
		return func() int { return int(zipf.Uint64()) }
	default:
		return func() int { return random.IntN(k.Subjects) }
	}
}
