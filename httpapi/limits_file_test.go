package httpapi

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"reflect"
	"strings"
	"sync"
	"testing"

	"pgregory.net/rapid"

	"github.com/holdfast-dev/holdfast/api"
)

// filePost sends a limits file as YAML.
func (r *rig) filePost(path, text string, header ...string) got {
	r.t.Helper()
	h := map[string]string{"Content-Type": yamlType}
	for i := 0; i+1 < len(header); i += 2 {
		h[header[i]] = header[i+1]
	}
	return r.do(ask{method: http.MethodPost, path: "/v1/limits-file/" + path, token: r.token("root", "limits:write"), body: text, header: h})
}

func (r *rig) export(accept string) got {
	r.t.Helper()
	return r.do(ask{method: http.MethodGet, path: "/v1/limits-file", token: r.token("root", "limits:read"), header: map[string]string{"Accept": accept}})
}

// fileOf is a limits file of n limits, the first on line 2, seven lines each.
func fileOf(n int) string {
	var b strings.Builder
	b.WriteString("limits:\n")
	for i := range n {
		fmt.Fprintf(&b, "  - id: l%03d\n    name: Limit %d\n    subjectKind: user\n    action: act%d\n    amount: %d\n    window: day\n    labels: {job: \"%d\"}\n", i, i, i, i, i)
	}
	return b.String()
}

// Issue 8, shown by 1: plan, apply and export of a file of 500 limits are identities.
func TestLimitsFile_PlanApplyExportAreIdentities(t *testing.T) {
	inBubble(t, func(r *rig) {
		text := fileOf(500) + "plans:\n  pro:\n    l001: {amount: 10}\n    l002: {amount: null}\n"
		var planned, applied, again api.FileAnswer
		r.filePost("plan", text).want(http.StatusOK, &planned)
		if len(planned.Create) != 500 || planned.Create[0] != "l000" || planned.Unchanged != 0 || len(planned.Plans.Create) != 1 {
			t.Fatalf("plan: %d to create, %+v", len(planned.Create), planned.Plans)
		}
		r.filePost("apply", text).want(http.StatusOK, &applied)
		if !reflect.DeepEqual(planned, applied) {
			t.Errorf("apply did something else than plan said: %+v", applied)
		}
		r.filePost("plan?prune=true", text).want(http.StatusOK, &again)
		if len(again.Create)+len(again.Change)+len(again.Delete) != 0 || again.Unchanged != 500 || again.Last == nil || again.Last.Digest != again.Digest {
			t.Errorf("plan after apply: %+v", again)
		}
		yamlExport := r.export("application/yaml")
		if yamlExport.header.Get("Content-Type") != yamlType {
			t.Errorf("export: %v", yamlExport.header)
		}
		first := string(yamlExport.want(http.StatusOK, nil).body)
		r.filePost("apply?prune=true", first).want(http.StatusOK, &again)
		if len(again.Create)+len(again.Change)+len(again.Delete)+len(again.Plans.Change) != 0 || again.Unchanged != 500 {
			t.Errorf("apply of the export: %+v", again)
		}
		if second := string(r.export("application/yaml").body); second != first {
			t.Error("the export of an applied export is another")
		}
		var asJSON api.LimitsFile
		r.export("application/json").want(http.StatusOK, &asJSON)
		if len(asJSON.Limits) != 500 || asJSON.Limits[7].Amount != 7 || !asJSON.Plans["pro"]["l002"].Amount.Null {
			t.Errorf("export as JSON: %d limits, plans %v", len(asJSON.Limits), asJSON.Plans)
		}
	})
}

