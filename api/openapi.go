package api

import _ "embed" // for go:embed

//go:generate go test -run=^TestOpenAPIJSON$ -update .

// OpenAPI is openapi.yaml: the contract in its exact form. Not to be written to.
//
//go:embed openapi.yaml
var OpenAPI []byte

//go:embed openapi.json
var openAPIJSON []byte

// OpenAPIJSON is the same document as JSON, generated from openapi.yaml and kept equal to it
// by a test. Each call returns the same bytes, which are not to be written to.
func OpenAPIJSON() []byte { return openAPIJSON }
