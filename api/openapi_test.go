package api

import (
	"bytes"
	"context"
	"encoding/json"
	"flag"
	"os"
	"slices"
	"sync"
	"testing"

	"github.com/getkin/kin-openapi/openapi3"
	"github.com/goccy/go-yaml"
)

var update = flag.Bool("update", false, "write generated files")

// document reads and validates openapi.yaml, examples included, once for all tests.
var document = sync.OnceValues(func() (*openapi3.T, error) {
	doc, err := openapi3.NewLoader().LoadFromData(OpenAPI)
	if err != nil {
		return nil, err
	}
	return doc, doc.Validate(context.Background())
})

func load(t *testing.T) *openapi3.T {
	t.Helper()
	doc, err := document()
	if err != nil {
		t.Fatalf("openapi.yaml is not valid: %v", err)
	}
	return doc
}

func TestOpenAPIJSON(t *testing.T) {
	want, err := yaml.YAMLToJSON(OpenAPI)
	if err != nil {
		t.Fatalf("openapi.yaml is no YAML: %v", err)
	}
	var pretty bytes.Buffer
	if err := json.Indent(&pretty, bytes.TrimSpace(want), "", " "); err != nil {
		t.Fatalf("goccy made no JSON of it: %v", err)
	}
	pretty.WriteByte('\n')
	if *update {
		if err := os.WriteFile("openapi.json", pretty.Bytes(), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	if !bytes.Equal(pretty.Bytes(), OpenAPIJSON()) {
		t.Error("openapi.json is not what openapi.yaml says: run go generate ./api")
	}
}

func TestOpenAPI_JSONLoadsToo(t *testing.T) {
	t.Parallel()
	doc, err := openapi3.NewLoader().LoadFromData(OpenAPIJSON())
	if err != nil {
		t.Fatalf("openapi.json does not load: %v", err)
	}
	if got, want := len(doc.Paths.Map()), len(load(t).Paths.Map()); got != want {
		t.Errorf("openapi.json has %d paths, openapi.yaml %d", got, want)
	}
}

// Every example of every media type, looked at with the strict validator of 3.1.
func TestOpenAPI_ExamplesValidate(t *testing.T) {
	t.Parallel()
	seen := 0
	for path, item := range load(t).Paths.Map() {
		for method, op := range item.Operations() {
			bodies := map[string]openapi3.Content{}
			if op.RequestBody != nil {
				bodies["request"] = op.RequestBody.Value.Content
			}
			for status, r := range op.Responses.Map() {
				bodies[status] = r.Value.Content
			}
			for where, content := range bodies {
				for name, value := range examplesOf(content) {
					seen++
					if err := value.schema.VisitJSON(value.value, openapi3.EnableJSONSchema2020()); err != nil {
						t.Errorf("%s %s, %s, example %s: %v", method, path, where, name, err)
					}
				}
			}
		}
	}
	if seen < 40 {
		t.Errorf("saw %d examples, want at least 40: is the walk right?", seen)
	}
}

type example struct {
	schema *openapi3.Schema
	value  any
}

func examplesOf(content openapi3.Content) map[string]example {
	all := map[string]example{}
	for _, media := range content {
		for name, ex := range media.Examples {
			all[name] = example{media.Schema.Value, ex.Value.Value}
		}
	}
	return all
}

// The examples of requests pass our own decoder, those of answers fit our types.
func TestOpenAPI_ExamplesDecode(t *testing.T) {
	t.Parallel()
	for name, into := range map[string]any{
		"concurrentLimit": &LimitInput{}, "rollingLimit": &LimitInput{}, "bucketLimit": &LimitInput{},
		"limit": &Limit{}, "override": &Override{}, "check": &CheckRequest{}, "reserve": &ReserveRequest{},
		"checkAllowed": &CheckAnswer{}, "checkRefused": &CheckAnswer{}, "held": &Reservation{},
		"committed": &Reservation{}, "heartbeats": &HeartbeatAnswer{}, "invalidBody": &Problem{},
		"invalidValue": &Problem{}, "holdLost": &Problem{}, "noFreeSlot": &Problem{},
	} {
		ex, ok := load(t).Components.Examples[name]
		if !ok {
			t.Errorf("no example %s", name)
			continue
		}
		text, err := json.Marshal(ex.Value.Value)
		if err != nil {
			t.Fatal(err)
		}
		if err := Decode(text, into); err != nil {
			t.Errorf("example %s does not decode: %v\n%s", name, err, text)
		}
	}
}

// Rule: API.md section 7; the one table of codes and the document agree.
func TestOpenAPI_CodesAreTheTable(t *testing.T) {
	t.Parallel()
	var got []Code
	for _, word := range load(t).Components.Schemas["Code"].Value.Enum {
		got = append(got, Code(word.(string)))
	}
	if want := Codes(); !slices.Equal(got, want) {
		t.Errorf("codes of openapi.yaml\n got %v\nwant %v", got, want)
	}
}

func TestOpenAPI_OperationsAreComplete(t *testing.T) {
	t.Parallel()
	ids := map[string]bool{}
	for path, item := range load(t).Paths.Map() {
		for method, op := range item.Operations() {
			if op.OperationID == "" || ids[op.OperationID] {
				t.Errorf("%s %s: operationId %q is missing or there twice", method, path, op.OperationID)
			}
			ids[op.OperationID] = true
			if op.Summary == "" || len(op.Tags) != 1 {
				t.Errorf("%s %s: wants a summary and one tag", method, path)
			}
			if op.Security == nil && op.Responses.Value("401") == nil {
				t.Errorf("%s %s: needs a token but does not answer 401", method, path)
			}
		}
	}
}