// Issue 8, shown by 1: a wrong line 317 changes nothing and is named.
func TestLimitsFile_AWrongLineIsNamed(t *testing.T) {
	inBubble(t, func(r *rig) {
		lines := strings.Split(fileOf(500), "\n")
		for line, want := range map[string]struct{ fault, pointer, code string }{
			"  - description: [x]": {"line 317: must be a string, not a list", "/limits/45/description", "invalid-body"},
			"  - amuont: x":        {"line 317: is not known", "/limits/45/amuont", "invalid-body"},
			"  - amount: 1":        {"line 321: is there twice", "/limits/45/amount", "invalid-body"},
			"  - id: l001":         {"line 317: is \"l001\", as /limits/1 is already", "/limits/45/id", "invalid-value"},
			"  - id: L45":          {"line 317: must match", "/limits/45/id", "invalid-value"},
			"  - ttlSeconds: 1":    {"line 317: must be", "/limits/45/ttlSeconds", "invalid-value"},
			"  - ttlSeconds: 0x10": {"line 317: \"0x10\" is no number in plain digits", "", "invalid-body"},
			"  - id: *other":       {"line 317: has", "", "invalid-body"},
			"  - id: &a x":         {"line 317: has", "", "invalid-body"},
			"  - id: !!str x":      {"line 317: has", "", "invalid-body"},
			"  - id: [":            {"line 3", "", "invalid-body"},
		} {
			changed := append([]string(nil), lines...)
			changed[316] = line
			answer := r.filePost("apply", strings.Join(changed, "\n"))
			var p api.Problem
			if err := json.Unmarshal(answer.body, &p); err != nil || answer.status/100 != 4 || len(p.Errors) == 0 {
				t.Errorf("%q: got %d %s", line, answer.status, answer.body)
				continue
			}
			if got := p.Errors[0]; string(p.Code) != want.code || got.Pointer != want.pointer || !strings.HasPrefix(got.Detail, want.fault) {
				t.Errorf("%q: got %s %+v, want %+v", line, p.Code, got, want)
			}
		}
		if n := len(r.cfg.Service.Catalog("default").Limits()); n != 0 {
			t.Errorf("%d limits were made of wrong files", n)
		}
	})
}

// Issue 8, shown by 1: two appliers at once, from the same plan.
func TestLimitsFile_OfTwoAppliersOneIsTold(t *testing.T) {
	inBubble(t, func(r *rig) {
		tag := r.filePost("apply", fileOf(3)).want(http.StatusOK, nil).header.Get("Etag")
		var both sync.WaitGroup
		statuses := make([]int, 2)
		for i := range statuses {
			both.Go(func() {
				text := strings.Replace(fileOf(3), "amount: 2", fmt.Sprintf("amount: %d", 100+i), 1)
				statuses[i] = r.filePost("apply", text, "If-Match", tag).status
			})
		}
		both.Wait()
		if statuses[0]+statuses[1] != http.StatusOK+http.StatusPreconditionFailed {
			t.Errorf("got %v, want one 200 and one 412", statuses)
		}
	})
}

func TestLimitsFile_DiffNamesFields(t *testing.T) {
	inBubble(t, func(r *rig) {
		r.exports()
		var answer api.FileAnswer
		r.post(r.token("root", "limits:write"), "/v1/limits-file/apply", map[string]any{"limits": []any{map[string]any{
			"id": "exports", "name": "exports", "subjectKind": "user", "action": "export", "amount": 5, "window": "concurrent", "description": "more",
		}}}).want(http.StatusOK, &answer)
		if len(answer.Change) != 1 {
			t.Fatalf("got %+v", answer)
		}
		diff, _ := json.Marshal(answer.Change[0].Diff)
		if want := `{"amount":{"from":3,"to":5},"description":{"to":"more"}}`; string(diff) != want {
			t.Errorf("got %s, want %s", diff, want)
		}
	})
}

