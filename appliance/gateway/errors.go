package gateway

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"strconv"
	"time"

	"github.com/labstack/echo/v4"

	"viiwork/engine"
)

// Error is an answer that is not the one the client hoped for. Handlers return it before they have written anything;
// WriteError gives it the shape of the API the client speaks.
type Error struct {
	Status     int
	Type       string // of the OpenAI shape; "" = by Status
	Code       string // machine-readable; "" = null
	Message    string // for a person, ends with what to do where there is something to do
	Param      string // the field at fault; "" = null
	RetryAfter time.Duration
	// Numbers go beside the message: n_prompt_tokens and n_ctx of a prompt that does not fit.
	Numbers map[string]int64
}

func (e *Error) Error() string { return e.Message }

// StatusClientGone is recorded for a request whose client left before its answer was complete. Nobody reads it on the
// wire except a client whose request the owner cancelled.
const StatusClientGone = 499

// Reasons a request's context ends, as causes.
var (
	errQueueTimeout = errors.New("waited as long as the queue allows")
	errCancelled    = errors.New("cancelled on request")
	errStopped      = errors.New("the node was stopped")
)

// WriteError answers with err in the shape of the API that the request's path belongs to. It does nothing once an
// answer has begun.
func WriteError(c echo.Context, err error) {
	if c.Response().Committed {
		return
	}
	e := asError(err)
	h := c.Response().Header()
	if e.RetryAfter > 0 {
		h.Set("Retry-After", strconv.Itoa(int((e.RetryAfter+time.Second-1)/time.Second)))
	}
	h.Del("Trailer")
	h.Set("Content-Type", "application/json")
	h.Set("Cache-Control", "no-store")
	body := e.body(anthropic(c.Request().URL.Path))
	h.Set("Content-Length", strconv.Itoa(len(body)))
	c.Response().WriteHeader(e.Status)
	if c.Request().Method != http.MethodHead {
		_, _ = c.Response().Write(body)
	}
}

// asError is the table that turns any error into an answer. What it does not know is a fault of ours and says nothing
// of its cause.
func asError(err error) *Error {
	var own *Error
	var web *echo.HTTPError
	switch {
	case errors.As(err, &own):
		return own
	case errors.As(err, &web):
		return webError(web.Code)
	case errors.Is(err, errQueueTimeout):
		return &Error{Status: 429, Code: "queue_timeout", RetryAfter: 2 * time.Second, Message: "no slot became free in time; try again shortly"}
	case errors.Is(err, engine.ErrLineFull), errors.Is(err, engine.ErrFull):
		return &Error{Status: 429, Code: "queue_full", RetryAfter: 2 * time.Second, Message: "too many requests are waiting for this model; try again shortly"}
	case errors.Is(err, engine.ErrDraining):
		return &Error{Status: 503, Code: "draining", RetryAfter: 5 * time.Second, Message: "this node is draining and takes no new requests; try again later or use another node"}
	case errors.Is(err, engine.ErrNotReady):
		return &Error{Status: 503, Code: "model_not_ready", RetryAfter: 5 * time.Second, Message: "the model is not ready; try again shortly"}
	case errors.Is(err, errStopped):
		return &Error{Status: 503, Code: "node_stopped", RetryAfter: 5 * time.Second, Message: "this node was stopped before the answer was complete; try again"}
	case errors.Is(err, errCancelled):
		return &Error{Status: StatusClientGone, Code: "request_cancelled", Message: "the request was cancelled by this node's owner"}
	case errors.Is(err, context.Canceled):
		return &Error{Status: StatusClientGone, Code: "client_gone", Message: "the client left"}
	}
	return &Error{Status: 500, Code: "internal_error", Message: "something went wrong inside this node; its log says what"}
}

func webError(code int) *Error {
	switch code {
	case http.StatusNotFound:
		return &Error{Status: code, Code: "not_found", Message: "there is nothing at this path; see GET /v1/models and the documentation for the routes served"}
	case http.StatusMethodNotAllowed:
		return &Error{Status: code, Code: "method_not_allowed", Message: "this path does not take this method; the Allow header lists those it takes"}
	}
	return &Error{Status: code, Message: http.StatusText(code)}
}

// body renders the error as a JSON document.
func (e *Error) body(anthropic bool) []byte {
	inner := map[string]any{"message": e.Message}
	for k, v := range e.Numbers {
		inner[k] = v
	}
	var doc any
	if anthropic {
		inner["type"] = anthropicType(e.Status)
		doc = map[string]any{"type": "error", "error": inner}
	} else {
		inner["type"], inner["param"], inner["code"] = e.kind(), orNull(e.Param), orNull(e.Code)
		doc = map[string]any{"error": inner}
	}
	b, err := json.Marshal(doc)
	if err != nil { // cannot be: the document holds only strings and numbers
		return []byte(`{"error":{"message":"internal error","type":"server_error","param":null,"code":null}}`)
	}
	return b
}

// event renders the error as the last event of a stream.
func (e *Error) event(k kind) []byte {
	switch k {
	case kindMessages:
		return concat("event: error\ndata: ", e.body(true), "\n\n")
	case kindResponses:
		// The API's own error event keeps its facts at the top; official clients look for "error".
		b, err := json.Marshal(map[string]any{"type": "error", "code": orNull(e.Code), "message": e.Message, "param": orNull(e.Param),
			"error": map[string]any{"message": e.Message, "type": e.kind(), "param": orNull(e.Param), "code": orNull(e.Code)}})
		if err == nil {
			return concat("event: error\ndata: ", b, "\n\n")
		}
	}
	return concat("data: ", e.body(false), "\n\n")
}

// kind is the OpenAI error type.
func (e *Error) kind() string {
	switch {
	case e.Type != "":
		return e.Type
	case e.Status == http.StatusTooManyRequests:
		return "rate_limit_error"
	case e.Status == http.StatusForbidden:
		return "permission_error"
	case e.Status == http.StatusUnauthorized:
		return "authentication_error"
	case e.Status >= 500:
		return "server_error"
	}
	return "invalid_request_error"
}

func anthropicType(status int) string {
	switch status {
	case http.StatusUnauthorized:
		return "authentication_error"
	case http.StatusForbidden:
		return "permission_error"
	case http.StatusNotFound:
		return "not_found_error"
	case http.StatusRequestEntityTooLarge:
		return "request_too_large"
	case http.StatusTooManyRequests:
		return "rate_limit_error"
	case http.StatusServiceUnavailable:
		return "overloaded_error"
	}
	if status >= 500 {
		return "api_error"
	}
	return "invalid_request_error"
}

func orNull(s string) any {
	if s == "" {
		return nil
	}
	return s
}

func concat(head string, body []byte, tail string) []byte {
	b := make([]byte, 0, len(head)+len(body)+len(tail))
	return append(append(append(b, head...), body...), tail...)
}
