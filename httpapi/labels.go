package httpapi

import (
	"net/http"
	"strconv"
)

// knownMethod keeps what a client invents out of labels and log lines.
func knownMethod(method string) string {
	switch method {
	case http.MethodGet, http.MethodHead, http.MethodPost, http.MethodPut,
		http.MethodPatch, http.MethodDelete, http.MethodOptions:
		return method
	}
	return "other"
}

// statusTexts saves the hot path an allocation.
var statusTexts = func() (all [600]string) {
	for i := range all {
		all[i] = strconv.Itoa(i)
	}
	return all
}()

func statusText(status int) string {
	if status < 0 || status >= len(statusTexts) {
		return "other"
	}
	return statusTexts[status]
}
