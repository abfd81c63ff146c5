// Package api is what goes over the wire: requests, answers, problem documents and their
// codes, as API.md and openapi.yaml spell them. Both ends import it and neither owns it.
//
// It knows JSON and names; it does not know what a limit means, who may ask, or how HTTP is
// served. It imports the standard library alone, so that workers can too.
//
// A request is read with [Decode], which is strict, and an answer is written with
// [AppendJSON] or encoding/json, which agree. Fields that a caller may leave out are
// pointers, so that absent differs from zero. Numbers that carry a unit say so in their name.
//
// The tag `rule` on a request's field says what Decode checks beside the type:
//
//	required   the name must be there
//	min= max=  bounds of a whole number, both included
//	enum=a|b   the words allowed
//
// Everything else (patterns, lengths, what depends on two fields) is the domain's to judge.
package api
