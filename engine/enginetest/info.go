package enginetest

import (
	"fmt"
	"net/http"
	"strings"
	"time"
)

func (s *Server) health(w http.ResponseWriter, _ *http.Request) {
	send(w, http.StatusOK, map[string]string{"status": "ok"})
}

func (s *Server) props(w http.ResponseWriter, _ *http.Request) {
	send(w, http.StatusOK, object{
		"default_generation_settings": object{"params": settings(taskParams{-1, -1, false}), "n_ctx": s.o.Context},
		"total_slots":                 s.o.Slots,
		"model_alias":                 s.o.Model,
		"model_ftype":                 "F16",
		"model_path":                  s.o.Model + ".gguf",
		"modalities":                  object{"vision": false, "video": false, "audio": false},
		"media_marker":                "<__media__>",
		"endpoint_slots":              !s.o.NoSlots,
		"endpoint_props":              false,
		"endpoint_metrics":            !s.o.NoMetrics,
		"ui":                          true,
		"ui_settings":                 object{},
		"chat_template":               chatTemplate,
		"chat_template_caps":          object{"supports_system_role": true, "supports_string_content": true, "supports_tools": false},
		"bos_token":                   marks[0],
		"eos_token":                   marks[2],
		"build_info":                  build,
		"is_sleeping":                 false,
		"cors_proxy_enabled":          false,
	})
}

func (s *Server) models(w http.ResponseWriter, _ *http.Request) {
	send(w, http.StatusOK, object{
		"object": "list",
		"models": []object{{"name": s.o.Model, "model": s.o.Model, "type": "model", "capabilities": []string{"completion"}}},
		"data": []object{{
			"id": s.o.Model, "aliases": []string{s.o.Model}, "tags": []string{}, "object": "model",
			"architecture": object{"input_modalities": []string{"text"}, "output_modalities": []string{"text"}},
			"created":      time.Now().Unix(), "owned_by": "llamacpp",
			"meta": object{"vocab_type": 2, "n_vocab": tokensTotal, "n_ctx": s.o.Context, "n_ctx_train": 32768,
				"n_embd": tinyWidth, "n_params": 2509056, "size": 5022720, "ftype": "F16"},
		}},
	})
}

// settings are the sampling parameters as the engine reports them, as far as anybody reads them.
func settings(p taskParams) object {
	return object{"seed": 4294967295, "temperature": 0.800000011920929, "top_k": 40, "top_p": 0.949999988079071,
		"min_p": 0.05000000074505806, "max_tokens": p.max, "n_predict": p.predict, "n_keep": 0, "ignore_eos": false,
		"stream": p.stream, "n_probs": 0, "generation_prompt": "", "timings_per_token": false, "lora": []any{}}
}

func (s *Server) listSlots(w http.ResponseWriter, r *http.Request) {
	if s.o.NoSlots {
		sendError(w, notSupported("slots endpoint", "--slots"))
		return
	}
	s.needsLoop(r)
	var list []object
	free := 0
	s.slots.update(func() {
		for _, sl := range s.slots.slots {
			if !sl.busy {
				free++
			}
			list = append(list, s.describe(sl))
		}
	})
	if r.URL.Query().Get("fail_on_no_slot") != "" && free == 0 {
		sendError(w, apiError{Code: 503, Type: "unavailable_error", Message: "no slot available"})
		return
	}
	send(w, http.StatusOK, list)
}

func (s *Server) describe(sl *slot) object {
	v := object{"id": sl.id, "n_ctx": s.o.Context, "speculative": false, "is_processing": sl.busy}
	if !sl.used {
		return v
	}
	next := object{"has_next_token": false, "has_new_line": false, "n_remain": -1, "n_decoded": 0}
	v["id_task"] = sl.task
	v["n_prompt_tokens"] = len(sl.tokens)
	v["n_prompt_tokens_processed"], v["n_prompt_tokens_cache"] = 0, 0
	if sl.busy {
		v["n_prompt_tokens_processed"], v["n_prompt_tokens_cache"] = sl.processed, sl.cached
		next["has_next_token"], next["n_remain"], next["n_decoded"] = sl.decoded > 0, sl.remain, sl.decoded
	}
	v["params"] = settings(sl.params)
	v["next_token"] = []object{next}
	return v
}

func (s *Server) metrics(w http.ResponseWriter, r *http.Request) {
	if s.o.NoMetrics {
		sendError(w, notSupported("metrics endpoint", "--metrics"))
		return
	}
	s.needsLoop(r)
	var t totals
	busy, deferred := 0, 0
	s.slots.update(func() {
		t, deferred = s.slots.totals, len(s.slots.line)
		for _, sl := range s.slots.slots {
			if sl.busy {
				busy++
			}
		}
	})
	rate := func(n int, seconds float64) float64 {
		if seconds <= 0 {
			return 0
		}
		return float64(n) / seconds
	}
	var b strings.Builder
	for _, m := range []struct {
		kind, name, help string
		value            float64
	}{
		{"counter", "prompt_tokens_total", "Number of prompt tokens processed, excluding cached tokens", float64(t.prompt)},
		{"counter", "prompt_tokens_cached_total", "Number of prompt tokens reused from the cache", float64(t.cached)},
		{"counter", "prompt_seconds_total", "Total time spent processing prompts", t.promptSeconds},
		{"counter", "tokens_predicted_total", "Number of generation tokens processed", float64(t.predicted)},
		{"counter", "tokens_predicted_seconds_total", "Total time spent generating tokens", t.predictedSeconds},
		{"counter", "n_decode_total", "Total number of llama_decode() calls", float64(t.decodes)},
		{"counter", "n_tokens_max", "Largest observed sequence length", float64(t.longest)},
		{"counter", "spec_decode_num_draft_tokens_total", "Speculative: draft tokens generated", 0},
		{"counter", "spec_decode_num_accepted_tokens_total", "Speculative: draft tokens accepted", 0},
		{"counter", "spec_decode_num_drafts_total", "Speculative: verification steps", 0},
		{"gauge", "prompt_tokens_seconds", "Average prompt throughput in tokens/s", rate(t.prompt, t.promptSeconds)},
		{"gauge", "predicted_tokens_seconds", "Average generation throughput in tokens/s", rate(t.predicted, t.predictedSeconds)},
		{"gauge", "requests_processing", "Number of requests processing", float64(busy)},
		{"gauge", "requests_deferred", "Number of requests deferred", float64(deferred)},
		{"gauge", "n_busy_slots_per_decode", "Average number of busy slots per llama_decode() call", 1},
	} {
		fmt.Fprintf(&b, "# HELP llamacpp:%s %s\n# TYPE llamacpp:%s %s\nllamacpp:%s %g\n", m.name, m.help, m.name, m.kind, m.name, m.value)
	}
	w.Header().Set("Content-Type", "text/plain; version=0.0.4")
	fmt.Fprint(w, b.String())
}
