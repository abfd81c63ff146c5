// Package load asks a server for work and measures how long the answers take: in a closed loop,
// where each worker asks again when it was answered, or in an open one, where requests arrive at
// a constant rate whatever the server does and a late answer is charged from the moment its
// request was to start (no coordinated omission).
//
// It knows the wire (package api), one lean HTTP/1.1 connection a worker, and histograms. It
// starts no server, makes no limits and judges no figure: `holdfast bench` and the module in
// bench/ do. Rule: ADR 11, cases HF-1101 to HF-1108.
package load
