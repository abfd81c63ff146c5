// Package judge decides whether what was seen of a running Holdfast keeps the promises of
// GUARANTEES.md. It knows the promises and nothing of the code that keeps them: it sees the bare
// keys of the store, and what callers sent and were told.
//
//   - Replay looks at every revision of the store.
//   - History asks whether what callers were told can have happened one after the other.
//   - Set is a resource that loses updates when somebody writes who no longer holds it.
//   - Calm looks at the time after the last fault: all is decided, all comes free.
//
// It is for tests. Each of the four has histories that it must find illegal.
package judge
