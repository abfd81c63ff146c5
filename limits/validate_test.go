package limits

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-dev/holdfast/windows"
)

// sound is a limit with nothing wrong.
func sound() Limit {
	return Limit{
		Name: "Exports at once", SubjectKind: "user", Action: "export", Amount: 3,
		Window: windows.Window{Kind: windows.Concurrent}, Enabled: true,
	}.WithDefaults()
}

func bucket(amount, refill int64) func(*Limit) {
	return func(l *Limit) {
		l.Amount, l.Window = amount, windows.Window{Kind: windows.Bucket, Refill: refill}
	}
}

func window(k windows.Kind, rolling bool) func(*Limit) {
	return func(l *Limit) { l.Window = windows.Window{Kind: k, Rolling: rolling} }
}

func label(key, value string) func(*Limit) {
	return func(l *Limit) { l.Labels = map[string]string{key: value} }
}

// API.md section 3, one bound a line.
func TestLimit_Validate(t *testing.T) {
	t.Parallel()
	const x63 = "xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx"
	for name, c := range map[string]struct {
		change func(*Limit)
		want   string // the field named, "" for none
	}{
		"nothing wrong":              {func(*Limit) {}, ""},
		"the longest id":             {func(l *Limit) { l.ID = x63 }, ""},
		"an id of 64":                {func(l *Limit) { l.ID = x63 + "x" }, "/id"},
		"no id":                      {func(l *Limit) { l.ID = "" }, "/id"},
		"an id in capitals":          {func(l *Limit) { l.ID = "A" }, "/id"},
		"an id that begins with .":   {func(l *Limit) { l.ID = ".a" }, "/id"},
		"an id with a slash":         {func(l *Limit) { l.ID = "a/b" }, "/id"},
		"no name":                    {func(l *Limit) { l.Name = "" }, "/name"},
		"128 characters of a name":   {func(l *Limit) { l.Name = strings.Repeat("é", 128) }, ""},
		"129 characters of a name":   {func(l *Limit) { l.Name = strings.Repeat("x", 129) }, "/name"},
		"a line feed in the name":    {func(l *Limit) { l.Name = "a\nb" }, "/name"},
		"a name that is not UTF-8":   {func(l *Limit) { l.Name = "a\xff" }, "/name"},
		"1,024 characters":           {func(l *Limit) { l.Description = strings.Repeat("é", 1023) + "\n" }, ""},
		"1,025 characters":           {func(l *Limit) { l.Description = strings.Repeat("x", 1025) }, "/description"},
		"NUL in the description":     {func(l *Limit) { l.Description = "a\x00" }, "/description"},
		"not UTF-8 in it":            {func(l *Limit) { l.Description = "a\xff\n" }, "/description"},
		"any kind":                   {func(l *Limit) { l.SubjectKind = "*" }, ""},
		"no kind":                    {func(l *Limit) { l.SubjectKind = "" }, "/subjectKind"},
		"a kind beside any":          {func(l *Limit) { l.SubjectKind = "user*" }, "/subjectKind"},
		"any action":                 {func(l *Limit) { l.Action = "*" }, ""},
		"no action":                  {func(l *Limit) { l.Action = "" }, "/action"},
		"an action of 129 bytes":     {func(l *Limit) { l.Action = Action(strings.Repeat("x", 129)) }, "/action"},
		"closed":                     {func(l *Limit) { l.Amount = 0 }, ""},
		"the greatest amount":        {func(l *Limit) { l.Amount = MaxAmount }, ""},
		"an amount above":            {func(l *Limit) { l.Amount = MaxAmount + 1 }, "/amount"},
		"an amount below nought":     {func(l *Limit) { l.Amount = -1 }, "/amount"},
		"no window":                  {window(0, false), "/window"},
		"an unknown window":          {window(windows.Bucket+1, false), "/window"},
		"a rolling minute":           {window(windows.Minute, true), ""},
		"a rolling hour":             {window(windows.Hour, true), ""},
		"a rolling day":              {window(windows.Day, true), ""},
		"a rolling second":           {window(windows.Second, true), "/rolling"},
		"a rolling week":             {window(windows.Week, true), "/rolling"},
		"a rolling month":            {window(windows.Month, true), "/rolling"},
		"a rolling total":            {window(windows.Total, true), "/rolling"},
		"rolling slots":              {window(windows.Concurrent, true), "/rolling"},
		"a bucket":                   {bucket(20, 10*windows.NanoUnit), ""},
		"a bucket without refill":    {bucket(20, 0), "/refillPerSecond"},
		"a bucket that leaks":        {bucket(20, -1), "/refillPerSecond"},
		"a bucket refilled too fast": {bucket(20, MaxRefill*windows.NanoUnit+1), "/refillPerSecond"},
		"the fastest bucket":         {bucket(MaxAmount, MaxRefill*windows.NanoUnit), ""},
		"a closed bucket":            {bucket(0, 1), ""},
		"full in just 10 years":      {bucket(31536, 100_000), ""},
		"full a moment later":        {bucket(31536, 99_999), "/refillPerSecond"},
		"a rolling bucket":           {func(l *Limit) { bucket(20, 1e9)(l); l.Window.Rolling = true }, "/rolling"},
		"refill of slots":            {func(l *Limit) { l.Window.Refill = 1 }, "/refillPerSecond"},
		"an unknown share":           {func(l *Limit) { l.Share = 2 }, "/share"},
		"an unknown expiry":          {func(l *Limit) { l.OnExpiry = 2 }, "/onExpiry"},
		"an unknown overage":         {func(l *Limit) { l.Overage = 2 }, "/overage"},
		"the shortest ttl":           {func(l *Limit) { l.TTL, l.MaxTTL = MinTTL, MinTTL }, ""},
		"a ttl of 1 s":               {func(l *Limit) { l.TTL = time.Second }, "/ttlSeconds"},
		"a ttl of 2.5 s":             {func(l *Limit) { l.TTL = 2500 * time.Millisecond }, "/ttlSeconds"},
		"a ttl above an hour":        {func(l *Limit) { l.MaxTTL = time.Hour + time.Second }, "/maxTtlSeconds"},
		"a ttl above its most":       {func(l *Limit) { l.TTL, l.MaxTTL = 10*time.Second, 9*time.Second }, "/ttlSeconds"},
		"512 bytes of a reason":      {func(l *Limit) { l.PauseReason = strings.Repeat("x", 512) }, ""},
		"513 bytes of a reason":      {func(l *Limit) { l.PauseReason = strings.Repeat("x", 513) }, "/pauseReason"},
		"a label":                    {label("a", ""), ""},
		"the longest label":          {label(strings.Repeat("k", 64), strings.Repeat("v", 256)), ""},
		"a label's value of 257":     {label("a", strings.Repeat("v", 257)), "/labels/a"},
		"a label's name of 65":       {label(strings.Repeat("k", 65), ""), "/labels/" + strings.Repeat("k", 64) + "…"},
		"a label without a name":     {label("", "v"), "/labels/"},
		"a label's name to escape":   {label("a/b~\n", "v"), "/labels/a~1b~0\n"},
		"a label that is not UTF-8":  {label("a", "\xff"), "/labels/a"},
		"a label with a control":     {label("a", "\t"), "/labels/a"},
	} {
		l := sound()
		c.change(&l)
		var want []string
		if c.want != "" {
			want = []string{c.want}
		}
		if got := fields(t, l.Validate()); !slices.Equal(got, want) {
			t.Errorf("%s: %+v names %v, want %v", name, l, got, want)
		}
	}
}

