package httpapi

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"

	"github.com/holdfast-dev/holdfast/api"
	"github.com/holdfast-dev/holdfast/catalogue"
	"github.com/holdfast-dev/holdfast/limits"
)

// Media types of a limits file.
const yamlType = "application/yaml"

// sourceFile is where a limit comes from that a limits file made or changed.
const sourceFile = "file"

// LimitsFile is a limits file as read and judged.
type LimitsFile struct {
	Limits []limits.Limit
	Plans  map[string]limits.Plan
	Digest string // SHA-256 of its bytes, in lower-case hex

	text *yamlText // nil: it was JSON, whose lines nobody knows
}

// ReadLimitsFile reads {"limits":[…],"plans":{…}}, as JSON or as YAML, by the strict rules of
// bodies, and judges every limit.
// Errors: *api.DecodeError with all that is wrong; of YAML each detail begins with the line.
func ReadLimitsFile(data []byte, isYAML bool) (*LimitsFile, error) {
	sum := sha256.Sum256(data)
	f := &LimitsFile{Digest: hex.EncodeToString(sum[:])}
	if len(data) > api.MaxFile {
		return nil, yamlFault(0, fmt.Sprintf("must be at most %d bytes", api.MaxFile))
	}
	if isYAML {
		text, err := readYAML(data)
		if err != nil {
			return nil, err
		}
		data, f.text = text.json, &text
	}
	var in api.LimitsFile
	err := api.Decode(data, &in)
	if err = also(err, f.judge(&in)); err != nil {
		return nil, f.Lined(err)
	}
	return f, nil
}

// judge takes in what was decoded, and finds what the domain would refuse.
func (f *LimitsFile) judge(in *api.LimitsFile) (faults []api.Fault) {
	first := make(map[string]int, len(in.Limits))
	for i := range in.Limits {
		at := fmt.Sprintf("/limits/%d", i)
		l, err := LimitOf(&in.Limits[i])
		faults = append(faults, faultsOf(at, err)...)
		if before, twice := first[l.ID]; twice && l.ID != "" {
			faults = append(faults, api.Fault{Pointer: at + "/id", Detail: fmt.Sprintf("is %q, as /limits/%d is already", l.ID, before)})
		} else {
			first[l.ID] = i
		}
		f.Limits = append(f.Limits, l)
	}
	for name, amounts := range in.Plans {
		if f.Plans == nil {
			f.Plans = make(map[string]limits.Plan, len(in.Plans))
		}
		p := make(limits.Plan, len(amounts))
		for id, a := range amounts {
			p[id] = limits.PlanAmount{Amount: a.Amount.Value, Unlimited: a.Amount.Null}
		}
		f.Plans[name] = p
	}
	return faults
}

// linedError is an error about a YAML file, whose problem document names lines too.
type linedError struct {
	err  error
	text *yamlText
}

func (e *linedError) Error() string { return e.err.Error() }
func (e *linedError) Unwrap() error { return e.err }

// problem is that of the error within, each fault with its line.
func (e *linedError) problem() api.Problem {
	p := problemOf(e.err)
	faults := make([]api.Fault, len(p.Errors))
	for i, f := range p.Errors {
		faults[i] = api.Fault{Pointer: f.Pointer, Detail: onLine(e.text.line(f.Pointer), f.Detail)}
	}
	p.Errors = faults
	return p
}

// Lined names the lines of err, which came of editing the catalogue by this file.
func (f *LimitsFile) Lined(err error) error {
	if f.text == nil || err == nil {
		return err
	}
	if d, ok := errors.AsType[*api.DecodeError](err); ok {
		told := &api.DecodeError{Code: d.Code, Faults: make([]api.Fault, len(d.Faults))}
		for i, fault := range d.Faults {
			told.Faults[i] = api.Fault{Pointer: fault.Pointer, Detail: onLine(f.text.line(fault.Pointer), fault.Detail)}
		}
		return told
	}
	return &linedError{err, f.text}
}

// of is the file as the catalogue takes it.
func (f *LimitsFile) of(source string, prune bool) catalogue.File {
	return catalogue.File{Limits: f.Limits, Plans: f.Plans, Digest: f.Digest, Source: source, Prune: prune}
}

// File is what a server that starts with the file gives to catalogue.Editor.Import.
func (f *LimitsFile) File() catalogue.File { return f.of(sourceFile, false) }

// planFile answers POST /v1/limits-file/plan: what apply would change now.
//
// Access: limits:write.
func (s *server) planFile(ctx context.Context, c *call) (int, any, error) {
	return s.filed(c, func(f catalogue.File) (catalogue.Diff, error) {
		return s.Editor.Plan(ctx, c.who.Tenant, f, c.by())
	})
}

