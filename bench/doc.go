// Command bench measures Holdfast against what people would pick instead, in one interleaved run
// on one machine:
//
//	go -C bench run . compare
//
// It is a module of its own, so that the product does not carry the peers' drivers. It builds
// Holdfast, starts and stops every server on free loopback ports, drives all of them with the
// same generator (package load), and prints the table of bars with figures beside them. What each
// figure is bought with in durability is told in BENCHMARKS.md.
package main
