package judge_test

import (
	"strings"
	"testing"
	"time"

	"github.com/holdfast-dev/holdfast/integration/judge"
)

func TestCalm(t *testing.T) {
	t.Parallel()
	const s = time.Second
	calm := judge.Calm{Since: 100 * s, Until: 200 * s, Decide: 10 * s, TTL: 5 * s, Free: 3 * s}
	for name, c := range map[string]struct {
		ops  []judge.Op
		life *judge.Life
		want string
	}{
		"decided during the faults":               {ops: []judge.Op{op(reserve, done, 10*s, 90*s, 5)}},
		"decided soon after them":                 {ops: []judge.Op{op(reserve, refused, 10*s, 109*s, 0)}},
		"decided late":                            {ops: []judge.Op{op(extend, gone, 10*s, 111*s, 5)}, want: "11s after the last fault"},
		"asked later, and decided late":           {ops: []judge.Op{op(reserve, done, 150*s, 161*s, 5)}, want: "11s after the last fault"},
		"never decided":                           {ops: []judge.Op{op(reserve, unknown, 10*s, 12*s, 0)}, want: "not decided within 10s"},
		"not decided when nobody looked any more": {ops: []judge.Op{op(reserve, unknown, 195*s, 195*s, 0)}},
		"free during the faults":                  {life: &judge.Life{Since: 10 * s, Moved: 10 * s, Until: 40 * s}},
		"free in time after them":                 {life: &judge.Life{Since: 10 * s, Moved: 10 * s, Until: 108 * s}},
		"free too late":                           {life: &judge.Life{Since: 10 * s, Moved: 10 * s, Until: 109 * s}, want: "it ended at 1m49s"},
		"extended later, and free in time":        {life: &judge.Life{Since: 10 * s, Moved: 120 * s, Until: 127 * s}},
		"extended later, and free too late":       {life: &judge.Life{Since: 10 * s, Moved: 120 * s, Until: 129 * s}, want: "it ended at 2m9s"},
		"never free":                              {life: &judge.Life{Since: 10 * s, Moved: 10 * s}, want: "never"},
		"held to the end":                         {life: &judge.Life{Since: 195 * s, Moved: 195 * s}, want: "held when nobody looked"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var lives []*judge.Life
			if c.life != nil {
				lives = append(lives, c.life)
			}
			got := strings.Join(calm.Judge(c.ops, lives), "\n")
			if (c.want == "") != (got == "") || !strings.Contains(got, c.want) {
				t.Errorf("%q, want %q", got, c.want)
			}
		})
	}
}
