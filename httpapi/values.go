package httpapi

import (
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/holdfast-dev/holdfast/api"
	"github.com/holdfast-dev/holdfast/limits"
	"github.com/holdfast-dev/holdfast/reserve"
)

// judge is what a body's values break beside their types: patterns, lengths, what depends on
// two fields. Types without such rules have no faults.
func judge(in any) []api.Fault {
	switch in := in.(type) {
	case *api.CheckRequest:
		return askedFaults(in.Subject, in.Action, in.Owner, in.Labels)
	case *api.ReserveRequest:
		return askedFaults(in.Subject, in.Action, in.Owner, in.Labels)
	case *api.ReleaseRequest:
		return textFaults("/reason", in.Reason, 0, reserve.MaxReason)
	case *api.HeartbeatRequest:
		return listFaults("/ids", len(in.IDs), api.MaxHeartbeats)
	case *api.FenceRequest:
		return subjectFaults("/subject", &in.Subject)
	case *api.LimitInput:
		_, err := LimitOf(in)
		return faultsOf("", err)
	case *api.OverrideInput:
		return textFaults("/reason", in.Reason, 0, limits.MaxReason)
	case *api.ResetRequest:
		return append(subjectFaults("/subject", in.Subject), textFaults("/reason", in.Reason, 1, limits.MaxReason)...)
	case *api.ForceReleaseRequest:
		return textFaults("/reason", in.Reason, 1, reserve.MaxReason)
	}
	return nil
}

// askedFaults are those of a check or a reservation.
func askedFaults(subject *api.Subject, action string, owner *api.Owner, labels map[string]string) []api.Fault {
	faults := subjectFaults("/subject", subject)
	faults = append(faults, faultsOf("", limits.Action(action).Validate())...)
	if owner != nil {
		faults = append(faults, textFaults("/owner/name", owner.Name, 0, reserve.MaxOwnerName)...)
		faults = append(faults, textFaults("/owner/host", owner.Host, 0, reserve.MaxOwnerName)...)
		faults = append(faults, textFaults("/owner/url", owner.URL, 0, reserve.MaxOwnerURL)...)
	}
	if len(labels) > 0 {
		faults = append(faults, faultsOf("", limits.CheckLabels(labels))...)
	}
	return faults
}

func subjectFaults(at string, s *api.Subject) []api.Fault {
	if s == nil {
		return nil
	}
	return faultsOf(at, limits.Subject{Kind: s.Kind, ID: s.ID}.Validate())
}

func textFaults(at, s string, least, most int) []api.Fault {
	if len(s) >= least && len(s) <= most && printable(s) {
		return nil
	}
	return []api.Fault{{Pointer: at, Detail: fmt.Sprintf("must be %d to %d bytes of readable text", least, most)}}
}

func listFaults(at string, n, most int) []api.Fault {
	if n >= 1 && n <= most {
		return nil
	}
	return []api.Fault{{Pointer: at, Detail: fmt.Sprintf("must have 1 to %d entries", most)}}
}

// printable reports whether s is valid UTF-8 without control characters.
func printable(s string) bool {
	return utf8.ValidString(s) && strings.IndexFunc(s, unicode.IsControl) < 0
}

func equalFoldASCII(a, b string) bool { return len(a) == len(b) && strings.EqualFold(a, b) }

// faultsOf are the faults of a *limits.InvalidError, told under prefix; nil for any other.
func faultsOf(prefix string, err error) []api.Fault {
	e, ok := err.(*limits.InvalidError) //nolint:errorlint // never wrapped by the makers asked here
	if !ok {
		return nil
	}
	faults := make([]api.Fault, len(e.Faults))
	for i, f := range e.Faults {
		faults[i] = api.Fault{Pointer: prefix + f.Field, Detail: f.Reason}
	}
	return faults
}
