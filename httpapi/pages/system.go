package pages

import (
	"context"
	"fmt"
	"net/http"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/holdfast-dev/holdfast/reserve"
	"github.com/holdfast-dev/holdfast/web"
)

// systemBody is the service itself, as far as it stands still.
type systemBody struct {
	Checks, Store, Build web.Facts
}

// system shows how the service is: whether it can decide, who is part of it, its jobs and settings.
func (p *Pages) system(ctx context.Context, v *visit) (web.View, error) {
	h := p.health(ctx)
	ready := web.Cell{Text: "yes", Level: web.Good}
	if h.ready != nil {
		ready = web.Cell{Text: p.Problem(h.ready).Detail, Level: web.Bad}
	}
	clock := web.Cell{Text: v.windows.UTC().Format("2006-01-02 15:04:05 UTC")}
	if d := v.windows.Sub(v.now); d > time.Second || d < -time.Second {
		clock = web.Cell{Text: clock.Text + ", moved by " + d.Round(time.Second).String() + " for tests", Level: web.Warn}
	}
	drift := web.Cell{Text: "not counted since this replica started", Level: web.Faint}
	if found, at := p.Drift(); !at.IsZero() {
		drift = web.Cell{Text: fmt.Sprintf("%d, at %s", found, clockWords(at, v.now)), Level: web.Good}
		if found > 0 {
			drift.Level = web.Bad
		}
	}
	b := systemBody{
		Checks: web.Facts{
			{Title: "Can decide", Kind: web.Text, Cell: ready, Name: "ready"},
			{Title: "Drift", Kind: web.Text, Cell: drift, Name: "drift"},
			{Title: "Clock of windows", Kind: web.Text, Cell: clock},
		},
		Store: p.storeFacts(h),
		Build: web.Facts{
			{Title: "Version", Kind: web.Text, Cell: web.Cell{Text: p.Version}},
			{Title: "Built with", Kind: web.Text, Cell: web.Cell{Text: goVersion()}},
			{Title: "Up for", Kind: web.Since, Cell: web.Ago(p.began, v.now)},
			{Title: "Goroutines", Kind: web.Num, Cell: web.Cell{Text: strconv.Itoa(runtime.NumGoroutine())}},
			{Title: "Served under", Kind: web.Code, Cell: web.Cell{Text: p.Prefix + "/"}},
		},
	}
	fields := []web.Field{
		{Name: "ready", Title: "Can decide", Kind: web.Text, Cell: ready},
		{Name: "drift", Title: "Drift", Kind: web.Text, Cell: drift},
	}
	for _, f := range b.Store {
		if f.Name != "" {
			fields = append(fields, web.Field{Name: f.Name, Title: f.Title, Kind: f.Kind, Cell: f.Cell})
		}
	}
	return web.View{
		Page: "system", Title: "System", Section: "system", Body: b, Fields: fields,
		Tables: []*web.Table{findingsTable(h), replicasTable(v, h), membersTable(h), p.jobsTable(v), p.settingsTable()},
	}, nil
}

// findingsTable is what is not as it should be.
func findingsTable(h *health) *web.Table {
	t := &web.Table{
		Name: "findings", Caption: "What is not as it should be", Empty: "Nothing is wrong, as far as this replica can see.",
		Columns: []web.Column{{Title: "Finding", Kind: web.Text}, {Title: "What to do", Kind: web.Text}},
	}
	for _, f := range h.findings {
		t.Rows = append(t.Rows, web.Row{Key: f.says, Level: f.level, Cells: []web.Cell{{Text: upper(f.says), Level: f.level}, {Text: f.next}}})
	}
	return t
}

