package integration

import (
	"fmt"
	"regexp"
	"strings"
	"testing"
)

// Rows of the fault matrix and of the threats. A row that is added is added here, too.
const (
	faultRowsOfTheMatrix = 56
	threatRows           = 36
)

var faultTableRow = regexp.MustCompile(`(?m)^\| ([23]\.\d+) \| ([^|]+) \| (.+) \|$`)

// Every row is there once, in order, and is borne by a test or says why by none.
func TestFaults_TableIsWhole(t *testing.T) {
	t.Parallel()
	var want []string
	for n := range faultRowsOfTheMatrix {
		want = append(want, fmt.Sprintf("2.%d", n+1))
	}
	for n := range threatRows {
		want = append(want, fmt.Sprintf("3.%d", n+1))
	}
	rows := faultTableRow.FindAllStringSubmatch(document(t, "docs/conformance/faults.md"), -1)
	for i, row := range rows {
		if i >= len(want) || row[1] != want[i] {
			t.Fatalf("row %d of the table is %s, want %s", i+1, row[1], want[min(i, len(want)-1)])
		}
		why := strings.HasPrefix(row[3], "Not") || strings.HasPrefix(row[3], "Open")
		if !why && !testName.MatchString(row[3]) {
			t.Errorf("row %s (%s) names no test and gives no reason: %s", row[1], row[2], row[3])
		}
	}
	if len(rows) != len(want) {
		t.Errorf("%d rows, want %d", len(rows), len(want))
	}
}
