package store

import (
	"github.com/holdfast-dev/holdfast/limits"
	"github.com/holdfast-dev/holdfast/reserve"
)

// fileValue is what is kept of a limits file. A plan's amount of null is unlimited.
type fileValue struct {
	Digest   string
	Plans    map[string]map[string]*int64
	AtMillis *int64
	By       string
}

type subjectPlanValue struct {
	SubjectKind, SubjectID string
	Plan, By               string
	CreatedMillis          *int64
}

func appendFile(b []byte, f *limits.File) []byte {
	v := fileValue{Digest: f.Digest, AtMillis: millis(f.At), By: f.By}
	for name, p := range f.Plans {
		if v.Plans == nil {
			v.Plans = make(map[string]map[string]*int64, len(f.Plans))
		}
		amounts := make(map[string]*int64, len(p))
		for id, a := range p {
			amounts[id] = nil
			if !a.Unlimited {
				amounts[id] = &a.Amount
			}
		}
		v.Plans[name] = amounts
	}
	return appendJSON(b, &v)
}

func decodeFile(text []byte) (any, error) {
	var v fileValue
	if err := readJSON(text, &v); err != nil {
		return nil, err
	}
	f := &limits.File{Digest: v.Digest, At: fromMillis(v.AtMillis), By: v.By}
	for name, amounts := range v.Plans {
		if f.Plans == nil {
			f.Plans = make(map[string]limits.Plan, len(v.Plans))
		}
		if amounts == nil {
			return nil, reserve.ErrCorrupt
		}
		p := make(limits.Plan, len(amounts))
		for id, n := range amounts {
			if n == nil {
				p[id] = limits.PlanAmount{Unlimited: true}
				continue
			}
			p[id] = limits.PlanAmount{Amount: *n}
		}
		f.Plans[name] = p
	}
	return f, nil
}

func appendSubjectPlan(b []byte, p *limits.SubjectPlan) []byte {
	return appendJSON(b, &subjectPlanValue{
		SubjectKind: p.Subject.Kind, SubjectID: p.Subject.ID, Plan: p.Plan, By: p.By, CreatedMillis: millis(p.CreatedAt),
	})
}

func decodeSubjectPlan(text []byte) (any, error) {
	var v subjectPlanValue
	if err := readJSON(text, &v); err != nil {
		return nil, err
	}
	return &limits.SubjectPlan{
		Subject: limits.Subject{Kind: v.SubjectKind, ID: v.SubjectID}, Plan: v.Plan, By: v.By, CreatedAt: fromMillis(v.CreatedMillis),
	}, nil
}
