#!/usr/bin/env bash
# Sends the bodies of this folder to a development server, one after the other, and shows each
# answer. Start one first: `make dev`. Run this by `make demo`.
set -euo pipefail
cd "$(dirname "$0")"

url="${HOLDFAST_URL:-http://127.0.0.1:7420}"
token="${HOLDFAST_TOKEN:-$(cd ../.. && "${GO:-go}" run ./cmd/holdfast token)}"
answer=""

send() { # send METHOD PATH [BODY FILE] [KEY]
  local method="$1" path="$2" file="${3:-}" key="${4:-}"
  local args=(-sS -X "$method" -H "Authorization: Bearer $token" --max-time 10)
  [ -z "$file" ] || args+=(-H 'Content-Type: application/json' --data-binary "@$file")
  [ -z "$key" ] || args+=(-H "Idempotency-Key: $key")
  printf '\n\033[1m%s %s\033[0m %s\n' "$method" "$path" "$file"
  answer="$(curl "${args[@]}" -w '\n%{http_code}' "$url$path")"
  printf '%s  %s\n' "${answer##*$'\n'}" "${answer%$'\n'*}"
}

id() { printf '%s' "$answer" | grep -oE 'rsv_[0-9A-Z]{26}' | head -n 1; }

send POST /v1/limits 01-limit.json # 409 limit-exists the second time: fine
send POST /v1/limits 02-limit-day.json
send POST /v1/checks 03-preview.json

key="demo-$$"
send POST /v1/reservations 04-reserve.json "$key"
hold="$(id)"
send POST /v1/reservations 04-reserve.json "$key" # the same hold again, not a second one
send POST "/v1/reservations/$hold/extend" 05-extend.json
send POST "/v1/reservations/$hold/commit" 06-commit.json
send POST "/v1/reservations/$hold/extend" 05-extend.json # 410: what has ended stays ended

send POST /v1/reservations 04-reserve.json
second="$(id)"
send POST /v1/reservations 04-reserve.json
third="$(id)"
send POST /v1/reservations 04-reserve.json # 429: two are held
send POST "/v1/reservations/$second/release" 07-release.json
send POST "/v1/reservations/$third/release" 07-release.json

send POST /v1/checks 08-consume.json
send GET '/v1/usage/now?limit=demo-report-pages'