func TestLimitsFile_Edges(t *testing.T) {
	inBubble(t, func(r *rig) {
		token := r.token("root", "limits:write")
		r.filePost("apply?prune=maybe", fileOf(1)).problem(api.InvalidQuery)
		r.filePost("apply", fileOf(1), "Content-Type", "text/plain").problem(api.UnsupportedMediaType)
		r.filePost("apply", "# "+strings.Repeat("x", api.MaxFile)).problem(api.BodyTooLarge)
		r.filePost("apply", "").problem(api.InvalidBody)
		r.filePost("apply", "{}").problem(api.InvalidValue)
		r.filePost("apply", "limits: []\n---\nlimits: []\n").problem(api.InvalidBody)
		r.filePost("apply", strings.Repeat("[", 500_000)).problem(api.InvalidBody)
		r.filePost("apply", strings.Repeat("- ", 500_000)).problem(api.InvalidBody)
		r.do(ask{method: http.MethodPost, path: "/v1/limits-file/apply", token: r.token("u", ""), body: "{}"}).problem(api.Forbidden)
		r.post(token, "/v1/limits-file/apply", `{"limits":[],"limits":[]}`).problem(api.InvalidBody)
		r.filePost("plan", fileOf(1), "If-Match", `"1"`).problem(api.PreconditionFailed)
		r.limit(map[string]any{"id": "l000", "action": "act0", "window": "concurrent"})
		p := r.filePost("apply", fileOf(1)).problem(api.WindowFixed)
		if len(p.Errors) != 1 || p.Errors[0].Pointer != "/limits/0/window" || !strings.HasPrefix(p.Errors[0].Detail, "line 7: ") {
			t.Errorf("a window that is fixed: got %+v", p.Errors)
		}
	})
}

// A plan is given, seen and taken away; checks follow it at once.
func TestSubjectPlan(t *testing.T) {
	inBubble(t, func(r *rig) {
		r.filePost("apply", "limits: [{name: Exports, id: exports, subjectKind: user, action: export, amount: 1, window: concurrent}]\nplans: {pro: {exports: {amount: 2}}}").want(http.StatusOK, nil)
		root, path := r.token("root", "limits:write"), "/v1/subjects/user/u%2042/plan"
		r.get(root, path).problem(api.NotFound)
		r.do(ask{method: http.MethodPut, path: path, token: root, body: map[string]any{"plan": "gold"}}).problem(api.InvalidValue)
		var given api.SubjectPlan
		r.do(ask{method: http.MethodPut, path: path, token: root, body: map[string]any{"plan": "pro"}}).want(http.StatusOK, &given)
		if given.Subject.ID != "u 42" || given.Plan != "pro" || given.By != "user:root" || given.Amounts["exports"].Amount.Value != 2 {
			t.Errorf("got %+v", given)
		}
		var check api.CheckAnswer
		r.post(r.token("u 42", ""), "/v1/checks", map[string]any{"action": "export"}).want(http.StatusOK, &check)
		if check.Limits[0].Amount != 2 {
			t.Errorf("a check under the plan: %+v", check.Limits[0])
		}
		r.do(ask{method: http.MethodDelete, path: path, token: root}).want(http.StatusNoContent, nil)
		r.do(ask{method: http.MethodDelete, path: path, token: root}).problem(api.NotFound)
	})
}

// What is written is read back as it was, whatever the text.
func TestYAML_RoundTrip(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		text := rapid.OneOf(rapid.String(), rapid.SampledFrom([]string{"yes", "0x10", "1_000", "~", "- a", "a: b", "\n x", "<<", "2027-01-01", "#", "\u2028", "\u0085"}))
		file := map[string]any{
			"a": text.Draw(t, "text"), text.Draw(t, "name"): []any{text.Draw(t, "in list"), map[string]any{}, []any{}, []any{1, true, nil}},
			"z": map[string]any{"k": map[string]any{"l": text.Draw(t, "deep")}},
		}
		want, err := json.Marshal(file)
		if err != nil {
			t.Fatal(err)
		}
		out := appendYAML(nil, want)
		got, err := readYAML(out)
		if err != nil {
			t.Fatalf("%s\nwas written as\n%s\nwhich is not read: %v", want, out, err)
		}
		if !bytes.Equal(got.json, want) {
			t.Fatalf("%s\nwas written as\n%s\nand read as\n%s", want, out, got.json)
		}
	})
}

// Whatever is sent, there is an answer and no panic, and what is read is JSON.
func FuzzReadYAML(f *testing.F) {
	for _, seed := range []string{fileOf(2), "a: [1, {b: c}]", "? a\n: b", "- - - x", "a: |\n  b\n", "\"\\u0041\": 'it''s'", "%YAML 1.2\n---\na", "a: 1e3\nb: .inf"} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		y, err := readYAML(data)
		if err == nil && !json.Valid(y.json) {
			t.Errorf("%q was read as %q, which is no JSON", data, y.json)
		}
	})
}
