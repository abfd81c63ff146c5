package main

import (
	"encoding/json"
	"strings"

	"github.com/spf13/cobra"

	"github.com/holdfast-dev/holdfast/api"
)

func (a *app) limitsSchemaCommand() *cobra.Command {
	return &cobra.Command{
		Use: "schema", Short: "Write the JSON Schema of a limits file, for editors and pipelines",
		Long: "Write the JSON Schema (2020-12) of a limits file, for editors and pipelines. It is the contract's\n" +
			"own: the server reads a file by the same bounds, and by some that no schema can say.",
		Example: "  holdfast limits schema > limits.schema.json\n" +
			"  # first line of limits.yaml:  # yaml-language-server: $schema=limits.schema.json",
		Args: args(cobra.NoArgs),
		RunE: func(*cobra.Command, []string) error {
			schema, err := fileSchema(api.OpenAPIJSON())
			if err != nil {
				return fail(exitFailed, "the contract cannot be read: %w", err)
			}
			encoder := json.NewEncoder(a.stdout)
			encoder.SetEscapeHTML(false)
			encoder.SetIndent("", "  ")
			return encoder.Encode(schema)
		},
	}
}

const (
	schemaDialect = "https://json-schema.org/draft/2020-12/schema"
	inContract    = "#/components/schemas/"
	inSchema      = "#/$defs/"
)

// fileSchema takes the schema of a limits file out of the contract, which is OpenAPI 3.1, whose
// schemas are JSON Schema 2020-12: with all that it refers to, under $defs.
func fileSchema(contract []byte) (map[string]any, error) {
	var doc struct {
		Components struct{ Schemas map[string]any }
	}
	if err := json.Unmarshal(contract, &doc); err != nil {
		return nil, err
	}
	defs := map[string]any{}
	var take func(name string)
	var rewrite func(v any) any
	take = func(name string) {
		if _, taken := defs[name]; !taken {
			defs[name] = nil // found meanwhile by whoever refers to it too
			defs[name] = rewrite(doc.Components.Schemas[name])
		}
	}
	rewrite = func(v any) any {
		switch v := v.(type) {
		case map[string]any:
			out := make(map[string]any, len(v))
			for key, value := range v {
				ref, isRef := value.(string)
				if name, ours := strings.CutPrefix(ref, inContract); isRef && ours && key == "$ref" {
					take(name)
					out[key] = inSchema + name
					continue
				}
				out[key] = rewrite(value)
			}
			return out
		case []any:
			out := make([]any, len(v))
			for i := range v {
				out[i] = rewrite(v[i])
			}
			return out
		}
		return v
	}
	take("LimitsFile")
	return map[string]any{
		"$schema": schemaDialect, "title": "Holdfast limits file", "$ref": inSchema + "LimitsFile", "$defs": defs,
	}, nil
}
