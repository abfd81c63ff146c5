// Package web turns view values into the HTML of the admin page. It knows tables, cells and
// forms; it knows neither limits nor holds, asks nobody anything and reads no clock: whoever
// makes a view has decided what is shown, to whom, and as of when.
//
// A page is readable without script. What changes by itself is in tables and fields, which the
// script of the page patches cell by cell (Diff); it is given text and numbers, never HTML.
package web