func replicasTable(v *visit, h *health) *web.Table {
	t := &web.Table{
		Name: "replicas", Caption: "Replicas of Holdfast", Empty: "No replica has told of itself yet.",
		Columns: []web.Column{
			{Title: "Replica", Kind: web.Code},
			{Title: "Address", Kind: web.Text},
			{Title: "Version", Kind: web.Text},
			{Title: "Clock", Kind: web.Text},
			{Title: "State", Kind: web.Text},
		},
	}
	for i := range h.replicas {
		r := &h.replicas[i]
		row := web.Row{Key: r.ID, Cells: []web.Cell{{Text: r.ID}, {Text: r.Address}, {Text: r.Version}, {Text: "in step"}, {Text: "live", Level: web.Good}}}
		switch {
		case !r.Gone.IsZero():
			row.Level = web.Warn
			row.Cells[3], row.Cells[4] = web.Cell{}, web.Cell{Text: "gone since " + clockWords(r.Gone, v.now), Level: web.Warn}
		case r.Own:
			row.Cells[3].Text, row.Cells[4].Text = "its own", "live: it answers you"
		case r.Apart.Abs() > clockApart:
			row.Cells[3] = web.Cell{Text: r.Apart.Round(time.Second).String() + " apart", Level: web.Warn}
		}
		t.Rows = append(t.Rows, row)
	}
	return t
}

func membersTable(h *health) *web.Table {
	t := &web.Table{
		Name: "members", Caption: "Members of etcd", Empty: "Nobody tells who is a member.",
		Columns: []web.Column{
			{Title: "Member", Kind: web.Text},
			{Title: "Role", Kind: web.Text},
			{Title: "Answers", Kind: web.Text},
			{Title: "Size of its file", Kind: web.Num},
			{Title: "Revision", Kind: web.Num},
		},
	}
	for _, m := range h.store.Members {
		row := web.Row{Key: m.Name, Cells: []web.Cell{{Text: m.Name}, {Text: "follower"}, {Text: "not asked", Level: web.Faint}, {}, {}}}
		if m.Leader {
			row.Cells[1].Text = "leader"
		}
		if m.Answers != nil {
			row.Cells[2] = web.Cell{Text: "yes", Level: web.Good}
			if !*m.Answers {
				row.Level, row.Cells[2] = web.Bad, web.Cell{Text: "no", Level: web.Bad}
			}
		}
		if m.Revision > 0 {
			row.Cells[3].Text, row.Cells[4].Text = megabytes(m.FileBytes), grouped(m.Revision)
		}
		t.Rows = append(t.Rows, row)
	}
	return t
}

// jobsTable is the janitor's jobs, how the last run of each ended here, and the way to run it now.
func (p *Pages) jobsTable(v *visit) *web.Table {
	t := &web.Table{
		Name: "jobs", Caption: "Jobs of the janitor", Empty: "This replica has no janitor.",
		Columns: []web.Column{
			{Title: "Job", Kind: web.Text},
			{Title: "Ran", Kind: web.Since},
			{Title: "Took", Kind: web.Text},
			{Title: "Did", Kind: web.Num},
			{Title: "Ended", Kind: web.Text},
			{Title: "Act", Kind: web.Act},
		},
	}
	if p.Janitor == nil {
		return t
	}
	for _, job := range p.Janitor.Jobs() {
		r, at, err := p.Janitor.Last(job)
		row := web.Row{Key: job, Cells: []web.Cell{
			{Text: job},
			{Text: "not yet", Level: web.Faint},
			{},
			{},
			{},
			{Text: "Run now…", Ref: job, Href: p.Prefix + "/system/janitor/" + job},
		}}
		if !at.IsZero() {
			row.Cells[1], row.Cells[2].Text = web.Ago(at, v.now), r.Took.Round(time.Millisecond).String()
			row.Cells[3].Text, row.Cells[4] = strconv.Itoa(r.Swept), web.Cell{Text: "well", Level: web.Good}
			if err != nil {
				row.Level, row.Cells[4] = web.Bad, web.Cell{Text: "with an error; the log has it", Level: web.Bad}
			}
		}
		t.Rows = append(t.Rows, row)
	}
	return t
}

func (p *Pages) settingsTable() *web.Table {
	t := &web.Table{
		Name: "settings", Caption: "Settings in force", Empty: "No settings are told.",
		Columns: []web.Column{{Title: "Setting", Kind: web.Code}, {Title: "Value", Kind: web.Code}, {Title: "From", Kind: web.Text}},
	}
	for _, s := range p.Settings {
		t.Rows = append(t.Rows, web.Row{Key: s.Name, Cells: []web.Cell{{Text: s.Name}, {Text: s.Value}, {Text: s.Origin}}})
	}
	return t
}

