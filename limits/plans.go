package limits

import (
	"maps"
	"slices"
	"strings"
	"time"
)

// Plan is a named bundle of amounts, by the id of the limit. Given to a subject it stands where
// an override for that subject would, and gives way to one. What it says of a limit that is not
// there, or that is shared by all, does nothing.
type Plan map[string]PlanAmount

// PlanAmount is what a plan grants under one limit.
type PlanAmount struct {
	Amount    int64
	Unlimited bool
}

// File is what is kept of a limits file beside its limits: its plans, and what it was.
type File struct {
	Plans  map[string]Plan // by name
	Digest string          // SHA-256 of the bytes that were applied, in lower-case hex
	At     time.Time
	By     string
}

// SubjectPlan says that a subject has a plan. A plan that is not in the file does nothing.
type SubjectPlan struct {
	Subject   Subject
	Plan      string
	By        string
	CreatedAt time.Time
}

// Validate checks the subject and the plan's name.
// Errors: *InvalidError, with fields "/subject/kind", "/subject/id", "/plan".
func (p SubjectPlan) Validate() error {
	var f faults
	f.under("/subject", p.Subject.Validate())
	f.need(isLimitID(p.Plan), "/plan", planReason)
	return f.err()
}

const planReason = "must match [a-z0-9][a-z0-9._-]{0,62}"

// CheckPlans checks the plans of a file: at most MaxPlans of MaxPlanAmounts in all, their names,
// their amounts, and by known that each limit they name is there and has a count for each
// subject; known answers nil for a limit that is not there.
// Errors: *InvalidError, with fields such as "/plans/pro/exports/amount".
func CheckPlans(plans map[string]Plan, known func(id string) *Limit) error {
	var f faults
	f.need(len(plans) <= MaxPlans, "/plans", "must be at most 200")
	all := 0
	for _, name := range slices.Sorted(maps.Keys(plans)) {
		at := "/plans/" + escape(name)
		f.need(isLimitID(name), at, "name "+planReason)
		all += len(plans[name])
		for _, id := range slices.Sorted(maps.Keys(plans[name])) {
			under := at + "/" + escape(id)
			a := plans[name][id]
			f.need(a.Unlimited || a.Amount >= 0 && a.Amount <= MaxAmount, under+"/amount", "must be 0 to 1000000000, or null for unlimited")
			switch l := known(id); {
			case l == nil:
				f.add(under, "is no limit of this file or of this tenant")
			case l.Share == All:
				f.add(under, "is a limit shared by all, which has one amount for everyone")
			}
		}
		if len(f) >= maxPlanFaults {
			break
		}
	}
	f.need(all <= MaxPlanAmounts, "/plans", "must have at most 20000 amounts in all")
	return f.err()
}

// maxPlanFaults is how many faults of plans are told at once.
const maxPlanFaults = 50

// addPlans takes in what the file says and who has which plan.
func (c *Catalog) addPlans(file *File, given []SubjectPlan) {
	c.file, c.given = file, make(map[Subject]*SubjectPlan, len(given))
	for _, g := range given {
		c.given[g.Subject] = &g
	}
}

// File is the limits file that was applied last, nil when none was. Not to be changed.
func (c *Catalog) File() *File { return c.file }

// SubjectPlan is the plan that was given to s.
func (c *Catalog) SubjectPlan(s Subject) (SubjectPlan, bool) {
	g, ok := c.given[s]
	if !ok {
		return SubjectPlan{}, false
	}
	return *g, true
}

// SubjectPlans is how many subjects have a plan.
func (c *Catalog) SubjectPlans() int { return len(c.given) }

// planned is what the plan of s grants under l.
func (c *Catalog) planned(l *Limit, s Subject) (plan string, a PlanAmount, ok bool) {
	if len(c.given) == 0 || c.file == nil || l.Share == All {
		return "", a, false
	}
	g, has := c.given[s]
	if !has {
		return "", a, false
	}
	a, ok = c.file.Plans[g.Plan][l.ID]
	return g.Plan, a, ok
}

// PlanNames are the plans of the file, ascending.
func (f *File) PlanNames() []string {
	if f == nil {
		return nil
	}
	return slices.SortedFunc(maps.Keys(f.Plans), strings.Compare)
}
