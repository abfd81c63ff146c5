package api

// UsageNow is what one subject has used of one limit at this moment. Subject is absent for a
// limit shared by all.
type UsageNow struct {
	Limit     string   `json:"limit"`
	Subject   *Subject `json:"subject,omitempty"`
	Used      int64    `json:"used"`
	Amount    int64    `json:"amount"`    // in force; null on the wire when Unlimited
	Remaining int64    `json:"remaining"` // likewise
	Unlimited bool     `json:"unlimited,omitempty"`
	Excess    int64    `json:"excess,omitempty"`
}

// UsagePage is the answer of GET /v1/usage/now.
type UsagePage = Page[UsageNow]

// Usage is what one limit did within an hour or a day. Charged counts units, all else
// reservations and checks.
type Usage struct {
	Limit     string `json:"limit"`
	From      Time   `json:"from"`
	To        Time   `json:"to"`
	Started   int64  `json:"started"`
	Refused   int64  `json:"refused"`
	Committed int64  `json:"committed"`
	Released  int64  `json:"released"`
	Expired   int64  `json:"expired"`
	Forced    int64  `json:"forced"`
	Charged   int64  `json:"charged"`
}

// UsageHistory is the answer of GET /v1/usage: hours or days in which anything was done, by
// limit and time. Complete is there when one subject was asked for: false says that more
// subjects came than are told apart, so that counts may be too low.
type UsageHistory struct {
	Data       []Usage `json:"data"`
	NextCursor *string `json:"nextCursor"`
	Complete   *bool   `json:"complete,omitempty"`
}

// SubjectView is the answer of GET /v1/subjects/{kind}/{id}.
type SubjectView struct {
	Subject           Subject       `json:"subject"`
	Limits            []Verdict     `json:"limits"`
	Holds             []Reservation `json:"holds"`
	Waiters           []Waiter      `json:"waiters"`
	Refusals          []Refusal     `json:"refusals"` // latest first
	BlockedUntil      *Time         `json:"blockedUntil,omitempty"`
	BlockedForSeconds *int64        `json:"blockedForSeconds,omitempty"`
}

// Waiter is a caller waiting in line. Place counts from 1.
type Waiter struct {
	ID              string  `json:"id"`
	Limit           string  `json:"limit"`
	Subject         Subject `json:"subject"`
	Place           int64   `json:"place"`
	Owner           Owner   `json:"owner"`
	Since           Time    `json:"since"`
	GivesUpAt       Time    `json:"givesUpAt"`
	EstimateSeconds *int64  `json:"estimateSeconds,omitempty"`
}

// WaiterPage is the answer of GET /v1/waiters.
type WaiterPage = Page[Waiter]

// Explanation is the answer of GET /v1/explain. Place is where the caller would stand in line,
// from 1; nil: there is nothing to wait for.
type Explanation struct {
	Allowed         bool      `json:"allowed"`
	Limits          []Verdict `json:"limits"`
	Holders         []Holder  `json:"holders"`
	Place           *int64    `json:"place"`
	EstimateSeconds *int64    `json:"estimateSeconds,omitempty"`
	WouldAdmit      string    `json:"wouldAdmit"` // a sentence
}

// Refusal is one past refusal, as far as the replica asked remembers it, or several alike within
// a second.
type Refusal struct {
	At     Time   `json:"at"`
	Action string `json:"action"`
	Limit  string `json:"limit,omitempty"`
	Code   Code   `json:"code"`
	Cost   int64  `json:"cost"`
	Count  int64  `json:"count"`
}
