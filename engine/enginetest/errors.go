package enginetest

import (
	"errors"
	"fmt"
	"net/http"
)

// apiError is an error answer. Prompt and Context are set when a prompt is over the slot's context.
type apiError struct {
	Code    int    `json:"code"`
	Message string `json:"message"`
	Type    string `json:"type"`
	Prompt  int    `json:"n_prompt_tokens,omitempty"`
	Context int    `json:"n_ctx,omitempty"`
}

func (e apiError) Error() string { return e.Message }

func badRequest(format string, args ...any) apiError {
	return apiError{Code: 400, Type: "invalid_request_error", Message: fmt.Sprintf(format, args...)}
}

func unsupported(what, flag string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) { sendError(w, notSupported(what, flag)) }
}

func notSupported(what, flag string) apiError {
	return apiError{Code: 501, Type: "not_supported_error",
		Message: fmt.Sprintf("This server does not support %s. Start it with `%s`", what, flag)}
}

func sendError(w http.ResponseWriter, e apiError) {
	w.Header().Set("Connection", "close")
	send(w, e.Code, map[string]apiError{"error": e})
}

func send(w http.ResponseWriter, status int, v any) {
	w.Header().Set("Content-Type", "application/json; charset=utf-8")
	w.WriteHeader(status)
	w.Write(encode(v))
}

func asAPIError(err error) apiError {
	var e apiError
	if errors.As(err, &e) {
		return e
	}
	return apiError{Code: 500, Type: "server_error", Message: err.Error()}
}
