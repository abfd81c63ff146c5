package main

import (
	"debug/buildinfo"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"runtime/debug"
	"strings"
)

// A bill of materials in CycloneDX 1.6: the part of it that a Go binary knows of itself. It has
// no time and no serial number, so that the same binary has the same bill.
type (
	bill struct {
		Format     string         `json:"bomFormat"`
		Spec       string         `json:"specVersion"`
		Version    int            `json:"version"`
		Metadata   billMetadata   `json:"metadata"`
		Components []billMaterial `json:"components"`
	}
	billMetadata struct {
		Component billMaterial `json:"component"`
	}
	billMaterial struct {
		Type       string         `json:"type"`
		Ref        string         `json:"bom-ref"`
		Name       string         `json:"name"`
		Version    string         `json:"version"`
		URL        string         `json:"purl"`
		Properties []billProperty `json:"properties,omitempty"`
	}
	billProperty struct {
		Name  string `json:"name"`
		Value string `json:"value"`
	}
)

// printBill prints what the Go linker noted in a binary, of whatever system it is for.
func (a *app) printBill(path string) error {
	info, err := buildinfo.ReadFile(path)
	if err != nil {
		return usage("--sbom %s is no binary made by go: %w", path, err)
	}
	encoder := json.NewEncoder(a.stdout)
	encoder.SetIndent("", "  ")
	encoder.SetEscapeHTML(false)
	return encoder.Encode(billOf(info))
}

func billOf(info *debug.BuildInfo) bill {
	main := material("application", &debug.Module{Path: info.Main.Path, Version: released(info)})
	for _, s := range info.Settings {
		switch s.Key {
		case "GOOS", "GOARCH", "CGO_ENABLED", "-trimpath":
			main.Properties = append(main.Properties, billProperty{"go:" + strings.TrimPrefix(s.Key, "-"), s.Value})
		}
	}
	b := bill{Format: "CycloneDX", Spec: "1.6", Version: 1, Metadata: billMetadata{main}}
	for _, m := range info.Deps {
		if m.Replace != nil {
			m = m.Replace
		}
		b.Components = append(b.Components, material("library", m))
	}
	std := material("library", &debug.Module{Path: "std", Version: strings.TrimPrefix(info.GoVersion, "go")})
	b.Components = append(b.Components, std)
	return b
}

// released is the version the linker was told, when it was.
func released(info *debug.BuildInfo) string {
	for _, s := range info.Settings {
		if _, after, found := strings.Cut(s.Value, "-X main.version="); found && s.Key == "-ldflags" {
			v, _, _ := strings.Cut(after, " ")
			return v
		}
	}
	return info.Main.Version
}

func material(kind string, m *debug.Module) billMaterial {
	url := "pkg:golang/" + m.Path + "@" + m.Version
	out := billMaterial{Type: kind, Ref: url, Name: m.Path, Version: m.Version, URL: url}
	// go.sum's digest is of the module's tree (h1), in base64.
	if raw, err := base64.StdEncoding.DecodeString(strings.TrimPrefix(m.Sum, "h1:")); err == nil && m.Sum != "" {
		out.Properties = []billProperty{{"go:h1", hex.EncodeToString(raw)}}
	}
	return out
}
