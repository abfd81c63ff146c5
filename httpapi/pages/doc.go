// Package pages answers the browser: it signs people in, turns what the domain says into view
// values of package web, and does what their forms ask for. It decides nothing about limits or
// holds itself, and has no HTML of its own.
//
// It stands beside httpapi, behind the same edge, which gives each request its id, its log line
// and its bound; it shares httpapi's table of errors, which it is handed as a function.
package pages
