package api

import (
	"errors"
	"strings"
	"testing"
)

// Bodies that must be refused, each with its kind and the first place named.
// Rules: API.md section 1; FAULTS part 2 rows 10 and 12; CASES O04 step 3.
func TestDecode_Refuses(t *testing.T) {
	t.Parallel()
	deep := strings.Repeat(`{"a":`, 9) + "1" + strings.Repeat("}", 9)
	for name, c := range map[string]struct {
		body    string
		code    Code
		pointer string
	}{
		// Not JSON.
		"nothing":                        {``, InvalidBody, ""},
		"white space alone":              {" \n", InvalidBody, ""},
		"a byte order mark":              {"\ufeff{\"action\":\"a\"}", InvalidBody, ""},
		"a brace alone":                  {`{`, InvalidBody, ""},
		"no closing brace":               {`{"action":"a"`, InvalidBody, ""},
		"a comma at the end":             {`{"action":"a",}`, InvalidBody, ""},
		"two commas":                     {`{"action":"a",,"cost":1}`, InvalidBody, ""},
		"no comma":                       {`{"action":"a" "cost":1}`, InvalidBody, ""},
		"no colon":                       {`{"action" "a"}`, InvalidBody, ""},
		"a name without quotes":          {`{action:"a"}`, InvalidBody, ""},
		"single quotes":                  {`{'action':'a'}`, InvalidBody, ""},
		"a comment":                      {`{"action":"a"/*x*/}`, InvalidBody, ""},
		"no value":                       {`{"action":}`, InvalidBody, "/action"},
		"a bare word":                    {`{"action":a}`, InvalidBody, "/action"},
		"a bare word for an object":      {`{"action":"a","subject":x}`, InvalidBody, "/subject"},
		"a brace for an object":          {`{"action":"a","subject":}}`, InvalidBody, "/subject"},
		"a bare word for a label":        {`{"action":"a","labels":{"x":y}}`, InvalidBody, "/labels/x"},
		"half of true":                   {`{"action":tru}`, InvalidBody, "/action"},
		"NaN":                            {`{"action":"a","cost":NaN}`, InvalidBody, "/cost"},
		"infinity":                       {`{"action":"a","cost":-Infinity}`, InvalidBody, "/cost"},
		"a plus":                         {`{"action":"a","cost":+1}`, InvalidBody, "/cost"},
		"a nought before":                {`{"action":"a","cost":01}`, InvalidBody, ""},
		"hexadecimal":                    {`{"action":"a","cost":0x1}`, InvalidBody, ""},
		"a minus alone":                  {`{"action":"a","cost":-}`, InvalidBody, "/cost"},
		"a point without digits":         {`{"action":"a","cost":1.}`, InvalidBody, "/cost"},
		"an exponent without digits":     {`{"action":"a","cost":1e}`, InvalidBody, "/cost"},
		"a string without end":           {`{"action":"a`, InvalidBody, "/action"},
		"a string ending in a backslash": {`{"action":"a\`, InvalidBody, "/action"},
		"an escape without end":          {`{"action":"\u00`, InvalidBody, "/action"},
		"an unknown escape":              {`{"action":"\x41"}`, InvalidBody, "/action"},
		"an escape of no hex":            {`{"action":"\u00g0"}`, InvalidBody, "/action"},
		"a bare line feed in a string":   {"{\"action\":\"a\nb\"}", InvalidBody, "/action"},
		"a bare NUL in a string":         {"{\"action\":\"a\x00b\"}", InvalidBody, "/action"},
		"a bare tab after an escape":     {"{\"action\":\"\\n\tb\"}", InvalidBody, "/action"},
		"NUL after the value":            {"{\"action\":\"a\"}\x00", InvalidBody, ""},
		"a second value":                 {`{"action":"a"}{"action":"b"}`, InvalidBody, ""},
		"a word after the value":         {`{"action":"a"} x`, InvalidBody, ""},
		"nested too deep":                {`{"action":"a","z":` + deep + `}`, InvalidBody, "/z"},
		"lists nested too deep":          {`{"action":"a","z":[[[[[[[[1]]]]]]]]}`, InvalidBody, "/z"},
		// Not UTF-8, or what others would read as U+FFFD. FAULTS part 2 row 10.
		"invalid UTF-8 in a value":        {"{\"action\":\"a\xff\"}", InvalidBody, "/action"},
		"invalid UTF-8 in a name":         {"{\"acti\xc3on\":\"a\"}", InvalidBody, ""},
		"invalid UTF-8 after an escape":   {"{\"action\":\"\\n\xff\"}", InvalidBody, "/action"},
		"an overlong form":                {"{\"action\":\"\xc0\xaf\"}", InvalidBody, "/action"},
		"a surrogate in UTF-8":            {"{\"action\":\"\xed\xa0\x80\"}", InvalidBody, "/action"},
		"a lone high surrogate":           {`{"action":"\ud800"}`, InvalidBody, "/action"},
		"a lone low surrogate":            {`{"action":"\udc00"}`, InvalidBody, "/action"},
		"two high surrogates":             {`{"action":"\ud800\ud800"}`, InvalidBody, "/action"},
		"a high surrogate, then a letter": {`{"action":"\ud800\u0061"}`, InvalidBody, "/action"},
		"a high surrogate, cut":           {`{"action":"\ud83d\u"}`, InvalidBody, "/action"},
		"a lone surrogate in a subject":   {`{"action":"a","subject":{"kind":"user","id":"\udfff"}}`, InvalidBody, "/subject/id"},
		"a lone surrogate as a label":     {`{"action":"a","labels":{"\ud800":"x"}}`, InvalidBody, "/labels"},
		"a lone surrogate where unknown":  {`{"action":"a","z":"\ud800"}`, InvalidBody, "/z"},
		// Names. FAULTS part 2 row 12.
		"an unknown name":               {`{"action":"a","ttl":1}`, InvalidBody, "/ttl"},
		"another case":                  {`{"Action":"a"}`, InvalidBody, "/Action"},
		"another case beside the right": {`{"action":"a","ACTION":"b"}`, InvalidBody, "/ACTION"},
		"a Kelvin sign for a k":         {`{"action":"a","subject":{"\u212aind":"user","id":"i","kind":"u"}}`, InvalidBody, "/subject/\u212aind"},
		"a name twice":                  {`{"action":"a","action":"a"}`, InvalidBody, "/action"},
		"a name twice, once escaped":    {`{"action":"a","\u0061ction":"b"}`, InvalidBody, "/action"},
		"a name twice within":           {`{"action":"a","subject":{"kind":"u","id":"i","id":"j"}}`, InvalidBody, "/subject/id"},
		"a label twice":                 {`{"action":"a","labels":{"x":"1","x":"2"}}`, InvalidBody, "/labels/x"},
		"a name twice where unknown":    {`{"action":"a","z":{"x":1,"x":2}}`, InvalidBody, "/z"},
		"the empty name":                {`{"action":"a","":1}`, InvalidBody, "/"},
		"a name to escape":              {`{"action":"a","a/b~c":1}`, InvalidBody, "/a~1b~0c"},
		"an unknown name within":        {`{"action":"a","owner":{"mail":"x"}}`, InvalidBody, "/owner/mail"},
		"the answer's name":             {`{"action":"a","limits":[]}`, InvalidBody, "/limits"},
		// Types.
		"null":                       {`null`, InvalidBody, ""},
		"a list":                     {`[{"action":"a"}]`, InvalidBody, ""},
		"a string":                   {`"action"`, InvalidBody, ""},
		"a number":                   {`1`, InvalidBody, ""},
		"true":                       {`true`, InvalidBody, ""},
		"null where a word is meant": {`{"action":null}`, InvalidBody, "/action"},
		"null for what may lack":     {`{"action":"a","ttlSeconds":null}`, InvalidBody, "/ttlSeconds"},
		"null for an object":         {`{"action":"a","subject":null}`, InvalidBody, "/subject"},
		"null for labels":            {`{"action":"a","labels":null}`, InvalidBody, "/labels"},
		"null for a label":           {`{"action":"a","labels":{"x":null}}`, InvalidBody, "/labels/x"},
		"a string for a number":      {`{"action":"a","ttlSeconds":"300"}`, InvalidBody, "/ttlSeconds"},
		"true for a number":          {`{"action":"a","cost":true}`, InvalidBody, "/cost"},
		"a list for a number":        {`{"action":"a","cost":[1]}`, InvalidBody, "/cost"},
		"a number for a string":      {`{"action":5}`, InvalidBody, "/action"},
		"an object for a string":     {`{"action":{}}`, InvalidBody, "/action"},
		"a string for an object":     {`{"action":"a","subject":"user:u1"}`, InvalidBody, "/subject"},
		"a list for a map":           {`{"action":"a","labels":["x"]}`, InvalidBody, "/labels"},
		"a number for a label":       {`{"action":"a","labels":{"x":1}}`, InvalidBody, "/labels/x"},
		"a string for a pid":         {`{"action":"a","owner":{"pid":"7"}}`, InvalidBody, "/owner/pid"},
		// Values.
		"a missing name":                  {`{}`, InvalidValue, "/action"},
		"a missing name within":           {`{"action":"a","subject":{"id":"i"}}`, InvalidValue, "/subject/kind"},
		"a fraction":                      {`{"action":"a","ttlSeconds":1.5}`, InvalidValue, "/ttlSeconds"},
		"a whole number with a point":     {`{"action":"a","cost":1.0}`, InvalidValue, "/cost"},
		"a whole number with an exponent": {`{"action":"a","cost":1e3}`, InvalidValue, "/cost"},
		"an exponent in capitals":         {`{"action":"a","cost":1E+3}`, InvalidValue, "/cost"},
		"below the bound":                 {`{"action":"a","cost":-1}`, InvalidValue, "/cost"},
		"above the bound":                 {`{"action":"a","cost":1000000001}`, InvalidValue, "/cost"},
		"above 64 bits":                   {`{"action":"a","cost":9223372036854775808}`, InvalidValue, "/cost"},
		"2^64":                            {`{"action":"a","cost":18446744073709551616}`, InvalidValue, "/cost"},
		"far below 64 bits":               {`{"action":"a","cost":-99999999999999999999}`, InvalidValue, "/cost"},
		"a ttl of nought":                 {`{"action":"a","ttlSeconds":0}`, InvalidValue, "/ttlSeconds"},
		"a ttl of one":                    {`{"action":"a","ttlSeconds":1}`, InvalidValue, "/ttlSeconds"},
		"a ttl below nought":              {`{"action":"a","ttlSeconds":-5}`, InvalidValue, "/ttlSeconds"},
		"a ttl too long":                  {`{"action":"a","ttlSeconds":3601}`, InvalidValue, "/ttlSeconds"},
		"a wait too long":                 {`{"action":"a","waitSeconds":61}`, InvalidValue, "/waitSeconds"},
		"an unknown mode":                 {`{"action":"a","mode":"Reserve"}`, InvalidValue, "/mode"},
		"an empty mode":                   {`{"action":"a","mode":""}`, InvalidValue, "/mode"},
		"a pid below nought":              {`{"action":"a","owner":{"pid":-1}}`, InvalidValue, "/owner/pid"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			refused(t, c.body, &CheckRequest{}, c.code, c.pointer)
		})
	}
}

// The same for bodies of other kinds.
func TestDecode_RefusesOthers(t *testing.T) {
	t.Parallel()
	limit := func(more string) string {
		return `{"name":"n","subjectKind":"user","action":"a","amount":1,"window":"hour"` + more + `}`
	}
	for name, c := range map[string]struct {
		into    any
		body    string
		code    Code
		pointer string
	}{
		"an id that is a number":     {&HeartbeatRequest{}, `{"ids":["a",7]}`, InvalidBody, "/ids/1"},
		"a comma after the last id":  {&HeartbeatRequest{}, `{"ids":["a",]}`, InvalidBody, "/ids/1"},
		"ids that are null":          {&HeartbeatRequest{}, `{"ids":null}`, InvalidBody, "/ids"},
		"an amount left out":         {&OverrideInput{}, `{}`, InvalidValue, "/amount"},
		"an override's fraction":     {&OverrideInput{}, `{"amount":1.5}`, InvalidValue, "/amount"},
		"an override too great":      {&OverrideInput{}, `{"amount":1000000001}`, InvalidValue, "/amount"},
		"an override's text":         {&OverrideInput{}, `{"amount":"10"}`, InvalidBody, "/amount"},
		"an end that is null":        {&OverrideInput{}, `{"amount":1,"until":null}`, InvalidBody, "/until"},
		"an end that is a number":    {&OverrideInput{}, `{"amount":1,"until":1757000000}`, InvalidBody, "/until"},
		"an end without a zone":      {&OverrideInput{}, `{"amount":1,"until":"2026-09-04T18:00:00"}`, InvalidValue, "/until"},
		"an end with a comma":        {&OverrideInput{}, `{"amount":1,"until":"2026-09-04T18:00:00,5Z"}`, InvalidValue, "/until"},
		"an end on no day":           {&OverrideInput{}, `{"amount":1,"until":"2026-02-30T18:00:00Z"}`, InvalidValue, "/until"},
		"an end before year nought":  {&OverrideInput{}, `{"amount":1,"until":"0000-01-01T00:00:00+23:00"}`, InvalidValue, "/until"},
		"an end after year 9999":     {&OverrideInput{}, `{"amount":1,"until":"9999-12-31T23:59:59-01:00"}`, InvalidValue, "/until"},
		"no fence":                   {&ForceReleaseRequest{}, `{"reason":"r"}`, InvalidValue, "/fence"},
		"a clock that stands":        {&ClockRequest{}, `{"advanceSeconds":0}`, InvalidValue, "/advanceSeconds"},
		"a clock beyond 400 days":    {&ClockRequest{}, `{"advanceSeconds":34560001}`, InvalidValue, "/advanceSeconds"},
		"an unknown window":          {&LimitInput{}, `{"name":"n","subjectKind":"u","action":"a","amount":1,"window":"hours"}`, InvalidValue, "/window"},
		"no window":                  {&LimitInput{}, `{"name":"n","subjectKind":"u","action":"a","amount":1}`, InvalidValue, "/window"},
		"a refill out of range":      {&LimitInput{}, limit(`,"refillPerSecond":1e999`), InvalidValue, "/refillPerSecond"},
		"a refill that is text":      {&LimitInput{}, limit(`,"refillPerSecond":"1"`), InvalidBody, "/refillPerSecond"},
		"rolling as a word":          {&LimitInput{}, limit(`,"rolling":"true"`), InvalidBody, "/rolling"},
		"rolling as null":            {&LimitInput{}, limit(`,"rolling":null`), InvalidBody, "/rolling"},
		"a share of nobody":          {&LimitInput{}, limit(`,"share":"some"`), InvalidValue, "/share"},
		"twice in a read-only field": {&LimitInput{}, limit(`,"source":{"a":1,"a":2}`), InvalidBody, "/source/a"},
		"a fault in a file":          {&LimitsFile{}, `{"limits":[` + limit(``) + `,` + limit(`,"rate":1`) + `]}`, InvalidBody, "/limits/1/rate"},
		"a plan twice":               {&LimitsFile{}, `{"limits":[],"plans":{"p":{},"p":{}}}`, InvalidBody, "/plans/p"},
		"a plan without an amount":   {&LimitsFile{}, `{"limits":[],"plans":{"p":{"x":{}}}}`, InvalidValue, "/plans/p/x/amount"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			refused(t, c.body, c.into, c.code, c.pointer)
		})
	}
}

func refused(t *testing.T, body string, into any, code Code, pointer string) {
	t.Helper()
	err := Decode([]byte(body), into)
	var bad *DecodeError
	if !errors.As(err, &bad) {
		t.Fatalf("Decode(%q) = %v, want a *DecodeError", body, err)
	}
	if bad.Code != code || bad.Faults[0].Pointer != pointer {
		t.Errorf("Decode(%q)\n got %s at %q (%v)\nwant %s at %q", body, bad.Code, bad.Faults[0].Pointer, bad, code, pointer)
	}
	for _, f := range bad.Faults {
		if f.Detail == "" {
			t.Errorf("Decode(%q): the fault at %q says nothing", body, f.Pointer)
		}
	}
}
