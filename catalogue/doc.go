// Package catalogue edits what may be done: limits, overrides, pauses and blocks of a tenant.
//
// It knows one rule (DESIGN.md section 3, "Amounts"): whatever changes an amount is one
// transaction that compares the revision of the catalogue and raises its counter. So no edit
// can be lost under another, a grant that was decided before an edit cannot be written after
// it, and generations, which are taken from the counter, never repeat. It does not know what
// is held or counted: holds of a deleted limit stay, counts of another generation are nothing
// by themselves.
package catalogue
