#!/bin/sh
# A report that is written by one run at a time. Run it by `holdfast exec`:
#
#   holdfast exec export user:reports --wait 1m -- ./report.sh /var/reports/today.txt
#
# exec sees to it that this script has ended before the slot may be given on. What it cannot see
# to is a write that is still on its way; so the slot's fence is kept beside the report, and
# whoever comes with a lower one than was seen is refused.
set -eu

report=${1:?usage: report.sh FILE}
: "${HOLDFAST_FENCE:?run it by holdfast exec}"
seen="$report.slot-$HOLDFAST_SLOT.fence"

last=$(cat "$seen" 2>/dev/null || echo 0)
if [ "$HOLDFAST_FENCE" -lt "$last" ]; then
	echo "report.sh: slot $HOLDFAST_SLOT has had a later holder (fence $last, mine is $HOLDFAST_FENCE)" >&2
	exit 1
fi
echo "$HOLDFAST_FENCE" >"$seen"

# The work. TERM ends it when the hold is lost; what is half done stays in the temporary file.
trap 'rm -f "$report.$$"' EXIT
trap 'exit 143' TERM
{
	echo "report of $(date -u +%Y-%m-%dT%H:%M:%SZ), slot $HOLDFAST_SLOT, fence $HOLDFAST_FENCE"
	df -P /
} >"$report.$$"
mv "$report.$$" "$report"
