// Package etcdtest starts real embedded etcd for tests and bends what lies between a test and
// it: calls that fail before they are sent, after they were committed, or that are committed
// late (FaultKV), and calls that are counted (CountingKV, CountingLease).
//
// It knows how Holdfast configures the etcd it embeds (DESIGN.md section 9) and nothing of
// Holdfast itself, so that every layer that needs etcd can test with it. Everything it starts
// is stopped and awaited by the test's cleanup.
package etcdtest
