package main

import (
	"errors"
	"path/filepath"
	"strings"

	"github.com/holdfast-dev/holdfast/api"
	"github.com/holdfast-dev/holdfast/auth"
	"github.com/holdfast-dev/holdfast/catalogue"
	"github.com/holdfast-dev/holdfast/httpapi"
	"github.com/holdfast-dev/holdfast/limits"
)

// limitsFile is the limits of a file, judged and ready to be imported.
type limitsFile struct {
	path   string
	tenant string // whose limits they are
	file   catalogue.File
	read   *httpapi.LimitsFile // nil: these are the samples
}

// samples stand in for a file.
func samples() *limitsFile {
	return &limitsFile{path: "the samples", tenant: devTenant, file: catalogue.File{Limits: limits.Samples(), Source: sourceAPI}}
}

// readLimitsFile reads {"limits":[…],"plans":{…}} in YAML or JSON, by the strict rules of the
// API's bodies. Errors: a *failure that names everything wrong, with where it is.
func (a *app) readLimitsFile(path string) (*limitsFile, error) {
	data, err := a.readInput(path)
	if err != nil {
		return nil, err
	}
	read, err := httpapi.ReadLimitsFile(data, !isJSONFile(path))
	if bad, ok := errors.AsType[*api.DecodeError](err); ok {
		return nil, faultsIn(path, bad.Faults)
	}
	if err != nil {
		return nil, usage("%s: %w", path, err)
	}
	return &limitsFile{path: path, tenant: auth.DefaultTenant, file: read.File(), read: read}, nil
}

// maxLimitsFiles bounds how many files a server follows: one goroutine each.
const maxLimitsFiles = 100

// readLimitsFiles reads what --limits-file names: FILE, or TENANT=FILE. A word before "=" that
// is no tenant, such as ./a, is part of the file's name.
// Errors: a *failure.
func (a *app) readLimitsFiles(named []string) ([]*limitsFile, error) {
	if len(named) > maxLimitsFiles {
		return nil, usage("--limits-file names %d files; it takes %d", len(named), maxLimitsFiles)
	}
	files := make([]*limitsFile, len(named))
	for i, name := range named {
		tenant, path, found := strings.Cut(name, "=")
		if !found || !auth.ValidTenant(tenant) {
			tenant, path = auth.DefaultTenant, name
		}
		file, err := a.readLimitsFile(path)
		if err != nil {
			return nil, err
		}
		file.tenant, files[i] = tenant, file
		for _, before := range files[:i] {
			if before.tenant == tenant {
				return nil, usage("--limits-file: %s and %s are both of the tenant %s", before.path, path, tenant).
					next("for another tenant", "--limits-file TENANT="+path)
			}
		}
	}
	return files, nil
}

// isJSONFile goes by the name; everything else is read as YAML, which JSON mostly is too.
func isJSONFile(path string) bool { return strings.EqualFold(filepath.Ext(path), ".json") }

// faultsIn is the failure of a file, all its faults at once.
func faultsIn(path string, faults []api.Fault) *failure {
	texts := make([]string, len(faults))
	for i, f := range faults {
		texts[i] = faultText(f)
	}
	return usage("%s: %s", path, strings.Join(texts, "; ")).next("a limit as it must be", "holdfast limits get ID -o yaml")
}

// faultText puts the line, which begins a detail, before the pointer.
func faultText(f api.Fault) string {
	line, rest, found := strings.Cut(f.Detail, ": ")
	if !found || !strings.HasPrefix(line, "line ") {
		return strings.TrimSpace(f.Pointer + " " + f.Detail)
	}
	return line + ": " + strings.TrimSpace(f.Pointer+" "+rest)
}