func (p *Pages) storeFacts(h *health) web.Facts {
	if p.Cluster == nil {
		return nil
	}
	if h.storeErr != nil {
		return web.Facts{{Title: "Store", Kind: web.Text, Cell: web.Cell{Text: p.Problem(h.storeErr).Detail, Level: web.Bad}}}
	}
	c := &h.store
	alarms := web.Cell{Text: "none", Level: web.Good}
	if len(c.Alarms) > 0 {
		alarms = web.Cell{Text: strings.Join(c.Alarms, ", "), Level: web.Bad}
	}
	used := web.Cell{Text: megabytes(c.UsedBytes)}
	if c.QuotaBytes > 0 {
		used.Text += " of " + megabytes(c.QuotaBytes)
		used.Value, used.Max = c.UsedBytes>>10, c.QuotaBytes>>10
		if c.UsedBytes > c.QuotaBytes/10*7 {
			used.Level = web.Warn
		}
	}
	facts := web.Facts{
		{Title: "Kind", Kind: web.Text, Cell: web.Cell{Text: c.Mode}},
		{Title: "Revision", Kind: web.Num, Cell: web.Cell{Text: grouped(c.Revision)}, Name: "revision"},
		{Title: "Alarms", Kind: web.Text, Cell: alarms, Name: "alarms"},
		{Title: "In use", Kind: web.Meter, Cell: used, Name: "used"},
		{Title: "Size of the file", Kind: web.Text, Cell: web.Cell{Text: megabytes(c.FileBytes)}, Name: "file"},
	}
	if c.LeasesAlive != nil {
		facts = append(facts, web.Fact{Title: "Leases alive", Kind: web.Num, Cell: web.Cell{Text: grouped(*c.LeasesAlive)}, Name: "leases"})
	}
	if p99, ok := p.Fsync(); ok {
		cell := web.Cell{Text: "99 % within " + p99.Round(time.Millisecond).String(), Level: web.Good}
		if p99 > slowDisk {
			cell.Level = web.Warn
		}
		facts = append(facts, web.Fact{Title: "Writes to disk", Kind: web.Text, Cell: cell, Name: "disk"})
	}
	return facts
}

// slowDisk is what etcd's authors hold against a disk: a 99th percentile of its log's syncs above it.
const slowDisk = 10 * time.Millisecond

func megabytes(n int64) string { return fmt.Sprintf("%.1f MB", float64(n)/1e6) }

// theJob is the job that the path names.
func (p *Pages) theJob(v *visit) (string, error) {
	job := v.r.PathValue("job")
	if p.Janitor == nil || !slices.Contains(p.Janitor.Jobs(), job) {
		return "", &formFault{status: http.StatusNotFound, says: []string{"There is no such job."}}
	}
	return job, nil
}

// jobEffects are what the jobs do, for those who are about to run one.
var jobEffects = map[string]string{
	"expire": "It settles holds whose slots are gone already. It ends nothing that is held.",
	"trim":   "It takes the oldest ended reservations and notes away that are over their bounds.",
	"verify": "It recounts everything from the records, and logs what does not add up. It changes nothing.",
	"rollup": "It writes down how much was started, refused and ended since it last ran.",
}

// jobForm asks before a job is run now.
func (p *Pages) jobForm(_ context.Context, v *visit) (web.View, error) {
	job, err := p.theJob(v)
	if err != nil {
		return web.View{}, err
	}
	effect := jobEffects[job]
	if effect == "" {
		effect = "It does one batch of what it does by itself from time to time."
	}
	made := p.ask(v, askBody{Back: p.Prefix + "/system", Heading: "Run " + job + " now?", Button: "Run it", Effect: effect})
	made.Section = "system"
	return made, nil
}

// runJob runs one batch of a job. The note goes first: nothing is done that the trail does not tell.
func (p *Pages) runJob(ctx context.Context, v *visit) (string, error) {
	job, err := p.theJob(v)
	if err != nil {
		return "", err
	}
	n := p.note(v, "")
	if err := p.Service.Note(ctx, v.who.Tenant, n.With(reserve.Change{Act: "janitor.run", Target: job})); err != nil {
		return "", err
	}
	if _, err := p.Janitor.RunOnce(ctx, job); err != nil {
		return "", err
	}
	return "/system?done=ran", nil
}
