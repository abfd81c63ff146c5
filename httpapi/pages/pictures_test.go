package pages

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"image"
	"image/color"
	"image/png"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/chromedp"

	"github.com/holdfast-dev/holdfast/api"
	"github.com/holdfast-dev/holdfast/auth"
	"github.com/holdfast-dev/holdfast/janitor"
	"github.com/holdfast-dev/holdfast/limits"
	"github.com/holdfast-dev/holdfast/reserve"
	"github.com/holdfast-dev/holdfast/windows"
)

// night is a service at three in the morning, a while after the last thing that went well.
func night(c *Config) {
	c.Now = func() time.Time { return time.Now().Add(3 * time.Minute) }
	c.Fsync = func() (time.Duration, bool) { return 4 * time.Millisecond, true }
	c.Settings = []api.Setting{{Name: "retain-ended", Value: "15m", Origin: "default"}, {Name: "jwt-jwks-url", Value: "https://issuer.example/keys", Origin: "HOLDFAST_JWT_JWKS_URL"}}
	c.Cluster = func(context.Context) (api.ClusterAnswer, error) {
		leases := int64(212)
		member := func(name string, leads, answers bool) api.Member {
			return api.Member{Name: name, Leader: leads, Answers: &answers, Revision: 918_221, FileBytes: 48_300_000}
		}
		return api.ClusterAnswer{
			Mode: "external", Revision: 918_221, QuotaBytes: 2 << 30, UsedBytes: 31_000_000, FileBytes: 48_300_000, LeasesAlive: &leases,
			Members: []api.Member{member("etcd-a", true, true), member("etcd-b", false, true), {Name: "etcd-c", Answers: new(bool)}},
		}, nil
	}
}

// pictures looks at pages as people see them, at both widths in both colours. With
// HOLDFAST_SCREENSHOTS they are kept there.
func pictures(t *testing.T, r *rig, b *tab) {
	r.scene()
	b.signIn("admin")
	to := os.Getenv("HOLDFAST_SCREENSHOTS")
	shots := []struct {
		name, path string
		kept       bool
	}{
		{"now", "/", true},
		{"waiting", "/waiting", true},
		{"limit", "/limits/exports?subject=user%3Au_42", true},
		{"holds", "/holds", true},
		{"system", "/system", true},
		{"subject", "/subjects/user/u_42", false},
		{"limits", "/limits", false},
		{"activity", "/activity", false},
	}
	for _, shot := range shots {
		for _, width := range []int64{1280, 390} {
			for _, scheme := range []string{"light", "dark"} {
				height := map[int64]int64{1280: 800, 390: 844}[width]
				b.do(
					call(emulation.SetDeviceMetricsOverride, emulation.SetDeviceMetricsOverrideParams{Width: width, Height: height, DeviceScaleFactor: 1, Mobile: width < 600}),
					call(emulation.SetEmulatedMedia, emulation.SetEmulatedMediaParams{Features: []*emulation.MediaFeature{{Name: "prefers-color-scheme", Value: scheme}}}))
				b.open(shot.path)
				if eval[bool](b, `document.documentElement.scrollWidth > innerWidth`) {
					t.Errorf("%s at %d px scrolls sideways", shot.name, width)
				}
				if to == "" {
					continue
				}
				shown, err := chromedp.Run(b.ctx, chromedp.CaptureScreenshot())
				if err != nil || len(shown) == 0 {
					t.Fatalf("%s: no picture: %v", shot.name, err)
				}
				name := fmt.Sprintf("page-%s-%d-%s.png", shot.name, width, scheme)
				if !shot.kept {
					name = "other-" + name
				}
				if err := os.WriteFile(filepath.Join(to, name), small(t, shown), 0o600); err != nil {
					t.Fatal(err)
				}
			}
		}
	}
}

