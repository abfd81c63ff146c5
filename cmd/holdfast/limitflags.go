package main

import (
	"encoding/json"
	"strings"

	"github.com/spf13/pflag"
)

// limitFlags are the fields of a limit as flags. Only those that were given are sent.
type limitFlags struct {
	set  *pflag.FlagSet
	text map[string]*string
}

// limitField says how a flag is spelt on the wire.
type limitField struct {
	flag, field string
	kind        kind // text or toggle; numbers are sent as they are written
	number      bool
	help        string
}

var limitFields = []limitField{
	{flag: "name", field: "name", help: "what people call it"},
	{flag: "description", field: "description", help: "what it is for"},
	{flag: "subject-kind", field: "subjectKind", help: "the `KIND` of subject it counts, or * for any"},
	{flag: "action", field: "action", help: "the `ACTION` it counts, or * for any"},
	{flag: "amount", field: "amount", number: true, help: "how much: `N` at once, or in a window (bucket: the burst)"},
	{flag: "window", field: "window", help: "`WINDOW`: second, minute, hour, day, week, month, total, concurrent or bucket"},
	{flag: "rolling", field: "rolling", kind: toggle, help: "a window that ends now, instead of one of the calendar"},
	{flag: "refill-per-second", field: "refillPerSecond", number: true, help: "bucket: refill `N` a second"},
	{flag: "share", field: "share", help: "each subject its own count, or `WHOSE`: all for one count together"},
	{flag: "on-expiry", field: "onExpiry", help: "what an expired hold does to its charge: `WHAT` is refund or charge"},
	{flag: "overage", field: "overage", help: "what a commit above its estimate does: `WHAT` is record or reject"},
	{flag: "ttl-seconds", field: "ttlSeconds", number: true, help: "holds last `N` seconds when not told"},
	{flag: "max-ttl-seconds", field: "maxTtlSeconds", number: true, help: "holds last `N` seconds at most"},
	{flag: "enforce", field: "enforce", kind: toggle, help: "refuse by it (--enforce=false: only judge, count and tell)"},
	{flag: "enabled", field: "enabled", kind: toggle, help: "enforce it (--enabled=false: do not)"},
}

func (f *limitFlags) register(flags *pflag.FlagSet) {
	f.set, f.text = flags, map[string]*string{}
	for _, field := range limitFields {
		f.text[field.flag] = flags.String(field.flag, "", field.help)
		if field.kind == toggle {
			flags.Lookup(field.flag).NoOptDefVal = "true"
		}
	}
}

// fields are the fields that were given, as they go into a body. A number goes as it was
// typed, so that the server judges it.
func (f *limitFlags) fields() (map[string]any, error) {
	out := map[string]any{}
	for _, field := range limitFields {
		if !f.set.Changed(field.flag) {
			continue
		}
		raw := *f.text[field.flag]
		switch {
		case field.kind == toggle:
			value, err := setting{kind: toggle}.parse(raw)
			if err != nil {
				return nil, usage("--%s: %w", field.flag, err).next("written as", "--"+field.flag+"=true or --"+field.flag+"=false")
			}
			out[field.field] = value
		case field.number:
			if !json.Valid([]byte(raw)) || strings.Trim(raw, "-+.0123456789eE") != "" {
				return nil, usage("--%s: %q is no number", field.flag, raw).next("for example", "--"+field.flag+" 10")
			}
			out[field.field] = json.RawMessage(raw)
		default:
			out[field.field] = raw
		}
	}
	return out, nil
}
