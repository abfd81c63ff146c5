package load

import "github.com/holdfast-dev/holdfast/api"

// Windows are what the limits of a measurement count by, in this order, so that figures of
// different runs are of the same work. The slice is the caller's.
func Windows() []api.LimitInput {
	return []api.LimitInput{
		{Window: "day", Rolling: true},
		{Window: "hour"},
		{Window: "minute", Rolling: true},
		{Window: "month"},
		{Window: "hour", Rolling: true},
		{Window: "week"},
		{Window: "minute"},
		{Window: "day"},
		{Window: "total"},
		{Window: "second"},
	}
}
