package api

import "encoding/json"

// What is unlimited has no amount and nothing that remains: both are null, so that nobody
// counts with a stand-in. Read back they are 0 beside Unlimited.

// ceiling is n, nil when there is none.
func ceiling(n int64, unlimited bool) *int64 {
	if unlimited {
		return nil
	}
	return &n
}

// MarshalJSON is the form that AppendJSON writes, for those who use encoding/json.
func (v Verdict) MarshalJSON() ([]byte, error) {
	return json.Marshal(struct {
		ID                string `json:"id"`
		Window            string `json:"window"`
		Rolling           bool   `json:"rolling,omitempty"`
		Amount            *int64 `json:"amount"`
		Used              int64  `json:"used"`
		Remaining         *int64 `json:"remaining"`
		Allowed           bool   `json:"allowed"`
		Unlimited         bool   `json:"unlimited,omitempty"`
		Paused            bool   `json:"paused,omitempty"`
		Shadow            bool   `json:"shadow,omitempty"`
		NeverFits         bool   `json:"neverFits,omitempty"`
		Excess            int64  `json:"excess,omitempty"`
		Waiting           int64  `json:"waiting,omitempty"`
		ResetsAt          *Time  `json:"resetsAt,omitempty"`
		ResetsInSeconds   *int64 `json:"resetsInSeconds,omitempty"`
		RetryAfterSeconds *int64 `json:"retryAfterSeconds,omitempty"`
		RetryAfterMs      *int64 `json:"retryAfterMs,omitempty"`
	}{
		v.ID, v.Window, v.Rolling, ceiling(v.Amount, v.Unlimited), v.Used, ceiling(v.Remaining, v.Unlimited), v.Allowed,
		v.Unlimited, v.Paused, v.Shadow, v.NeverFits, v.Excess, v.Waiting, v.ResetsAt, v.ResetsInSeconds, v.RetryAfterSeconds, v.RetryAfterMs,
	})
}

// MarshalJSON writes null for what an unlimited subject has no figure of.
func (u UsageNow) MarshalJSON() ([]byte, error) {
	return json.Marshal(struct {
		Limit     string   `json:"limit"`
		Subject   *Subject `json:"subject,omitempty"`
		Used      int64    `json:"used"`
		Amount    *int64   `json:"amount"`
		Remaining *int64   `json:"remaining"`
		Unlimited bool     `json:"unlimited,omitempty"`
		Excess    int64    `json:"excess,omitempty"`
	}{u.Limit, u.Subject, u.Used, ceiling(u.Amount, u.Unlimited), ceiling(u.Remaining, u.Unlimited), u.Unlimited, u.Excess})
}