func TestLimit_ValidateTellsAllAtOnce(t *testing.T) {
	t.Parallel()
	l := Limit{
		ID: "A", Description: strings.Repeat("x", 1025), SubjectKind: "User", Amount: -1,
		Window: windows.Window{Rolling: true, Refill: 1}, Share: 9, OnExpiry: 9, Overage: 9,
		TTL: 1, MaxTTL: 1, PauseReason: "\n", Labels: map[string]string{"b": "\n", "a": "\n"},
	}
	err := l.Validate()
	want := []string{
		"/id", "/name", "/description", "/subjectKind", "/action", "/amount", "/window", "/rolling", "/refillPerSecond",
		"/share", "/onExpiry", "/overage", "/ttlSeconds", "/maxTtlSeconds", "/pauseReason", "/labels/a", "/labels/b",
	}
	if got := fields(t, err); !slices.Equal(got, want) {
		t.Errorf("%+v names\n %v, want\n %v", l, got, want)
	}
	for _, field := range want {
		if !strings.Contains(err.Error(), field+" ") {
			t.Errorf("%q does not tell of %s", err, field)
		}
	}
}

func TestCheckLabels_TooManyIsOneFault(t *testing.T) {
	t.Parallel()
	labels := map[string]string{}
	for i := range MaxLabels {
		labels[fmt.Sprint(i)] = ""
	}
	if err := CheckLabels(labels); err != nil {
		t.Errorf("%d labels: %v", len(labels), err)
	}
	labels["\n"] = ""
	if got := fields(t, CheckLabels(labels)); !slices.Equal(got, []string{"/labels"}) {
		t.Errorf("%d labels: named %v, want /labels alone", len(labels), got)
	}
}

