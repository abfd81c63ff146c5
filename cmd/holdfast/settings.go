package main

import (
	"fmt"
	"net/url"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/goccy/go-yaml"
	"github.com/knadh/koanf/v2"
	"github.com/spf13/pflag"
)

// kind is what a setting's text must be.
type kind uint8

const (
	text   kind = iota
	toggle      // true or false
	length      // a time.Duration
	list        // texts, separated by commas
	count       // a whole number, 0 or more
)

// setting is one thing that can be set: as a flag, in the environment, in a file.
type setting struct {
	name  string // of the flag, and of the key in the file
	kind  kind
	def   string
	value string // what help calls the value: FILE, ADDRESS
	help  string
	env   string   // when it is not HOLDFAST_ and the name
	short string   // one-letter flag
	words []string // the values allowed, when they are few
}

// variable is the name of the setting in the environment.
func (s setting) variable() string {
	if s.env != "" {
		return s.env
	}
	return "HOLDFAST_" + strings.ToUpper(strings.ReplaceAll(s.name, "-", "_"))
}

// register adds a flag for each setting. Flags hold text; read judges it.
func register(flags *pflag.FlagSet, settings []setting) {
	for _, s := range settings {
		help := s.help
		if s.value != "" {
			help = strings.Replace(help, s.value, "`"+s.value+"`", 1)
		}
		if s.kind == toggle {
			flags.BoolP(s.name, s.short, s.def == "true", help)
			continue
		}
		flags.StringP(s.name, s.short, s.def, help)
	}
}

// settled is the settings as read: their values, and where each came from.
type settled struct {
	values  *koanf.Koanf
	origins map[string]string // by name: flag, env, file or default
}

// read lays flags over the environment over the file over the defaults.
// Errors: a *failure naming every value that cannot be, and where it was written.
func (a *app) read(flags *pflag.FlagSet, settings []setting) (settled, error) {
	file, err := a.readFile()
	if err != nil {
		return settled{}, err
	}
	out := settled{koanf.New("/"), map[string]string{}}
	var faults []string
	for _, s := range settings {
		raw, origin := s.def, "default"
		if v, ok := file[s.name]; ok {
			raw, origin = v, "file"
		}
		if v, ok := a.env[s.variable()]; ok && v != "" {
			raw, origin = v, "env"
		}
		if f := flags.Lookup(s.name); f != nil && f.Changed {
			raw, origin = f.Value.String(), "flag"
		}
		value, err := s.parse(raw)
		if err != nil {
			faults = append(faults, s.where(origin, a.file)+": "+err.Error())
			continue
		}
		out.origins[s.name] = origin
		if err := out.values.Set(s.name, value); err != nil {
			return settled{}, err
		}
	}
	if len(faults) > 0 {
		return settled{}, usage("%s", strings.Join(faults, "; ")).next("all settings", "holdfast config reference")
	}
	return out, nil
}

// into fills a struct whose fields bear the names of settings in `koanf` tags.
func (s settled) into(out any) error { return s.values.Unmarshal("", out) }

// where says how the user wrote the setting.
func (s setting) where(origin, file string) string {
	switch origin {
	case "env":
		return s.variable()
	case "file":
		return file + ": " + s.name
	default:
		return "--" + s.name
	}
}

// parse judges the text of a setting.
func (s setting) parse(raw string) (any, error) {
	if len(s.words) > 0 && !slices.Contains(s.words, raw) {
		return nil, fmt.Errorf("%q is not one of %s", raw, strings.Join(s.words, ", "))
	}
	switch s.kind {
	case toggle:
		v, err := strconv.ParseBool(raw)
		if err != nil {
			return nil, fmt.Errorf("%q is neither true nor false", raw)
		}
		return v, nil
	case length:
		v, err := time.ParseDuration(raw)
		if err != nil || v < 0 {
			return nil, fmt.Errorf("%q is no length of time such as 30s, 15m or 2h", raw)
		}
		return v, nil
	case count:
		v, err := strconv.ParseUint(raw, 10, 31)
		if err != nil {
			return nil, fmt.Errorf("%q is no whole number from 0 on", raw)
		}
		return int(v), nil
	case list:
		parts := []string{}
		for part := range strings.SplitSeq(raw, ",") {
			if part = strings.TrimSpace(part); part != "" {
				parts = append(parts, part)
			}
		}
		return parts, nil
	default:
		return raw, nil
	}
}

// maxConfigFile bounds a settings file, in bytes.
const maxConfigFile = 1 << 20

// readFile reads the --config file, by name of setting. A name that is not there is refused,
// and so is one written twice: a slip in a file must not become a default in silence.
func (a *app) readFile() (map[string]string, error) {
	if a.file == "" {
		a.file = a.env["HOLDFAST_CONFIG"]
	}
	if a.file == "" {
		return nil, nil
	}
	data, err := os.ReadFile(a.file)
	if err != nil {
		return nil, usage("the settings file cannot be read: %w", err).next("leave out", "--config and HOLDFAST_CONFIG")
	}
	if len(data) > maxConfigFile {
		return nil, usage("%s is larger than %d bytes", a.file, maxConfigFile)
	}
	raw := map[string]any{}
	if err := yaml.UnmarshalWithOptions(data, &raw, yaml.Strict()); err != nil {
		return nil, usage("%s: %s", a.file, strings.TrimSpace(yaml.FormatError(err, false, false)))
	}
	return flatten(a.file, raw)
}

// flatten turns the values of a file into texts, and refuses names that are not settings.
func flatten(file string, raw map[string]any) (map[string]string, error) {
	known := knownSettings()
	out := map[string]string{}
	for name, value := range raw {
		if !slices.Contains(known, name) {
			failed := usage("%s: %q is not a setting", file, name)
			if near := nearest(name, known); near != "" {
				failed.next("did you mean", near)
			}
			return nil, failed.next("all settings", "holdfast config reference")
		}
		switch v := value.(type) {
		case []any:
			parts := make([]string, len(v))
			for i := range v {
				parts[i] = fmt.Sprint(v[i])
			}
			out[name] = strings.Join(parts, ",")
		case map[string]any, nil:
			return nil, usage("%s: %s must be one value or a list", file, name)
		default:
			out[name] = fmt.Sprint(v)
		}
	}
	return out, nil
}

// isURL checks an absolute http or https URL.
func isURL(raw string) bool {
	u, err := url.Parse(raw)
	return err == nil && (u.Scheme == "http" || u.Scheme == "https") && u.Host != ""
}
