package api

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"maps"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/getkin/kin-openapi/openapi3"
)

// shapes are the Go types that have a schema of the same name.
var shapes = func() map[string]reflect.Type {
	all := map[string]reflect.Type{
		"LimitPage": reflect.TypeFor[LimitPage](), "ReservationPage": reflect.TypeFor[ReservationPage](),
		"AuditPage":    reflect.TypeFor[AuditPage](),
		"WebhookPage":  reflect.TypeFor[WebhookPage](),
		"OverridePage": reflect.TypeFor[OverridePage](), "UsagePage": reflect.TypeFor[UsagePage](), "WaiterPage": reflect.TypeFor[WaiterPage](),
	}
	for _, v := range []any{
		AppliedFile{},
		AuditLine{},
		CheckAnswer{},
		CheckRequest{},
		ClockAnswer{},
		ClockRequest{},
		ClusterAnswer{},
		Member{},
		CommitRequest{},
		ConfigAnswer{},
		Event{},
		Delivery{},
		RotateRequest{},
		Webhook{},
		WebhookRequest{},
		EventOverride{},
		ExtendRequest{},
		Fault{},
		FenceAnswer{},
		FieldChange{},
		FileAnswer{},
		FenceRequest{},
		Finding{},
		ForceReleaseRequest{},
		Health{},
		HealthCheck{},
		HeartbeatAnswer{},
		HeartbeatRequest{},
		HeartbeatResult{},
		Holder{},
		JanitorAnswer{},
		LoginLink{},
		Key{},
		KeySet{},
		Limit{},
		LimitChange{},
		LimitInput{},
		LimitOverride{},
		LimitsFile{},
		Override{},
		OverrideInput{},
		Owner{},
		PlanAmount{},
		PlanChanges{},
		Problem{},
		Refusal{},
		ReleaseRequest{},
		Reservation{},
		ReserveRequest{},
		ResetRequest{},
		Schedule{},
		Scheduled{},
		ScheduledChange{},
		Setting{},
		Slot{},
		Subject{},
		SubjectPlan{},
		SubjectPlanInput{},
		SubjectView{},
		Usage{},
		UsageHistory{},
		UsageNow{},
		Verdict{},
		VerifyAnswer{},
		Version{},
		Waiter{},
		Explanation{},
	} {
		all[reflect.TypeOf(v).Name()] = reflect.TypeOf(v)
	}
	return all
}()

// No exported struct may escape the comparison: those that are not on the wire are named here.
func TestShapes_AllTypesAreCompared(t *testing.T) {
	t.Parallel()
	apart := []string{"DecodeError", "Nullable", "Page", "Time"}
	for _, name := range exportedTypes(t) {
		if _, ok := shapes[name]; ok == slices.Contains(apart, name) {
			t.Errorf("type %s: in shapes %v, named as apart %v", name, ok, !ok)
		}
	}
}

func exportedTypes(t *testing.T) (names []string) {
	t.Helper()
	files, err := filepath.Glob("*.go")
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range files {
		if strings.HasSuffix(file, "_test.go") {
			continue
		}
		tree, err := parser.ParseFile(token.NewFileSet(), file, nil, 0)
		if err != nil {
			t.Fatal(err)
		}
		ast.Inspect(tree, func(n ast.Node) bool {
			spec, ok := n.(*ast.TypeSpec)
			if !ok || !spec.Name.IsExported() {
				return true
			}
			if _, isStruct := spec.Type.(*ast.StructType); isStruct || spec.Assign.IsValid() {
				names = append(names, spec.Name.Name)
			}
			return true
		})
	}
	if len(names) < 40 {
		t.Fatalf("found %d types, want at least 40: is the walk right?", len(names))
	}
	return names
}

// Both ways: every schema of an object has a type, every type a schema, and they agree in
// names, what is required, JSON types, bounds and words.
func TestShapes_SchemasAndTypesAgree(t *testing.T) {
	t.Parallel()
	schemas := load(t).Components.Schemas
	for name, ref := range schemas {
		if ref.Value.Type.Is("object") && shapes[name] == nil && name != "LimitPatch" && name != "Labels" {
			t.Errorf("schema %s has no Go type", name)
		}
	}
	for name, goType := range shapes {
		ref := schemas[name]
		if ref == nil {
			t.Errorf("type %s has no schema", name)
			continue
		}
		for _, fault := range compareObject(ref.Value, goType) {
			t.Errorf("%s: %s", name, fault)
		}
	}
}

// nullWhenUnlimited are written by hand as null (unlimited.go); their Go type stays a number.
var nullWhenUnlimited = map[string]bool{
	"Verdict.amount": true, "Verdict.remaining": true, "UsageNow.amount": true, "UsageNow.remaining": true,
}