func TestLimit_WithDefaults(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		given, want Limit
	}{
		"all":                    {Limit{Name: "A b"}, Limit{ID: "a-b", Name: "A b", TTL: 5 * time.Minute, MaxTTL: time.Hour}},
		"an id stays":            {Limit{ID: "x", Name: "A b"}, Limit{ID: "x", Name: "A b", TTL: 5 * time.Minute, MaxTTL: time.Hour}},
		"no id from such a name": {Limit{Name: "…"}, Limit{Name: "…", TTL: 5 * time.Minute, MaxTTL: time.Hour}},
		"a short most":           {Limit{ID: "x", MaxTTL: time.Minute}, Limit{ID: "x", TTL: time.Minute, MaxTTL: time.Minute}},
		"a long ttl":             {Limit{ID: "x", TTL: time.Hour}, Limit{ID: "x", TTL: time.Hour, MaxTTL: time.Hour}},
		"a pause over":           {Limit{ID: "x", PauseReason: "r", PausedUntil: time.Unix(9, 0)}, Limit{ID: "x", TTL: 5 * time.Minute, MaxTTL: time.Hour}},
		"a pause": {
			Limit{ID: "x", Paused: true, PauseReason: "r", PausedUntil: time.Unix(9, 0)},
			Limit{ID: "x", TTL: 5 * time.Minute, MaxTTL: time.Hour, Paused: true, PauseReason: "r", PausedUntil: time.Unix(9, 0)},
		},
	} {
		if got := fmt.Sprintf("%+v", c.given.WithDefaults()); got != fmt.Sprintf("%+v", c.want) {
			t.Errorf("%s: %+v\n got %s\nwant %+v", name, c.given, got, c.want)
		}
	}
}

func TestOverride_Validate(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		override Override
		want     []string
	}{
		"for everyone":   {Override{Amount: 10}, nil},
		"for a subject":  {Override{Subject: Subject{"user", "a"}, Amount: MaxAmount}, nil},
		"closed":         {Override{Amount: 0}, nil},
		"unlimited":      {Override{Unlimited: true, Amount: -1}, nil},
		"all of it":      {Override{Subject: Subject{"User", ""}, Amount: -1, Reason: "\n"}, []string{"/subject/kind", "/subject/id", "/amount", "/reason"}},
		"an amount more": {Override{Amount: MaxAmount + 1}, []string{"/amount"}},
	} {
		if got := fields(t, c.override.Validate()); !slices.Equal(got, c.want) {
			t.Errorf("%s: %+v names %v, want %v", name, c.override, got, c.want)
		}
	}
}

func TestRefill(t *testing.T) {
	t.Parallel()
	for perSecond, want := range map[float64]int64{
		0.5: 5e8, 10: 1e10, 1e-9: 1, 1e9: 1e18, 0.1: 1e8, 1.0 / 3: 333_333_333,
		0: 0, -1: 0, 9e-10: 0, 1.1e9: 0, math.Inf(1): 0, math.Inf(-1): 0,
	} {
		got, err := RefillFromFloat(perSecond)
		if got != want || (err == nil) != (want != 0) {
			t.Errorf("RefillFromFloat(%g) = %d, %v, want %d", perSecond, got, err, want)
		}
	}
	if got, err := RefillFromFloat(math.NaN()); err == nil {
		t.Errorf("RefillFromFloat(NaN) = %d, want an error", got)
	}
	for _, perSecond := range []float64{0.5, 10, 1e-9, 1e9, 0.1, 2.5, 0.000_000_123} {
		if n, _ := RefillFromFloat(perSecond); RefillFloat(n) != perSecond {
			t.Errorf("%g units a second come back as %g", perSecond, RefillFloat(n))
		}
	}
}

