package limits

import "github.com/holdfast-dev/holdfast/windows"

// Samples are the limits that `holdfast dev` starts with (CLI.md section 2), by id, valid
// and enabled. Each call makes new ones.
func Samples() []Limit {
	samples := []Limit{
		{
			ID: "burst", Name: "Calls in a burst", SubjectKind: "user", Action: "call",
			Amount: 20, Window: windows.Window{Kind: windows.Bucket, Refill: 10 * windows.NanoUnit},
		},
		{
			ID: "calls", Name: "Calls a day", SubjectKind: "user", Action: "call",
			Amount: 100, Window: windows.Window{Kind: windows.Day, Rolling: true},
		},
		{
			ID: "exports", Name: "Exports at once", SubjectKind: "user", Action: "export",
			Amount: 3, Window: windows.Window{Kind: windows.Concurrent},
		},
		{
			ID: "gpu", Name: "Trainings at once", SubjectKind: Any, Action: "train",
			Amount: 2, Window: windows.Window{Kind: windows.Concurrent}, Share: All,
		},
	}
	for i := range samples {
		samples[i].Enabled = true
		samples[i] = samples[i].WithDefaults()
	}
	return samples
}