// small is a picture with the 256 colours that are most in it: a third of its bytes.
func small(t *testing.T, picture []byte) []byte {
	t.Helper()
	src, err := png.Decode(bytes.NewReader(picture))
	if err != nil {
		t.Fatal(err)
	}
	count := map[color.RGBA]int{}
	box := src.Bounds()
	at := func(x, y int) color.RGBA {
		c := color.RGBAModel.Convert(src.At(x, y)).(color.RGBA)
		return color.RGBA{c.R &^ 3, c.G &^ 3, c.B &^ 3, 255}
	}
	for y := box.Min.Y; y < box.Max.Y; y++ {
		for x := box.Min.X; x < box.Max.X; x++ {
			count[at(x, y)]++
		}
	}
	all := make([]color.RGBA, 0, len(count))
	for c := range count {
		all = append(all, c)
	}
	slices.SortFunc(all, func(a, b color.RGBA) int { return cmp.Compare(count[b], count[a]) })
	var palette color.Palette
	for _, c := range all[:min(len(all), 256)] {
		palette = append(palette, c)
	}
	out, index := image.NewPaletted(box, palette), map[color.RGBA]uint8{}
	for y := box.Min.Y; y < box.Max.Y; y++ {
		for x := box.Min.X; x < box.Max.X; x++ {
			c := at(x, y)
			i, known := index[c]
			if !known {
				i = uint8(palette.Index(c))
				index[c] = i
			}
			out.SetColorIndex(x, y, i)
		}
	}
	var b bytes.Buffer
	if err := (&png.Encoder{CompressionLevel: png.BestCompression}).Encode(&b, out); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

// scene is a service with something to see: limits that are full and one that is nearly, those
// who wait, a pause, an override, holders that are silent, and a replica that has gone.
func (r *rig) scene() {
	r.t.Helper()
	edit := func(rev int64, err error) {
		r.t.Helper()
		if err == nil {
			err = r.service.Reached(r.t.Context(), rev)
		}
		if err != nil {
			r.t.Fatal(err)
		}
	}
	at := windows.Window{Kind: windows.Concurrent}
	for _, l := range []limits.Limit{
		{ID: "gpu", Name: "Trainings at once", SubjectKind: limits.Any, Action: "train", Amount: 2, Window: at, Share: limits.All, Enabled: true},
		{ID: "crawl", Name: "Crawls at once", SubjectKind: "user", Action: "crawl", Amount: 10, Window: at, Enabled: true, Paused: true, PauseReason: "vendor outage"},
		{ID: "nightly-reconciliation-of-invoices", Name: "Reconciliations at once", SubjectKind: "org", Action: "reconcile", Amount: 8, Window: at, Enabled: true},
	} {
		_, rev, err := r.editor.Create(r.t.Context(), auth.DefaultTenant, l, "user:eve")
		edit(rev, err)
	}
	edit(r.editor.PutOverride(r.t.Context(), auth.DefaultTenant, limits.Override{Limit: "gpu", Amount: 4, Until: time.Now().Add(time.Hour), Reason: "launch week", By: "user:dana"}))
	for _, name := range []string{"report-991", "report-992", "cli"} {
		r.hold("u_42", func(q *reserve.Request) { q.Owner = reserve.Owner{Name: name, Host: "w7", PID: 4711} })
	}
	long := func(q *reserve.Request) { q.TTL = time.Hour }
	r.hold("u_7", long, func(q *reserve.Request) { q.Owner = reserve.Owner{Name: "sleep", Host: "laptop", PID: 812} })
	r.hold("u_8", long, func(q *reserve.Request) { q.Labels = map[string]string{"job": "991", "team": "reports"} })
	r.hold("u_9", long, func(q *reserve.Request) { q.Action, q.Owner = "train", reserve.Owner{Name: "train-7", Host: "gpu1"} })
	for i := range 7 {
		r.hold("a-rather-long-name-of-an-organisation@example.com", long, func(q *reserve.Request) {
			q.Subject.Kind, q.Action, q.Owner = "org", "reconcile", reserve.Owner{Name: fmt.Sprint("ledger-", i), Host: "batch-worker-eu-central-1a-0042"}
		})
	}
	for _, name := range []string{"report-993", "report-994"} {
		r.waits(name)
	}
	for range 5 {
		if _, d, err := r.service.Reserve(r.t.Context(), reserve.Request{
			Tenant: auth.DefaultTenant, Subject: limits.Subject{Kind: "user", ID: "u_42"}, Action: "export", Cost: 1, TTL: time.Minute, Principal: "user:2:me:u_42",
		}); err != nil || d.Allowed {
			r.t.Fatalf("one more: %v, %v", d.Allowed, err)
		}
	}
	for _, replica := range []reserve.Replica{{ID: "there", Version: "v1.0.0", Address: "10.0.0.2:7420"}, {ID: "gone", Version: "v1.0.0", Address: "10.0.0.3:7420"}} {
		replica.Clock = time.Now()
		r.marker(replica.ID, &replica)
	}
	r.marker("gone", nil)
	if r.pages.Janitor != nil {
		if _, err := r.pages.Janitor.RunOnce(r.t.Context(), "expire"); err != nil {
			r.t.Fatal(err)
		}
	}
}

// quiet is a janitor whose jobs find nothing.
func quiet(t *testing.T, c *Config) {
	t.Helper()
	var jobs []janitor.Job
	for _, name := range []string{"expire", "trim", "rollup", "verify"} {
		jobs = append(jobs, janitor.Job{Name: name, Spec: "@every 1h", Sweep: func(context.Context, int) (int, error) { return 0, nil }})
	}
	var err error
	if c.Janitor, err = janitor.New(janitor.Config{Now: c.Now}, jobs...); err != nil {
		t.Fatal(err)
	}
}

// marker puts what a replica tells of itself, or takes it away.
func (r *rig) marker(id string, told *reserve.Replica) {
	r.t.Helper()
	w := reserve.Write{Ref: reserve.Ref{Kind: reserve.RefReplica, Scope: id}}
	if told != nil {
		w.Value = told
	}
	res, err := r.view.Apply(r.t.Context(), reserve.Batch{Groups: []reserve.Group{{Tenant: auth.DefaultTenant, Catalog: reserve.AnyCatalog, Writes: []reserve.Write{w}}}})
	if err == nil && res.Outcomes[0].Committed {
		err = r.service.Reached(r.t.Context(), res.Rev)
	}
	if err != nil {
		r.t.Fatalf("the marker of %s: %v", id, err)
	}
}