// API.md section 3: what of a limit can change, and when its counts start anew.
func TestCheckChange(t *testing.T) {
	t.Parallel()
	limit := func(k windows.Kind, rolling bool, s Share) Limit {
		return Limit{Window: windows.Window{Kind: k, Rolling: rolling, Refill: 1}, Share: s}
	}
	for name, c := range map[string]struct {
		old, new Limit
		fixed    []string
		anew     bool
	}{
		"nothing":                  {limit(windows.Hour, false, Each), limit(windows.Hour, false, Each), nil, false},
		"hour to day":              {limit(windows.Hour, false, Each), limit(windows.Day, false, Each), nil, true},
		"second to total":          {limit(windows.Second, false, Each), limit(windows.Total, false, Each), nil, true},
		"total to month":           {limit(windows.Total, false, All), limit(windows.Month, false, All), nil, true},
		"calendar to rolling":      {limit(windows.Hour, false, Each), limit(windows.Hour, true, Each), nil, true},
		"slots to hour":            {limit(windows.Concurrent, false, Each), limit(windows.Hour, false, Each), []string{"/window"}, true},
		"hour to slots":            {limit(windows.Hour, false, Each), limit(windows.Concurrent, false, Each), []string{"/window"}, true},
		"bucket to minute":         {limit(windows.Bucket, false, Each), limit(windows.Minute, false, Each), []string{"/window"}, true},
		"total to bucket":          {limit(windows.Total, false, Each), limit(windows.Bucket, false, Each), []string{"/window"}, true},
		"bucket to slots":          {limit(windows.Bucket, false, Each), limit(windows.Concurrent, false, Each), []string{"/window"}, true},
		"each to all":              {limit(windows.Hour, false, Each), limit(windows.Hour, false, All), []string{"/share"}, false},
		"both":                     {limit(windows.Hour, false, All), limit(windows.Bucket, false, Each), []string{"/window", "/share"}, true},
		"another refill, the same": {limit(windows.Bucket, false, Each), Limit{Window: windows.Window{Kind: windows.Bucket, Refill: 2}}, nil, false},
	} {
		err := CheckChange(c.old, c.new)
		var fixed *FixedError
		if errors.As(err, &fixed); (err == nil) != (c.fixed == nil) || err != nil && !slices.Equal(fixed.Fields, c.fixed) {
			t.Errorf("%s: CheckChange = %v, want %v", name, err, c.fixed)
		}
		if got := StartsAnew(c.old, c.new); got != c.anew {
			t.Errorf("%s: StartsAnew = %v, want %v", name, got, c.anew)
		}
	}
}

// CLI.md section 2.
func TestSamples_AreSound(t *testing.T) {
	t.Parallel()
	var got []string
	for _, l := range Samples() {
		if err := l.Validate(); err != nil || !l.Enabled {
			t.Errorf("%s: enabled %v, %v", l.ID, l.Enabled, err)
		}
		got = append(got, fmt.Sprintf("%s %d %s %s %s %d %v %g", l.ID, l.Amount, l.SubjectKind, l.Action, l.Share, l.Window.Kind, l.Window.Rolling, RefillFloat(l.Window.Refill)))
	}
	want := []string{
		fmt.Sprintf("burst 20 user call each %d false 10", windows.Bucket),
		fmt.Sprintf("calls 100 user call each %d true 0", windows.Day),
		fmt.Sprintf("exports 3 user export each %d false 0", windows.Concurrent),
		fmt.Sprintf("gpu 2 * train all %d false 0", windows.Concurrent),
	}
	if !slices.Equal(got, want) {
		t.Errorf("samples\n %s, want\n %s", strings.Join(got, "\n "), strings.Join(want, "\n "))
	}
}
