package main

import (
	"encoding/json"
	"testing"

	"github.com/santhosh-tekuri/jsonschema/v6"

	"github.com/holdfast-dev/holdfast/api"
)

// The schema that editors are given compiles, takes what the server takes, and refuses what it
// refuses.
func TestLimitsSchema_JudgesAsTheServerDoes(t *testing.T) {
	t.Parallel()
	made, err := fileSchema(api.OpenAPIJSON())
	if err != nil {
		t.Fatal(err)
	}
	text, err := json.Marshal(made)
	if err != nil {
		t.Fatal(err)
	}
	var doc any
	if err := json.Unmarshal(text, &doc); err != nil {
		t.Fatal(err)
	}
	compiler := jsonschema.NewCompiler()
	if err := compiler.AddResource("limits.schema.json", doc); err != nil {
		t.Fatal(err)
	}
	schema, err := compiler.Compile("limits.schema.json")
	if err != nil {
		t.Fatal(err)
	}
	const exports = `{"id":"exports","name":"Exports","subjectKind":"user","action":"export","amount":3,"window":"concurrent"`
	for file, good := range map[string]bool{
		`{"limits":[]}`:                 true,
		`{"limits":[` + exports + `}]}`: true,
		`{"limits":[` + exports + `,"enforce":false,"schedules":[{"cron":"0 8 * * *","tz":"Europe/Berlin","amount":5}]}],"plans":{"pro":{"exports":{"amount":null}}}}`: true,
		`{}`:                     false,
		`{"limits":[],"more":1}`: false,
		`{"limits":[` + exports + `,"wrong":1}]}`:                     false,
		`{"limits":[` + exports + `,"ttlSeconds":1}]}`:                false,
		`{"limits":[` + exports + `,"share":"some"}]}`:                false,
		`{"limits":[` + exports + `,"schedules":[{"amount":5}]}]}`:    false,
		`{"limits":[],"plans":{"pro":{"exports":{"amount":"many"}}}}`: false,
		`{"limits":[],"plans":{"pro":{"exports":{}}}}`:                false,
	} {
		var value any
		if err := json.Unmarshal([]byte(file), &value); err != nil {
			t.Fatal(err)
		}
		if err := schema.Validate(value); (err == nil) != good {
			t.Errorf("%s: got %v, want good %v", file, err, good)
		}
		var in api.LimitsFile
		if err := api.Decode([]byte(file), &in); (err == nil) != good {
			t.Errorf("%s: the server's decoder: got %v, want good %v", file, err, good)
		}
	}
}