// applyFile answers POST /v1/limits-file/apply: all of it stands, or nothing happened.
//
// Access: limits:write.
func (s *server) applyFile(ctx context.Context, c *call) (int, any, error) {
	return s.filed(c, func(f catalogue.File) (catalogue.Diff, error) {
		d, err := s.edits(c, "").Apply(ctx, c.who.Tenant, f, c.by())
		return d, s.reached(ctx, d.Revision, err)
	})
}

// filed reads the file and answers with what do made of it.
func (s *server) filed(c *call, do func(catalogue.File) (catalogue.Diff, error)) (int, any, error) {
	prune, err := c.query.truth("prune")
	if err != nil {
		return 0, nil, err
	}
	revision, err := optionalIfMatch(c.req.Header)
	if err != nil {
		return 0, nil, err
	}
	read, err := c.limitsFile()
	if err != nil {
		return 0, nil, err
	}
	file := read.of(sourceFile, prune)
	file.IfRevision = revision
	d, err := do(file)
	if err != nil {
		return 0, nil, read.Lined(err)
	}
	c.fileTag(d.Revision)
	return http.StatusOK, fileAnswer(read, &d), nil
}

// fileTag tells at which revision of the catalogue the answer was made; If-Match with it makes
// apply insist on that. A tenant that has never had a limit has none.
func (c *call) fileTag(revision int64) {
	if revision > 0 {
		c.out["Etag"] = []string{etag(revision)}
	}
}

// limitsFile reads the body as the file its content type says it is.
func (c *call) limitsFile() (*LimitsFile, error) {
	data, err := readBody(c.req, nil, api.MaxFile)
	if err != nil {
		return nil, err
	}
	if err := checkType(c.req.Header, jsonType[0], yamlType); err != nil {
		return nil, err
	}
	return ReadLimitsFile(data, checkType(c.req.Header, yamlType) == nil)
}

func fileAnswer(f *LimitsFile, d *catalogue.Diff) api.FileAnswer {
	answer := api.FileAnswer{
		Create: make([]string, len(d.Create)), Change: make([]api.LimitChange, len(d.Change)), Delete: names(d.Delete),
		Unchanged: int64(d.Unchanged), Digest: digestText(f.Digest),
		Plans: api.PlanChanges{Create: names(d.Plans.Create), Change: names(d.Plans.Change), Delete: names(d.Plans.Delete)},
	}
	for i := range d.Create {
		answer.Create[i] = d.Create[i].ID
	}
	for i := range d.Change {
		answer.Change[i] = api.LimitChange{ID: d.Change[i].New.ID, Diff: fieldsDiffer(&d.Change[i].Old, &d.Change[i].New)}
	}
	if d.Last != nil {
		answer.Last = &api.AppliedFile{Digest: digestText(d.Last.Digest), At: api.At(d.Last.At), By: d.Last.By}
	}
	return answer
}

func digestText(hex string) string { return "sha256:" + hex }

// names is a list that is [] and not null when it is empty.
func names(list []string) []string {
	if list == nil {
		return []string{}
	}
	return list
}

// readOnlyFields are those of a limit that no file sets.
var readOnlyFields = []string{"revision", "createdAt", "updatedAt", "updatedBy", "source", "override", "scheduled", "nextChanges"}

// fieldsDiffer compares two limits as the API shows them, but for what only reads.
func fieldsDiffer(old, new *limits.Limit) map[string]api.FieldChange {
	from, to := fieldsOf(old), fieldsOf(new)
	diff := map[string]api.FieldChange{}
	for name, value := range from {
		if !bytes.Equal(value, to[name]) {
			diff[name] = api.FieldChange{From: value, To: to[name]}
		}
	}
	for name, value := range to {
		if _, there := from[name]; !there {
			diff[name] = api.FieldChange{To: value}
		}
	}
	return diff
}

func fieldsOf(l *limits.Limit) map[string]json.RawMessage {
	fields := map[string]json.RawMessage{}
	if text, err := json.Marshal(limitView(l)); err == nil { // it never fails: there is nothing JSON cannot say
		_ = json.Unmarshal(text, &fields)
	}
	for _, name := range readOnlyFields {
		delete(fields, name)
	}
	return fields
}

// tooBig is the problem of a file whose changes no transaction of this store takes.
func tooBig(error) api.Problem {
	return api.NewProblem(api.BodyTooLarge, "The file changes more than this store takes in one transaction; nothing happened. "+
		"Apply it in parts (without prune), or let etcd take larger requests (--max-request-bytes, --max-txn-ops).")
}
