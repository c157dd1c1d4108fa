package gateway

import (
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"time"
)

// maxErrorBody is how much of an engine's refusal is read.
const maxErrorBody = 64 << 10

// maxErrorText bounds what an engine can put into our error messages.
const maxErrorText = 2000

// engineError is an engine's refusal as it writes it: {"error":{"code","message","type",…}}.
type engineError struct {
	Message      string          `json:"message"`
	Type         string          `json:"type"`
	Code         json.RawMessage `json:"code"`
	Param        *string         `json:"param"`
	PromptTokens *int64          `json:"n_prompt_tokens"`
	Context      *int64          `json:"n_ctx"`
}

// refused reads an engine's answer that is an error, to its end so that the seat is free at once, and turns it into
// ours. The engine's status stays; the shape becomes the route's.
func refused(resp *http.Response, rt endpoint) *Error {
	body, err := io.ReadAll(io.LimitReader(resp.Body, maxErrorBody))
	if err != nil || len(body) == maxErrorBody {
		body = nil
	}
	e := engineRefusal(resp.StatusCode, errorMember(body), rt)
	if e.RetryAfter == 0 && (e.Status == 429 || e.Status == 503) {
		e.RetryAfter = retryAfter(resp.Header)
	}
	return e
}

// errorMember finds the error object of a JSON text; a bare string counts as its message.
func errorMember(body []byte) engineError {
	var doc struct {
		Error json.RawMessage `json:"error"`
	}
	var e engineError
	if json.Unmarshal(body, &doc) != nil {
		return e
	}
	if json.Unmarshal(doc.Error, &e) != nil {
		e = engineError{}
		_ = json.Unmarshal(doc.Error, &e.Message)
	}
	return e
}

// engineRefusal is the one place where an engine's own words become ours.
func engineRefusal(status int, in engineError, rt endpoint) *Error {
	e := &Error{Status: status, Type: short(in.Type), Message: clip(in.Message)}
	if e.Message == "" {
		e.Message = "the engine refused the request with status " + strconv.Itoa(status)
	}
	var code string
	if json.Unmarshal(in.Code, &code) == nil {
		e.Code = short(code)
	}
	if e.Code == "" {
		e.Code = cmp.Or(e.Type, "engine_refused")
	}
	if in.Param != nil {
		e.Param = short(*in.Param)
	}
	if in.PromptTokens != nil && in.Context != nil {
		e.Code = "context_length_exceeded"
		e.Numbers = map[string]int64{"n_prompt_tokens": *in.PromptTokens, "n_ctx": *in.Context}
		if rt.kind == kindMessages { // the words by which clients of that API know to shorten the conversation
			e.Message = fmt.Sprintf("prompt is too long: %d tokens > %d maximum", *in.PromptTokens, *in.Context)
		}
	}
	return e
}

// short keeps an engine's type or code only when it looks like one.
func short(s string) string {
	if len(s) > 64 || !printable(s) {
		return ""
	}
	return s
}

func clip(s string) string {
	if len(s) > maxErrorText {
		return s[:maxErrorText]
	}
	return s
}

func retryAfter(h http.Header) time.Duration {
	if n, err := strconv.Atoi(h.Get("Retry-After")); err == nil && n > 0 && n <= 3600 {
		return time.Duration(n) * time.Second
	}
	return 5 * time.Second
}

// brokeOff is an engine that ended or reset its answer before it was complete.
func brokeOff() *Error {
	return &Error{Status: http.StatusBadGateway, Code: "engine_broke_off", Message: "the engine broke off before its answer was complete; try again"}
}

// fellSilent is an engine that no longer works on the request.
func fellSilent() *Error {
	return &Error{Status: http.StatusGatewayTimeout, Code: "engine_silent", Message: "the engine fell silent and is being restarted; try again"}
}

// unreadable is an engine whose answer makes no sense.
func unreadable() *Error {
	return &Error{Status: http.StatusBadGateway, Code: "engine_unreadable", Message: "the engine's answer could not be understood; try again"}
}
