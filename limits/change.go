package limits

import "github.com/holdfast-dev/holdfast/windows"

// CheckChange says whether a limit may become another of the same id. Between counting
// windows anything goes (StartsAnew tells whether counts do); a window never changes to or
// from concurrent or bucket, and share never changes: what stands under the old keys could
// not be judged by the new rule.
// Errors: *FixedError naming "/window", "/share" or both.
func CheckChange(old, new Limit) error {
	var fixed []string
	if old.Window.Kind != new.Window.Kind && !(counting(old.Window.Kind) && counting(new.Window.Kind)) {
		fixed = append(fixed, "/window")
	}
	if old.Share != new.Share {
		fixed = append(fixed, "/share")
	}
	if fixed == nil {
		return nil
	}
	return &FixedError{Fields: fixed}
}

// StartsAnew reports whether the change makes counts start anew, so that the limit needs a
// new generation: the window or its rolling is another. A bucket's refill is no such change.
func StartsAnew(old, new Limit) bool {
	return old.Window.Kind != new.Window.Kind || old.Window.Rolling != new.Window.Rolling
}

// counting reports whether use is counted in slices or periods.
func counting(k windows.Kind) bool { return k >= windows.Second && k <= windows.Total }
