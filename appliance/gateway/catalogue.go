package gateway

import (
	"net/http"

	"github.com/labstack/echo/v4"
)

// modelInfo is what clients that know a LiteLLM proxy ask for the size of a context.
func (g *Gateway) modelInfo(c echo.Context) error {
	type params struct {
		Model string `json:"model"`
	}
	type info struct {
		ID        string `json:"id"`
		Provider  string `json:"litellm_provider"`
		Mode      string `json:"mode"`
		MaxTokens *int   `json:"max_tokens"`
		MaxInput  *int   `json:"max_input_tokens"`
		MaxOutput *int   `json:"max_output_tokens"`
	}
	type item struct {
		Name   string `json:"model_name"`
		Params params `json:"litellm_params"`
		Info   info   `json:"model_info"`
	}
	list := []item{}
	for _, m := range g.listed() {
		var size *int // null while it is not known
		if n := m.context(); n > 0 {
			size = &n
		}
		list = append(list, item{m.name, params{"openai/" + m.name}, info{m.name, "openai", "chat", size, size, size}})
	}
	return c.JSON(http.StatusOK, map[string]any{"data": list})
}

// catalogue is what OpenCode takes for a list of providers: this mesh as one of them, under the address it was asked by.
func (g *Gateway) catalogue(c echo.Context) error {
	type limit struct {
		Context int `json:"context"`
		Output  int `json:"output"`
	}
	type item struct {
		ID          string `json:"id"`
		Name        string `json:"name"`
		Released    string `json:"release_date"` // must be there; when a model was made is not known
		Attachment  bool   `json:"attachment"`
		Reasoning   bool   `json:"reasoning"`
		Temperature bool   `json:"temperature"`
		ToolCall    bool   `json:"tool_call"`
		Limit       limit  `json:"limit"` // 0 = not known, which is how that client reads it
	}
	models := map[string]item{}
	for _, m := range g.listed() {
		size := m.context()
		models[m.name] = item{ID: m.name, Name: m.name, Released: g.born.UTC().Format("2006-01-02"), Temperature: true, ToolCall: true, Limit: limit{size, size}}
	}
	return c.JSON(http.StatusOK, map[string]any{"viiwork": map[string]any{
		"id": "viiwork", "name": "viiwork", "npm": "@ai-sdk/openai-compatible", "env": []string{},
		"api": "http://" + c.Request().Host + "/v1", "models": models,
	}})
}