func compareObject(s *openapi3.Schema, goType reflect.Type) (faults []string) {
	request := s.AdditionalProperties.Has != nil && !*s.AdditionalProperties.Has
	var names, required []string
	for i := range goType.NumField() {
		f := goType.Field(i)
		name, options, _ := strings.Cut(f.Tag.Get("json"), ",")
		names = append(names, name)
		optional := strings.Contains(options, "omitempty") || strings.Contains(options, "omitzero")
		r := rulesOf(f.Tag.Get("rule"))
		if request && r.required || !request && !optional {
			required = append(required, name)
		}
		prop := s.Properties[name]
		if prop == nil {
			faults = append(faults, name+" is not in the schema")
			continue
		}
		fieldType := f.Type
		if nullWhenUnlimited[goType.Name()+"."+name] {
			fieldType, optional = reflect.PointerTo(fieldType), false
		}
		for _, fault := range compareValue(prop, fieldType, optional) {
			faults = append(faults, name+": "+fault)
		}
		if request {
			faults = append(faults, compareRules(name, prop.Value, r)...)
		}
	}
	for name := range s.Properties {
		if !slices.Contains(names, name) {
			faults = append(faults, name+" is not in the type")
		}
	}
	slices.Sort(required)
	if want := slices.Sorted(slices.Values(s.Required)); !slices.Equal(required, want) {
		faults = append(faults, fmt.Sprintf("required: type %v, schema %v", required, want))
	}
	return faults
}

// compareValue compares one value's JSON type; a struct must be named by reference.
func compareValue(ref *openapi3.SchemaRef, goType reflect.Type, optional bool) (faults []string) {
	null := false
	switch {
	case goType == rawType:
		if ref.Value.Type != nil && !slices.Equal(ref.Value.Type.Slice(), []string{"object", "null"}) {
			return []string{"may be anything, but the schema has a type"}
		}
		return nil
	case isNullable(goType):
		null, goType = true, goType.Field(0).Type
	case goType.Kind() == reflect.Pointer:
		null, goType = !optional, goType.Elem()
	}
	if got := ref.Value.Type.Includes("null"); got != null {
		faults = append(faults, fmt.Sprintf("null: type %v, schema %v", null, got))
	}
	want := map[reflect.Kind]string{
		reflect.String: "string", reflect.Int64: "integer", reflect.Int: "integer", reflect.Float64: "number",
		reflect.Bool: "boolean", reflect.Slice: "array", reflect.Map: "object", reflect.Struct: "object",
	}[goType.Kind()]
	if goType == timeType {
		want = "string"
		if ref.Value.Format != "date-time" {
			faults = append(faults, "wants format date-time")
		}
	}
	if !ref.Value.Type.Includes(want) {
		faults = append(faults, fmt.Sprintf("type %s, schema %v", want, ref.Value.Type))
	}
	switch {
	case goType == timeType:
	case goType.Kind() == reflect.Struct:
		if got := strings.TrimPrefix(ref.Ref, "#/components/schemas/"); got != goType.Name() {
			faults = append(faults, fmt.Sprintf("type %s, schema %q", goType.Name(), ref.Ref))
		}
	case goType.Kind() == reflect.Slice:
		faults = append(faults, compareValue(ref.Value.Items, goType.Elem(), false)...)
	case goType.Kind() == reflect.Map:
		faults = append(faults, compareValue(ref.Value.AdditionalProperties.Schema, goType.Elem(), false)...)
	}
	return faults
}

// compareRules compares what Decode checks of a request with what the schema says.
func compareRules(name string, s *openapi3.Schema, r rules) (faults []string) {
	differ := func(what string, goes, says any) {
		if fmt.Sprint(goes) != fmt.Sprint(says) {
			faults = append(faults, fmt.Sprintf("%s: %s: rule %v, schema %v", name, what, goes, says))
		}
	}
	switch {
	case s.Type == nil:
	case s.Type.Includes("integer"):
		least, most := "none", "none"
		if r.bounded && r.min != -1<<63 {
			least = fmt.Sprint(r.min)
		}
		if r.bounded && r.max != 1<<63-1 {
			most = fmt.Sprint(r.max)
		}
		differ("minimum", least, bound(s.Min))
		differ("maximum", most, bound(s.Max))
	case s.Type.Includes("array"):
		most := "none"
		if s.MaxItems != nil {
			most = fmt.Sprint(*s.MaxItems)
		}
		differ("maxItems", r.max, most)
	case s.Type.Includes("string"):
		words := make([]string, len(s.Enum))
		for i, word := range s.Enum {
			words[i] = word.(string)
		}
		differ("enum", r.enum, words)
	}
	return faults
}

func bound(f *float64) string {
	if f == nil {
		return "none"
	}
	return fmt.Sprintf("%.0f", *f)
}

// A patch names exactly what a limit can be given.
func TestShapes_PatchHasTheNamesOfLimitInput(t *testing.T) {
	t.Parallel()
	schemas := load(t).Components.Schemas
	got := slices.Sorted(maps.Keys(schemas["LimitPatch"].Value.Properties))
	want := slices.Sorted(maps.Keys(schemas["LimitInput"].Value.Properties))
	if !slices.Equal(got, want) {
		t.Errorf("LimitPatch has %v\nwant %v", got, want)
	}
}

// What an answer of GET holds can be sent back by PUT.
func TestShapes_LimitInputTakesALimit(t *testing.T) {
	t.Parallel()
	input := shapes["LimitInput"]
	for i := range shapes["Limit"].NumField() {
		name, _, _ := strings.Cut(shapes["Limit"].Field(i).Tag.Get("json"), ",")
		if planOf(input).find([]byte(name)) < 0 {
			t.Errorf("LimitInput has no %s", name)
		}
	}
}
