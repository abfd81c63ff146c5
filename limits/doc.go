// Package limits says what may be done, by whom and how often: subjects, actions, limits,
// overrides and blocks, and the catalogue of those in force.
//
// Everything here is a value. A Catalog never changes once it is made, and everything it
// hands out belongs to it and must not be written to. The package knows bounds and matching;
// it does not know how much was used, what the time is, or how any of it is written down. The
// end of an override or of a pause is data, not a rule: only a new catalogue ends it.
package limits
